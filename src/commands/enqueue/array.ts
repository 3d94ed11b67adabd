/** `lease enqueue --array 1-100`: a job per number, all or none. */

import { LeaseError } from "../../core/errors.ts";
import { checkNewJob } from "../../core/check_job.ts";
import type { NewJob } from "../../core/job.ts";
import { fillPlaces, hasPlace } from "../../core/places.ts";
import { withStore, type Io, type StoreArgs } from "../../cli/io.ts";
import type { Traces } from "../../observe/traced.ts";
import { printIds } from "./bulk.ts";

const BATCH_JOBS = 2_000;

export async function enqueueArray(
  numbers: readonly number[],
  job: NewJob,
  args: StoreArgs,
  io: Io,
  traces: Traces,
): Promise<number> {
  const { key } = job;
  if (key !== null && !hasPlace(key)) {
    throw new LeaseError("usage", `--key ${key} can have one live job, not one per number: write {} in it`);
  }
  const fill = (text: string, number: number, at: number) => fillPlaces(text, String(number), at + 1);
  const jobOf = (number: number, at: number): NewJob => ({
    ...job,
    argv: job.argv.map((word) => fill(word, number, at)),
    key: key === null ? null : fill(key, number, at),
    env: { ...job.env, LEASE_ARRAY_INDEX: String(number) },
  });
  // Before there is a store: what will be refused must not make one.
  checkNewJob(jobOf(numbers[0] ?? 0, 0));
  async function* batches(): AsyncGenerator<NewJob[]> {
    for (let from = 0; from < numbers.length; from += BATCH_JOBS) {
      yield numbers.slice(from, from + BATCH_JOBS).map((number, index) => jobOf(number, from + index));
    }
  }
  const { ranges } = await withStore(args, io, { create: true }, ({ store }) =>
    traces.store(store).enqueueAll(batches()),
  );
  printIds(ranges, io);
  return 0;
}
