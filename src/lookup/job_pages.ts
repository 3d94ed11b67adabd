/** Everything about jobs by their ids: settings, why each does not run, attempts, checkpoints, what it printed last. */

import type { Job } from "../core/job.ts";
import { conclude, subjectOf, type Learned } from "../core/learning.ts";
import { Tail } from "../runner/log/tail.ts";
import type { Glance } from "../store/store.ts";
import type { JobPage } from "../view/job.ts";
import { around } from "./why_waiting.ts";

const CHECKPOINTS = 100;
const LAST_LINES = 10;
const CHUNKS = 16;

/** What a page shows but for the moment that it is shown at: `reason` tells the rest. */
export type PageFacts = Omit<JobPage, "reason" | "show_env"> & { reason: (at_ms: number) => string | null };

/** In the order of the ids, null where there is no such job. */
export async function jobPages(
  store: Glance,
  ids: readonly number[],
  now_ms: number,
  ends: LogEnds,
): Promise<(PageFacts | null)[]> {
  const found = await store.jobs(ids);
  const jobs = found.filter((job) => job !== null);
  const facts = await around(store, jobs, now_ms);
  return Array.fromAsync(found, async (job) => {
    if (job === null) return null;
    const [learned, attempts, checkpoints, last_lines] = await Promise.all([
      learnedBy(store, job),
      store.attempts(job.id),
      store.checkpoints({ job: job.id, limit: CHECKPOINTS }),
      ends.lines(store, job),
    ]);
    const reason = (at_ms: number) => facts.reason(job, at_ms);
    return { job, learned, attempts, checkpoints, last_lines, parents: facts.parents(job), reason };
  });
}

/** What earlier runs have taught about the lease of a job that wants it so. */
async function learnedBy(store: Glance, job: Job): Promise<Learned | null> {
  if (job.settings.lease_ms !== "auto") return null;
  const [learned] = await store.learned([subjectOf(job)]);
  return learned ?? conclude(0, {});
}

/** The ends of logs, remembered, so that a watch reads only what is new. */
export class LogEnds {
  readonly #read = new Map<number, { attempt: number; from: number; tail: Tail }>();

  /** Of the newest attempt. */
  async lines(store: Glance, { id, token: attempt }: Job): Promise<string[]> {
    const before = this.#read.get(id);
    const end = before?.attempt === attempt ? before : { attempt, from: 0, tail: new Tail() };
    this.#read.set(id, end);
    for (;;) {
      const chunks = await store.logs({ job: id, attempt, from: end.from, limit: CHUNKS });
      for (const chunk of chunks) {
        end.tail.addChunk(chunk);
        end.from = chunk.start + chunk.bytes;
      }
      if (chunks.length < CHUNKS) return end.tail.lines(LAST_LINES);
    }
  }
}
