/** What can be told about a store's jobs, workers and times, beside what its engine tells: looks, and changes nothing. */

import { formatDuration } from "../core/duration.ts";
import type { QueueCount, WorkerRecord } from "../core/records.ts";
import { platform } from "#platform";
import { hasCgroups } from "../platform/cgroup.ts";
import { host, isProvenDead, processText, runningFor_ms } from "../platform/machine.ts";
import { LeftoverSearch } from "../recovery/leftovers.ts";
import { leftoversOf } from "../recovery/sweep.ts";
import type { ExpiredLease, Finding } from "../store/queries.ts";
import type { Store } from "../store/store.ts";
import { FENCE_TEXTS } from "../view/fence.ts";
import { plans } from "./plans_checkup.ts";
import { quote } from "../view/text.ts";
import { workerState } from "../view/workers.ts";
import { VERSION } from "../platform/build_info.ts";
import { previewHere } from "../platform/system.ts";

const MOST_LEASES = 1_000;
/** A sweep's usual grace and the time to the next: what waits longer waits for a sweep that does not come. */
const SWEPT_WITHIN_MS = 120_000;
const CLOCKS_APART_MS = 5_000;
/** Starting can take as long as a busy store makes it wait. */
const CLOCK_STEP_MS = 60_000;
/** Before lease existed. */
const EARLIEST_MS = Date.UTC(2025, 0, 1);

export async function checkup(store: Store, store_url: string, wall_ms: number): Promise<Finding[]> {
  const now_ms = await store.now();
  const [workers, counts, paused] = await Promise.all([store.workers(), store.counts(), store.pausedQueues()]);
  const present = workers.filter(({ stopped_at_ms }) => stopped_at_ms === null);
  const dead = present.filter((worker) => worker.host === host && isProvenDead(worker.process));
  const found_dead = workers.filter((worker) => worker.ended === "dead");
  const dead_holders = [...dead, ...found_dead].map(({ id }) => id);
  const expired = await store.expired({ grace_ms: 0, dead_holders, after: null, limit: MOST_LEASES });
  const [newest] = await store.list({ limit: 1, newest_first: true });
  const latest_ms = Math.max(newest?.created_at_ms ?? 0, ...workers.map(({ seen_at_ms }) => seen_at_ms));
  const alive = present.filter((worker) => !dead.includes(worker));
  return [
    clock({ now_ms, wall_ms, latest_ms, workers: alive }),
    ...preview(),
    fence(),
    staleLeases(expired, now_ms),
    ...strangers(expired, new LeftoverSearch(await store.storeId(), store_url)),
    ...lostWorkers(alive, dead, now_ms),
    ...waiting(counts, paused, alive),
    ...(await plans(store, alive, now_ms)),
  ];
}

/** What stopping a job reaches when a worker is started as this command was. */
export function fenceInForce(): keyof typeof FENCE_TEXTS {
  if (hasCgroups()) return "cgroup";
  return platform.processCalls() === null ? "group" : "tree";
}

function preview(): Finding[] {
  const value = previewHere();
  if (value === null) return [];
  return [{ name: "system", level: "warn", value, advice: "try it, and keep what must not be lost on Linux" }];
}

function fence(): Finding {
  const found = fenceInForce();
  const value = FENCE_TEXTS[found];
  if (found === "cgroup") return okFinding("fence", value);
  const advice =
    "run workers as root, or in a delegated cgroup: systemd-run --user --scope -p Delegate=yes lease worker";
  return { name: "fence", level: "warn", value, advice };
}

export function okFinding(name: string, value: string): Finding {
  return { name, level: "ok", value, advice: null };
}

interface Times {
  now_ms: number;
  wall_ms: number;
  /** The newest moment that the store knows of. */
  latest_ms: number;
  workers: readonly WorkerRecord[];
}

export function clock({ now_ms, wall_ms, latest_ms, workers }: Times): Finding {
  const said = new Date(now_ms).toISOString();
  const warn = (value: string, advice: string): Finding => ({ name: "clock", level: "warn", value, advice });
  if (now_ms < EARLIEST_MS) {
    return { ...warn(`says ${said}`, "set the clock: due times and leases depend on it"), level: "error" };
  }
  if (latest_ms - now_ms > CLOCKS_APART_MS) {
    const value = `was set back: the store holds a time ${formatDuration(latest_ms - now_ms)} ahead`;
    return warn(value, "leases granted then end late, and delayed jobs start late; keep the clock right (NTP)");
  }
  if (Math.abs(now_ms - wall_ms) > CLOCKS_APART_MS) {
    const value = `${formatDuration(Math.abs(now_ms - wall_ms))} apart from the store's`;
    return warn(value, "the store's clock counts for jobs; set this one right (NTP)");
  }
  const stepped = workers.find((worker) => Math.abs(stepSince(worker, now_ms)) > CLOCK_STEP_MS);
  if (stepped !== undefined) {
    const step_ms = stepSince(stepped, now_ms);
    const which = `${formatDuration(Math.abs(step_ms))} ${step_ms > 0 ? "forward" : "back"}`;
    const advice = "workers measure their leases by another clock and are safe; delayed jobs moved with it";
    return warn(`was set ${which} since worker ${stepped.id} started`, advice);
  }
  return okFinding("clock", said);
}

/** How far the clock has moved beside the one that nobody can set, since the worker started; 0 where it can't be told. */
function stepSince({ process, started_at_ms, host: on }: WorkerRecord, now_ms: number): number {
  const ran_ms = on === host ? runningFor_ms(process) : null;
  return ran_ms === null ? 0 : now_ms - started_at_ms - ran_ms;
}

export function staleLeases(expired: readonly ExpiredLease[], now_ms: number): Finding {
  if (expired.length === 0) return okFinding("leases", "none has run out");
  const waited_ms = now_ms - Math.min(...expired.map(({ expires_at_ms }) => expires_at_ms));
  const dead = expired.filter(({ holder_dead }) => holder_dead).length;
  const parts = [
    ...(expired.length > dead ? [`${expired.length - dead} ran out`] : []),
    ...(dead > 0 ? [`${dead} held by dead workers`] : []),
  ];
  const ids = expired.slice(0, 3).map(({ job }) => job.id);
  const some = `job ${ids.join(", ")}${expired.length > ids.length ? " …" : ""}`;
  return {
    name: "leases",
    level: waited_ms > SWEPT_WITHIN_MS ? "error" : "warn",
    value: `${parts.join(", ")} (${some})`,
    advice: "recover them with `lease watchdog --once`; a worker without --no-sweep, or cron, does it by itself",
  };
}

/** Rows of jobs that name a process which lives and is not theirs: no sweep signals it, and none recovers the job. */
function strangers(expired: readonly ExpiredLease[], search: LeftoverSearch): Finding[] {
  return expired.flatMap((lease): Finding[] => {
    const leftovers = leftoversOf(lease);
    const stranger = leftovers === null ? null : search.stranger(leftovers);
    if (stranger === null) return [];
    const { id } = lease.job;
    const value = `the row of job ${id} is damaged: it names ${processText(stranger)}, which is not the job's`;
    const advice = `that process is left alone, and the job set aside; \`lease cancel ${id}\`, then \`lease retry ${id}\``;
    return [{ name: "processes", level: "error", value, advice }];
  });
}

function lostWorkers(alive: readonly WorkerRecord[], dead: readonly WorkerRecord[], now_ms: number): Finding[] {
  const missing = alive.filter((worker) => workerState(worker, now_ms) === "missing");
  const live = alive.filter((worker) => !missing.includes(worker));
  const slots = live.reduce((sum, worker) => sum + worker.slots, 0);
  const others = [...new Set(live.map(({ version }) => version).filter((version) => version !== VERSION))];
  const findings: Finding[] = [
    okFinding("workers", `${live.length} live, ${slots} slots`),
    ...dead.map((worker) => lost(worker, "died without a word", "`lease watchdog --once` gives back what it held")),
    ...missing.map((worker) => {
      const advice = `see whether pid ${worker.process.pid} on ${worker.host} lives and reaches the store`;
      return lost(worker, `not heard of for ${formatDuration(now_ms - worker.seen_at_ms)}`, advice);
    }),
  ];
  if (others.length === 0) return findings;
  const value = `version ${others.join(", ")} beside this ${VERSION}`;
  return [...findings, { name: "workers", level: "warn", value, advice: "restart them with the same version" }];
}

function lost({ id, name }: WorkerRecord, how: string, advice: string): Finding {
  return { name: "workers", level: "warn", value: `${name === null ? id : `${name} (${id})`} ${how}`, advice };
}

function waiting(counts: readonly QueueCount[], paused: readonly string[], alive: readonly WorkerRecord[]): Finding[] {
  const pending = counts.filter(({ state, count }) => state === "pending" && count > 0);
  return pending.flatMap(({ queue, count }): Finding[] => {
    const jobs = `${count} ${count === 1 ? "job waits" : "jobs wait"} in queue ${queue}`;
    const found = (value: string, advice: string): Finding[] => [{ name: "queues", level: "warn", value, advice }];
    if (paused.includes(queue)) return found(`${jobs}, which is paused`, `lease resume ${queue}`);
    if (alive.some(({ queues }) => queues === null || queues.includes(queue))) return [];
    return found(`${jobs}, and no worker serves it`, `lease worker -q ${quote(queue)}`);
  });
}
