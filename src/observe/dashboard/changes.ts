/** What can be changed, each as a POST with JSON: the verbs of the command line, on what a page names. */

import { Hono, type Context } from "hono";
import * as v from "valibot";
import { checkName } from "../../core/check_job.ts";
import { LeaseError } from "../../core/errors.ts";
import type { Job, NewJob } from "../../core/job.ts";
import { draftJob } from "../../core/job_fields.ts";
import type { Store } from "../../store/store.ts";
import { refuse } from "./guard.ts";

const MOST_IDS = 1_000;
const IDS = v.pipe(v.array(v.pipe(v.number(), v.safeInteger(), v.minValue(1))), v.minLength(1), v.maxLength(MOST_IDS));
const CANCEL = v.object({ ids: IDS, reason: v.optional(v.nullable(v.pipe(v.string(), v.maxLength(1_000)))) });
const RETRY = v.object({ ids: IDS });
const QUEUE = v.object({ queue: v.string() });
const NEW_JOB = v.object({
  /** What is not said is as in that job, its environment included. */
  like: v.optional(v.nullable(v.number())),
  job: v.record(v.string(), v.unknown()),
});

/** A job as a page describes it; what is left out is as in `like`. */
export type ReadJob = (json: string, like: NewJob | null) => NewJob;

/** What was sent, checked. */
async function sent<T>(c: Context, schema: v.GenericSchema<unknown, T>): Promise<T> {
  const checked = v.safeParse(schema, await c.req.json().catch(() => null));
  if (checked.success) return checked.output;
  throw new LeaseError("usage", `what was sent is not understood: ${checked.issues[0].message}`);
}

/** A key is one job's own, and what it waited for is over. */
function like({ argv, queue, task, priority, input, cwd, env, settings }: Job): NewJob {
  return { ...draftJob(cwd), argv, queue, task, priority, input, env, settings };
}

export function changes(store: Store, read: ReadJob): Hono {
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
  app.onError((error, c) => {
    if (error instanceof LeaseError) return refuse(c, error.code.startsWith("store_") ? 503 : 400, error.message);
    throw error;
  });
  return app;
}
