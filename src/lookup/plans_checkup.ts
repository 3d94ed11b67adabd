/** What can be wrong with schedules, limits and needs: those that nobody fires, uses, or could ever meet. */

import { formatDuration } from "../core/duration.ts";
import type { WorkerRecord } from "../core/records.ts";
import { sizeOf } from "../core/resources.ts";
import type { Schedule } from "../core/schedule.ts";
import type { Finding } from "../store/queries.ts";
import type { Glance } from "../store/store.ts";

/** A watchdog from cron looks once a minute; what is later than this is fired by nobody. */
const FIRED_WITHIN_MS = 300_000;
/** As many of the waiting jobs are looked at. */
const LOOKED_AT = 1_000;

export async function plans(store: Glance, alive: readonly WorkerRecord[], now_ms: number): Promise<Finding[]> {
  const [schedules, limits] = await Promise.all([store.schedules(), store.limits()]);
  const pending = await store.list({ states: ["pending"], limit: LOOKED_AT, newest_first: false });
  const names = new Set(pending.flatMap(({ limits: joined, queue }) => [...joined, queue]));
  const counts = await store.counts();
  const queues = new Set(counts.map(({ queue }) => queue));
  const unused = limits.filter(
    ({ name, running, started, waiting }) => running + started + waiting === 0 && !names.has(name) && !queues.has(name),
  );
  const needs = new Map<string, number>();
  for (const job of pending) {
    for (const [name, amount] of Object.entries(job.needs)) {
      const most = Math.max(0, ...alive.map(({ have }) => sizeOf(have[name])));
      if (amount > most) needs.set(name, (needs.get(name) ?? 0) + 1);
    }
  }
  return [
    ...schedules.flatMap((schedule) => late(schedule, now_ms)),
    ...unused.map(({ name }) =>
      warn(
        "limits",
        `nothing counts for limit ${name}`,
        `join it with enqueue --limit ${name}, or lease limit ${name} none`,
      ),
    ),
    ...[...needs].map(([name, count]) => {
      const jobs = `${count} ${count === 1 ? "job needs" : "jobs need"} more ${name} than any live worker has`;
      return warn("needs", jobs, `start a worker with --have ${name}=…`);
    }),
  ];
}

function late({ name, paused, next_at_ms, last_at_ms, damaged }: Schedule, now_ms: number): Finding[] {
  if (damaged !== undefined) {
    const value = `schedule ${name} can't be read (${damaged}), and is not fired`;
    return [{ ...warn("schedules", value, `set it anew, or lease schedule ${name} --remove`), level: "error" }];
  }
  if (paused) return [];
  if (next_at_ms === null)
    return [warn("schedules", `schedule ${name} has no more times`, `lease schedule ${name} --remove`)];
  const late_ms = now_ms - next_at_ms;
  if (late_ms < FIRED_WITHIN_MS) return [];
  const never = last_at_ms === null ? ", and it has never fired" : "";
  const advice = "keep a worker running, or lease watchdog --once in cron";
  return [warn("schedules", `schedule ${name} was due ${formatDuration(late_ms)} ago${never}`, advice)];
}

function warn(name: string, value: string, advice: string): Finding {
  return { name, level: "warn", value, advice };
}
