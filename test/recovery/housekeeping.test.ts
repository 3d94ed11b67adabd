/** What a sweep does besides recovery. */

import { describe, expect } from "bun:test";
import { LogCapture } from "../../src/runner/log/capture.ts";
import { benchTest as test, LEASE_MS, type Bench } from "../leasing/fixture.ts";
import { end } from "../support/jobs.ts";
import { SWEEP_GRACE_MS, sweepOf } from "./sweeps.ts";
import { textsFor } from "../support/reports.ts";

const DAY_MS = 86_400_000;

async function finished(b: Bench): Promise<number> {
  const lease = await b.granted();
  await b.manager.release(lease, { end: end("success") });
  return lease.job.id;
}

describe("a sweep", () => {
  test("deletes what finished long enough ago where that was asked for, and nothing else", async (b) => {
    const old = await finished(b);
    await b.pass(DAY_MS, DAY_MS);
    const young = await finished(b);
    const waiting = await b.enqueue();
    await sweepOf(b).scan();
    expect(await b.store.jobs([old])).not.toEqual([null]);
    const said: string[] = [];
    await sweepOf(b, { prune_ms: DAY_MS, report: textsFor(said) }).scan();
    const left = await b.store.jobs([old, young, waiting]);
    expect(left.map((job) => job?.id ?? null)).toEqual([null, young, waiting]);
    expect(said).toEqual(["deleted 1 finished job"]);
  });

  test("makes due jobs pending", async (b) => {
    const id = await b.enqueue({ delay_ms: 5_000 });
    await b.pass(5_000);
    await sweepOf(b).scan();
    expect(await b.stateOf(id)).toBe("pending");
  });

  test("tells the last lines of a job whose worker can't be asked any more", async (b) => {
    const { job, token } = await b.granted();
    const capture = new LogCapture(1_000_000);
    const text = Array.from({ length: 30 }, (_, line) => `line ${line + 1}\n`).join("");
    capture.add("stdout", new TextEncoder().encode(text), b.clock.wall_ms());
    const chunk = capture.take()!;
    await b.store.appendLogs([{ id: job.id, token, chunks: [chunk], head_bytes: 1_000_000, keep_from: 0 }]);
    await b.pass(LEASE_MS + SWEEP_GRACE_MS + 1);
    await sweepOf(b).scan();
    const [checkpoint] = await b.store.checkpoints({ job: job.id, limit: 1 });
    const { last_lines } = JSON.parse(checkpoint!.text) as { last_lines: string[] };
    expect(last_lines).toEqual(Array.from({ length: 10 }, (_, line) => `line ${line + 21}`));
    expect((await b.store.attempts(job.id))[0]?.end?.last_line).toBe("line 30");
  });
});
