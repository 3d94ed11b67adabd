/** What people do in the simulation: all the verbs of a producer, with whatever can be asked of them. */

import type { JobChanges } from "../../src/core/changes.ts";
import { isFinished, type NewJob } from "../../src/core/job.ts";
import { CATCH_UPS, OVERLAPS } from "../../src/core/schedule.ts";
import { firstTime } from "../../src/recovery/schedule_times.ts";
import { SHORTEST_GRACE_MS } from "./handlers.ts";
import { newJob, type JobOverrides } from "../support/jobs.ts";
import type { World } from "./world.ts";

export const SCHEDULES = ["s", "t", "u"];
export const LIMITS = ["x", "y", "other"];
const QUEUES = ["default", "default", "other"];

export function anyJob({ chance, recorder }: World): JobOverrides {
  const jobs = [...recorder.jobs.values()];
  const waits = jobs.length > 0 && chance.of(0.35);
  const kind = chance.pick(["after", "after", "after_any", "after_failed"] as const);
  const of_task = waits && chance.of(0.15) && jobs.some(({ task }) => task === "t");
  const parents = of_task
    ? { after_task: ["t"] }
    : waits
      ? { [kind]: [...new Set([chance.pick(jobs).id, chance.pick(jobs).id])] }
      : {};
  return {
    ...parents,
    queue: chance.pick(QUEUES),
    task: chance.of(0.2) ? "t" : null,
    key: chance.of(0.5) ? chance.pick(["k", "l"]) : null,
    if_exists: chance.pick(["skip", "skip", "replace", "fail"] as const),
    priority: chance.between(0, 2),
    limits: chance.of(0.3) ? (chance.of(0.2) ? ["x", "y"] : [chance.pick(["x", "y"])]) : [],
    needs: chance.of(0.2) ? chance.pick([{ gpu: 1 }, { gpu: 2 }, { mem: 4 }, { gpu: 1, mem: 6 }]) : {},
    delay_ms: chance.of(0.2) ? chance.between(1, 5_000) : 0,
    settings: {
      on_failed: chance.of(0.3) ? "tell" : null,
      retries: chance.between(0, 3),
      retry_on: chance.of(0.1) ? "lost" : "any",
      lease_ms: chance.of(0.2) ? 4_000 : null,
      timeout_ms: chance.of(0.1) ? 6_000 : null,
    },
  };
}

/** Its job is like any other; what lines up while nobody works must come to an end in peace. */
export async function schedule({ chance, store }: World): Promise<void> {
  const name = chance.pick(SCHEDULES);
  const doing = chance.weighted({ set: 6, pause: 1, resume: 1, drop: 1 });
  if (doing === "drop") return void (await store.dropSchedule(name));
  if (doing === "pause") return void (await store.pauseSchedule(name, true, null));
  if (doing === "resume") return void (await store.pauseSchedule(name, false, await store.now()));
  const cron = chance.of(0.2);
  const when = cron
    ? { cron: chance.pick(["* * * * *", "30 2 * * *"]), every_ms: null, zone: "Europe/Berlin" }
    : { cron: null, every_ms: chance.pick([5_000, 20_000]), zone: null };
  const job = newJob({ limits: chance.of(0.5) ? ["x"] : [], queue: chance.pick(QUEUES), settings: { retries: 1 } });
  const how = { overlap: chance.pick(OVERLAPS), catch_up: chance.pick(CATCH_UPS), jitter_ms: chance.between(0, 3_000) };
  const settings = { name, ...when, ...how, job };
  await store.setSchedule(settings, await firstTime(settings, await store.now()));
}

export async function edit({ chance, store, recorder }: World): Promise<void> {
  const jobs = [...recorder.jobs.values()];
  if (jobs.length === 0) return;
  const { id } = chance.pick(jobs);
  const other = chance.pick(jobs).id;
  const kind = chance.pick(["after", "after_any", "after_failed"] as const);
  const nobody = { after: [], after_any: [], after_failed: [], after_task: [] };
  const changes: JobChanges = {
    ...(chance.of(0.5) ? { priority: chance.between(0, 3) } : {}),
    ...(chance.of(0.3) ? { when: { run_at_ms: null, delay_ms: chance.between(0, 5_000) } } : {}),
    ...(chance.of(0.2) ? { queue: chance.pick(QUEUES) } : {}),
    ...(chance.of(0.2) ? { limits: chance.of(0.5) ? ["x"] : [] } : {}),
    ...(chance.of(0.2) ? { needs: chance.of(0.5) ? { gpu: 1 } : {} } : {}),
    ...(chance.of(0.2) ? { settings: { retries: chance.between(0, 4) } } : {}),
    ...(chance.of(0.2) ? { parents: chance.of(0.7) ? { ...nobody, [kind]: [other] } : nobody } : {}),
  };
  await store.edit([id], changes);
}

export async function limit({ chance, store }: World): Promise<void> {
  const rate = chance.of(0.3) ? { count: chance.between(1, 2), per_ms: chance.pick([3_000, 15_000]) } : null;
  const most = rate === null || chance.of(0.5) ? chance.between(0, 2) : null;
  await store.setLimit(chance.pick(LIMITS), chance.of(0.2) ? null : { most, rate });
}

export async function bulk({ chance, store }: World): Promise<void> {
  const some = () => Array.from({ length: chance.between(1, 3) }, () => newJob({ queue: chance.pick(QUEUES) }));
  await store.enqueueAll(batchesOf([some(), some()]));
}

/** The recorder can see what will be in them. */
function batchesOf(batches: readonly NewJob[][]): AsyncIterable<readonly NewJob[]> {
  const each = async function* () {
    yield* batches;
  };
  return Object.assign(each(), { jobs: batches.flat() });
}

export async function upkeep({ chance, store }: World): Promise<void> {
  const doing = chance.pick(["prune", "age", "trim", "fold", "promote"] as const);
  if (doing === "age") await store.age(chance.pick([1_000, 10_000]));
  else if (doing === "trim") await store.trimCheckpoints(chance.between(0, 2));
  else if (doing === "fold") await store.foldHistory();
  else if (doing === "promote") await store.promote();
  else {
    const query = { older_than_ms: chance.pick([0, 5_000, 60_000]), limit: chance.between(1, 5) };
    await store.prune({ ...query, states: chance.pick([["completed"], ["failed", "cancelled"]] as const) });
  }
}

export async function retry({ chance, store, recorder }: World): Promise<void> {
  const ids = [...recorder.jobs.keys()];
  const some = ids.filter(() => chance.of(0.3));
  if (ids.length > 0) await store.retry([...new Set([chance.pick(ids), ...some.toReversed()])]);
}

export async function cancel({ chance, store, recorder }: World): Promise<void> {
  const ids = [...recorder.jobs.keys()];
  if (ids.length === 0) return;
  const options = { cascade: chance.of(0.2), grace: chance.of(0.2) ? SHORTEST_GRACE_MS : null };
  await store.cancel([chance.pick(ids)], chance.of(0.5) ? "enough" : null, options);
}

/** A job that was retried, and waits for one that has ended otherwise and is not retried, waits for a person. */
export async function giveUpBlocked({ recorder, store }: World): Promise<void> {
  const unfinished = [...recorder.jobs.values()].filter(({ state }) => !isFinished(state));
  const blocked = unfinished.filter(({ state }) => state.name === "blocked");
  if (blocked.length === 0 || blocked.length < unfinished.length) return;
  recorder.checker.note("gave up what waited");
  await store.cancel(
    blocked.map(({ id }) => id),
    null,
  );
}
