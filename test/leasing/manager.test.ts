import { describe, expect } from "bun:test";
import type { Lease } from "../../src/leasing/lease.ts";
import type { SettleRequest } from "../../src/store/store.ts";
import { end } from "../support/jobs.ts";
import { benchTest as test, intercept, LEASE_MS, type Bench } from "./fixture.ts";

/** The lease runs out, a sweep gives the job back, and another worker gets it. */
async function takenOver(b: Bench, lease: Lease): Promise<Lease> {
  await b.pass(LEASE_MS + 1);
  const { job } = lease;
  const [found] = await b.store.expired({ grace_ms: 0, dead_holders: [], after: null, limit: 9 });
  const state = { name: "pending" as const, run_at_ms: job.run_at_ms };
  const change = { ...job, state, failures: 1, ended: end("expired"), before: job };
  const request = { id: job.id, token: job.token, change, process: null, audit: null };
  expect(await b.store.recover([{ ...request, expires_at_ms: found!.expires_at_ms }])).toEqual(["recovered"]);
  const [again] = await b.managerOf("w2").acquire();
  return again!;
}

describe("acquire", () => {
  test("grants to this worker, by the filters and as many as asked for", async (b) => {
    await b.enqueue({ queue: "other" });
    await b.enqueue({ task: "t" });
    const wanted = await b.enqueue({ queue: "mail", task: "t" });
    const more = await b.enqueue({ queue: "mail", task: "t" });
    await b.enqueue({ queue: "mail" });
    const leases = await b.manager.acquire({ count: 5, queues: ["mail"], task: "t" });
    expect(leases.map(({ job }) => job.id)).toEqual([wanted, more]);
    expect((await b.store.attempts(wanted))[0]).toMatchObject({ worker: "w1", host: "elsewhere" });
  });

  test("grants one of any queue when nothing else is said", async (b) => {
    await b.enqueue({ queue: "a" });
    await b.enqueue({ queue: "b" });
    expect(await b.manager.acquire()).toHaveLength(1);
  });

  test("counts the lease from when it asked, not from when it was answered", async (b) => {
    await b.enqueue();
    const slow = intercept(b.store, {
      acquire: async (request) => {
        const grants = await b.store.acquire(request);
        await b.clock.advance(5_000);
        return grants;
      },
    });
    const [lease] = await b.managerOf("w1", slow).acquire();
    expect(lease!.remaining()).toBe(LEASE_MS - 5_000);
  });

  test("gives a job its own lease where it has one", async (b) => {
    const lease = await b.granted({ settings: { lease_ms: 7_000 } });
    expect([lease.lease_ms, lease.remaining()]).toEqual([7_000, 7_000]);
  });
});

describe("renew", () => {
  test("gives time from the beat on", async (b) => {
    const lease = await b.granted();
    await b.pass(9_000);
    const answer = await b.manager.renew(lease, { expires_in_ms: LEASE_MS, beat_age_ms: 2_000, beats: 3 });
    expect(answer).toEqual({
      status: "extended",
      expires_at_ms: b.clock.wall_ms() + LEASE_MS - 2_000,
      cancel_requested: false,
      grace: null,
    });
    expect(lease.remaining()).toBe(LEASE_MS - 2_000);
  });

  test("gives time from now on when it is not for a beat, and leaves the last beat as it was", async (b) => {
    const lease = await b.granted();
    const started_at_ms = b.clock.wall_ms();
    await b.pass(9_000);
    await b.manager.renew(lease, { expires_in_ms: 12_000, beat_age_ms: null, beats: 0 });
    expect(lease.remaining()).toBe(12_000);
    expect((await b.job(lease.job.id)).last_beat_at_ms).toBe(started_at_ms);
  });

  test("leaves the lease as it was when it is refused", async (b) => {
    const lease = await b.granted();
    await b.pass(LEASE_MS + 10);
    expect(await b.manager.renew(lease, { expires_in_ms: LEASE_MS, beat_age_ms: 0, beats: 1 })).toEqual({
      status: "expired",
    });
    expect(lease.remaining()).toBe(-10);
  });

  test("learns of a request to cancel, and does not forget it", async (b) => {
    const lease = await b.granted();
    await b.store.cancel([lease.job.id], null);
    await b.manager.renew(lease, { expires_in_ms: LEASE_MS, beat_age_ms: 0, beats: 1 });
    expect(lease.cancel_requested).toBe(true);
    b.extend = async () => [{ status: "extended", expires_at_ms: lease.expires_at_ms, cancel_requested: false }];
    await b.manager.renew(lease, { expires_in_ms: LEASE_MS, beat_age_ms: 0, beats: 1 });
    expect(lease.cancel_requested).toBe(true);
  });
});

describe("release", () => {
  test("of a success completes the job and leaves no error checkpoint", async (b) => {
    const lease = await b.granted();
    const release = await b.manager.release(lease, { end: end("success", { output: "42" }) });
    expect(release).toMatchObject({ status: "applied", change: { state: { name: "completed" } } });
    expect(await b.job(lease.job.id)).toMatchObject({ state: { name: "completed" }, result: { output: "42" } });
    expect(await b.store.checkpoints({ limit: 9 })).toEqual([]);
  });

  test("of a failure schedules the next attempt as core decides, with what was known of this one", async (b) => {
    const lease = await b.granted();
    const process = { boot_id: "boot", pid: 77, pid_started: 5 };
    await b.pass(1_500);
    await b.manager.release(lease, { end: end("exit"), process, last_lines: ["one", "two"] });
    const job = await b.job(lease.job.id);
    expect(job).toMatchObject({ state: { name: "scheduled", run_at_ms: b.clock.wall_ms() + 1_000 }, failures: 1 });
    expect((await b.store.attempts(job.id))[0]).toMatchObject({ process, end: { cause: "exit" } });
    const [checkpoint] = await b.store.checkpoints({ job: job.id, limit: 9 });
    expect(JSON.parse(checkpoint!.text)).toMatchObject({
      cause: "exit",
      holder: "w1",
      host: "elsewhere",
      last_lines: ["one", "two"],
      granted_at_ms: lease.granted_at.wall_ms,
      expires_at_ms: lease.expires_at_ms,
    });
  });

  test("of the last attempt fails the job", async (b) => {
    const lease = await b.granted({ settings: { retries: 0 } });
    const release = await b.manager.release(lease, { end: end("exit") });
    expect(release).toMatchObject({ status: "applied", change: { state: { name: "failed" } } });
  });

  test("of a returned job gives it back, uncounted and without a checkpoint", async (b) => {
    const lease = await b.granted({ settings: { retries: 0 } });
    await b.manager.release(lease, { end: end("returned") });
    expect(await b.job(lease.job.id)).toMatchObject({ state: { name: "pending" }, failures: 0 });
    expect(await b.store.checkpoints({ limit: 9 })).toEqual([]);
  });

  test("of a failure cancels the job when a cancel was requested that nobody had told the worker of", async (b) => {
    const lease = await b.granted();
    await b.store.cancel([lease.job.id], "not needed");
    const release = await b.manager.release(lease, { end: end("exit") });
    expect(release).toMatchObject({ status: "applied", change: { state: { name: "cancelled" } } });
    expect(await b.job(lease.job.id)).toMatchObject({ state: { name: "cancelled" }, reason: "not needed" });
    expect(lease.cancel_requested).toBe(true);
  });

  test("of a success completes the job only if that came before a cancel was requested", async (b) => {
    const lease = await b.granted();
    await b.store.cancel([lease.job.id], null);
    await b.manager.release(lease, { end: end("success"), ended_at_ms: b.clock.wall_ms() - 1 });
    expect(await b.stateOf(lease.job.id)).toBe("completed");
    const other = await b.granted();
    await b.store.cancel([other.job.id], null);
    await b.manager.release(other, { end: end("success") });
    expect(await b.stateOf(other.job.id)).toBe("cancelled");
  });

  test("of a returned job cancels it when a cancel was requested", async (b) => {
    const lease = await b.granted();
    await b.store.cancel([lease.job.id], null);
    await b.manager.release(lease, { end: end("returned") });
    expect(await b.stateOf(lease.job.id)).toBe("cancelled");
  });

  test("asks again only when the store says that a cancel came in between", async (b) => {
    const asked: SettleRequest[] = [];
    const counting = intercept(b.store, {
      settle: (requests) => {
        asked.push(...requests);
        return b.store.settle(requests);
      },
    });
    const manager = b.managerOf("w1", counting);
    const lease = await b.granted({}, manager);
    await b.store.cancel([lease.job.id], null);
    await manager.release(lease, { end: end("exit") });
    expect(asked.map(({ change }) => change.state.name)).toEqual(["scheduled", "cancelled"]);
  });

  test("after the end of the lease still counts while nobody has taken the job", async (b) => {
    const lease = await b.granted();
    await b.pass(LEASE_MS + 1_000);
    expect(await b.manager.release(lease, { end: end("success") })).toMatchObject({ status: "applied" });
    expect(await b.stateOf(lease.job.id)).toBe("completed");
  });

  test("of a job that somebody else runs by now is stale: kept as a checkpoint, and nothing else changes", async (b) => {
    const lease = await b.granted();
    const other = await takenOver(b, lease);
    const before = await b.job(lease.job.id);
    const release = await b.manager.release(lease, { end: end("exit"), last_lines: ["bye"] });
    expect(release).toEqual({ status: "stale", reason: "conflict" });
    expect(await b.job(lease.job.id)).toEqual(before);
    const [checkpoint] = await b.store.checkpoints({ job: lease.job.id, limit: 9 });
    expect(JSON.parse(checkpoint!.text)).toMatchObject({
      cause: "stale",
      token: 1,
      result: "exit",
      last_lines: ["bye"],
    });
    await b.managerOf("w2").release(other, { end: end("success") });
    expect(await b.stateOf(lease.job.id)).toBe("completed");
  });

  test("a second time is stale", async (b) => {
    const lease = await b.granted();
    await b.manager.release(lease, { end: end("success") });
    const again = await b.manager.release(lease, { end: end("exit") });
    expect(again).toEqual({ status: "stale", reason: "expired" });
    expect(await b.stateOf(lease.job.id)).toBe("completed");
  });

  test("that the store could not write fails, and can be tried again", async (b) => {
    let broken = true;
    const store = intercept(b.store, {
      settle: (requests) => (broken ? Promise.reject(new Error("disk is full")) : b.store.settle(requests)),
    });
    const manager = b.managerOf("w1", store);
    const lease = await b.granted({}, manager);
    const failed = await manager.release(lease, { end: end("success") }).catch((error: Error) => error.message);
    expect(failed).toBe("disk is full");
    broken = false;
    expect(await manager.release(lease, { end: end("success") })).toMatchObject({ status: "applied" });
  });
});
