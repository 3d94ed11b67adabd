import { expect, test } from "bun:test";
import type { AttemptRecord } from "../../../src/core/records.ts";
import { PastOfJobs } from "../../../src/observe/dashboard/job_past.ts";
import type { Glance } from "../../../src/store/store.ts";
import { jobIn } from "../../support/jobs.ts";

const attempt = (token: number) => ({ token, ended_at_ms: 1_000 }) as AttemptRecord;

test("attempts that were read before the job was are read again, and not shown beside its new state", async () => {
  const remembered = [attempt(1)];
  const forgotten: number[] = [];
  const store = {
    attempts: async () => (forgotten.length === 0 ? remembered : [attempt(1), attempt(2)]),
    checkpoints: async () => [],
  } as unknown as Glance;
  const past = new PastOfJobs((job) => void forgotten.push(job));
  const job = jobIn({ name: "completed", finished_at_ms: 2_000 }, { id: 7, token: 2 });
  const read = await past.read(store, job, 0);
  expect(read.attempts.map(({ token }) => token)).toEqual([1, 2]);
  expect(forgotten).toEqual([7]);
  expect(past.known(job, 1)?.attempts).toHaveLength(2);
});
