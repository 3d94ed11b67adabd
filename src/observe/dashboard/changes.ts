/** What can be changed, each as a POST with JSON: the verbs of the command line, on what a page names. */

import { Hono, type Context } from "hono";
import * as v from "valibot";
import { changesOf } from "../../core/changes.ts";
import { checkLimitName, checkName } from "../../core/check_job.ts";
import type { Random } from "../../core/clock.ts";
import { LeaseError } from "../../core/errors.ts";
import type { Job, NewJob } from "../../core/job.ts";
import { draftJob } from "../../core/draft.ts";
import { RATE } from "../../core/plan_values.ts";
import { jobAt, type Schedule } from "../../core/schedule.ts";
import { readValue } from "../../core/values.ts";
import type { Store } from "../../store/store.ts";
import { refuse } from "./guard.ts";

const MOST_IDS = 1_000;
const IDS = v.pipe(v.array(v.pipe(v.number(), v.safeInteger(), v.minValue(1))), v.minLength(1), v.maxLength(MOST_IDS));
const CANCEL = v.object({ ids: IDS, reason: v.optional(v.nullable(v.pipe(v.string(), v.maxLength(1_000)))) });
const RETRY = v.object({ ids: IDS });
const QUEUE = v.object({ queue: v.string() });
const NAMED = v.object({ name: v.string() });
/** Of a job that waits; what is not said stays. */
const EDITS = ["queue", "task", "priority", "delay", "retries", "timeout", "lease"] as const;
const VALUE = v.optional(v.union([v.string(), v.number()]));
const EDIT = v.object({
  id: v.pipe(v.number(), v.safeInteger()),
  job: v.strictObject(v.entriesFromList(EDITS, VALUE)),
});
const MOST_BOUND = 1_000_000;
const LIMIT = v.object({
  name: v.string(),
  /** Null, both of them: no bound any more. */
  limit: v.nullable(v.pipe(v.number(), v.safeInteger(), v.minValue(0), v.maxValue(MOST_BOUND))),
  rate: v.nullable(v.string()),
});
const NEW_JOB = v.object({
  /** What is not said is as in that job, its environment included. */
  like: v.optional(v.nullable(v.number())),
  job: v.record(v.string(), v.unknown()),
});

/** A job as a page describes it; what is left out is as in `like`. */
type ReadJob = (json: string, like: NewJob | null) => NewJob;

async function jsonOf(c: Context): Promise<unknown> {
  try {
    return await c.req.json();
  } catch (error) {
    // What was too large is said by whoever counted it.
    if (!(error instanceof SyntaxError)) throw error;
    throw new LeaseError("usage", "what was sent is not JSON");
  }
}

/** What was sent, checked. */
async function sent<T>(c: Context, schema: v.GenericSchema<unknown, T>): Promise<T> {
  const checked = v.safeParse(schema, await jsonOf(c));
  if (checked.success) return checked.output;
  throw new LeaseError("usage", `what was sent is not understood: ${checked.issues[0].message}`);
}

/** A key is one job's own, as is its trace, and what it waited for is over. */
function like({ argv, queue, task, priority, input, cwd, env: own, settings, limits, needs }: Job): NewJob {
  const { TRACEPARENT: _context, TRACESTATE: _state, ...env } = own;
  return { ...draftJob(cwd), argv, queue, task, priority, input, env, settings, limits, needs };
}

/** What only whoever starts the dashboard can tell. */
export interface Abilities {
  readJob: ReadJob;
  /** The first time of a schedule behind a moment; null: never again. */
  nextTime: (schedule: Schedule, behind_ms: number) => Promise<number | null>;
  random: Random;
}

export function changes(store: Store, { readJob: read, nextTime, random }: Abilities): Hono {
  const app = new Hono();
  app.post("/jobs/cancel", async (c) => {
    const { ids, reason } = await sent(c, CANCEL);
    return c.json({ jobs: await store.cancel(ids, reason ?? null) });
  });
  app.post("/jobs/retry", async (c) => c.json({ jobs: await store.retry((await sent(c, RETRY)).ids) }));
  app.post("/jobs", async (c) => {
    const asked = await sent(c, NEW_JOB);
    const [model = null] = asked.like === undefined || asked.like === null ? [] : await store.jobs([asked.like]);
    const job = read(JSON.stringify(asked.job), model === null ? null : like(model));
    const [{ id, created } = { id: 0, created: false }] = await store.enqueue([job]);
    return c.json({ id, created });
  });
  for (const [verb, paused] of [
    ["pause", true],
    ["resume", false],
  ] as const) {
    app.post(`/queues/${verb}`, async (c) => {
      const { queue } = await sent(c, QUEUE);
      checkName("queue", queue);
      await store.setPaused([queue], paused);
      return c.json({ queue, paused });
    });
  }
  app.post("/jobs/edit", async (c) => {
    const asked = await sent(c, EDIT);
    const [model = null] = await store.jobs([asked.id]);
    if (model === null) return refuse(c, 404, `there is no job ${asked.id}`);
    const job = read(JSON.stringify(asked.job), like(model));
    const given: Readonly<Record<string, unknown>> = asked.job;
    const [answer] = await store.edit(
      [asked.id],
      changesOf(job, (name) => given[name] !== undefined),
    );
    if (answer?.status === "changed") return c.json(answer);
    return refuse(c, 409, `job ${asked.id} is ${answer?.state ?? "gone"}: only jobs that wait can be changed`);
  });
  limitChanges(app, store);
  scheduleChanges(app, store, { nextTime, random });
  app.onError((error, c) => {
    if (error instanceof LeaseError) return refuse(c, error.code.startsWith("store_") ? 503 : 400, error.message);
    throw error;
  });
  return app;
}

function limitChanges(app: Hono, store: Store): void {
  app.post("/limits", async (c) => {
    const { name, limit, rate } = await sent(c, LIMIT);
    checkLimitName(name);
    const bounds = { most: limit, rate: rate === null ? null : readValue(RATE, rate, "the rate") };
    const known = await store.setLimit(name, limit === null && rate === null ? null : bounds);
    return known ? c.json({ name }) : refuse(c, 404, `there is no limit ${name}`);
  });
}

function scheduleChanges(app: Hono, store: Store, { nextTime, random }: Omit<Abilities, "readJob">): void {
  const asked = async (c: Context): Promise<Schedule> => {
    const { name } = await sent(c, NAMED);
    const found = (await store.schedules()).find((schedule) => schedule.name === name);
    if (found === undefined) throw new LeaseError("nothing_matched", `there is no schedule ${name}`);
    return found;
  };
  app.post("/schedules/run", async (c) => {
    const [queued] = await store.enqueue([jobAt(await asked(c), await store.now(), random())]);
    return c.json({ id: queued?.id ?? null });
  });
  app.post("/schedules/pause", async (c) => {
    const { name } = await asked(c);
    await store.pauseSchedule(name, true, null);
    return c.json({ name, paused: true });
  });
  app.post("/schedules/resume", async (c) => {
    const schedule = await asked(c);
    await store.pauseSchedule(schedule.name, false, await nextTime(schedule, await store.now()));
    return c.json({ name: schedule.name, paused: false });
  });
}
