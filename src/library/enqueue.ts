/** New jobs, one or many at once, in the trace that this program was started in. */

import { LeaseError } from "../core/errors.ts";
import type { NewJob } from "../core/job.ts";
import { continueTrace } from "../core/trace_context.ts";
import { toNewJob, type JobOptions } from "./job.ts";
import { readableEnv } from "./readable_env.ts";

const BATCH = 1_000;

export function givenJob(given: JobOptions, now_ms: () => number): NewJob {
  const job = toNewJob(given, now_ms);
  continueTrace(job, readableEnv);
  return job;
}

export function newJobs(given: readonly JobOptions[], now_ms: () => number): NewJob[] {
  return given.map((job, index) => numbered(index, () => givenJob(job, now_ms)));
}

/** An error about one of several says which. */
function numbered<T>(index: number, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof LeaseError)) throw error;
    throw new LeaseError(error.code, `job ${index}: ${error.message}`, { cause: error, index });
  }
}

export async function* inBatches(given: AsyncIterable<JobOptions>, now_ms: () => number): AsyncGenerator<NewJob[]> {
  let batch: NewJob[] = [];
  let index = 0;
  for await (const job of given) {
    batch.push(numbered(index, () => givenJob(job, now_ms)));
    index += 1;
    if (batch.length < BATCH) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
