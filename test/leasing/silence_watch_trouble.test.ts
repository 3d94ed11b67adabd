import { JUMP_TRUST_MS } from "../../src/core/clock.ts";
import { describe, expect } from "bun:test";
import type { Job } from "../../src/core/job.ts";
import { sweepOf } from "../recovery/sweeps.ts";
import { answered, benchTest as test, LEASE_MS, type Bench } from "./fixture.ts";
import { GRACE_MS, SLACK_MS, watched, words } from "./watched.ts";

const FENCE_MS = LEASE_MS - 500;

/** Reads wait until the test lets them go. */
function heldReads(b: Bench): {
  jobs: (ids: readonly number[]) => Promise<(Job | null)[]>;
  letGo: () => Promise<void>;
} {
  const gate = Promise.withResolvers<void>();
  return {
    jobs: async (ids) => {
      await gate.promise;
      return b.store.jobs(ids);
    },
    async letGo() {
      gate.resolve();
      await answered();
    },
  };
}

describe("a watch whose store does not answer", () => {
  test("has the job killed before the lease is over all the same", async (b) => {
    const w = await watched(b, { verbs: { jobs: () => new Promise(() => {}) } });
    await b.pass(LEASE_MS);
    expect(w.said.map(([, at_ms]) => at_ms)).toContain(FENCE_MS);
    expect(words(w).at(-1)).toStartWith("lost");
  });

  test("warns and stops as if the store had nothing to tell when it can't be read", async (b) => {
    const w = await watched(b, { verbs: { jobs: () => Promise.reject(new Error("disk I/O error")) } });
    await b.pass(LEASE_MS);
    expect(words(w)).toEqual(["warn", "silent"]);
  });

  test("spares a job that beats while the store is asked", async (b) => {
    const { jobs, letGo } = heldReads(b);
    let slow = false;
    const w = await watched(b, { extended: true, verbs: { jobs: (ids) => (slow ? jobs(ids) : b.store.jobs(ids)) } });
    await b.pass(LEASE_MS - 1);
    slow = true;
    await b.pass(1);
    w.heartbeat.beat();
    await letGo();
    expect(words(w)).toEqual(["warn"]);
  });

  test("has nothing to say about a job that ended while the store was asked", async (b) => {
    const { jobs, letGo } = heldReads(b);
    let slow = false;
    const w = await watched(b, { verbs: { jobs: (ids) => (slow ? jobs(ids) : b.store.jobs(ids)) } });
    await b.pass(LEASE_MS - 1);
    slow = true;
    await b.pass(1);
    w.watch.end();
    await letGo();
    expect(words(w)).toEqual(["warn"]);
  });
});

describe("the watch of a job that was told to stop", () => {
  test("makes the lease cover the stop when it would not", async (b) => {
    const w = await watched(b);
    await b.pass(LEASE_MS - GRACE_MS - SLACK_MS + 1);
    w.watch.stopping(GRACE_MS);
    await answered();
    expect(w.lease.remaining()).toBe(GRACE_MS + SLACK_MS);
    expect(await b.expiryOf(w.lease.job.id)).toBe(b.clock.wall_ms() + GRACE_MS + SLACK_MS);
  });

  test("leaves a lease alone that lasts long enough", async (b) => {
    const w = await watched(b);
    await b.pass(10_000);
    w.watch.stopping(GRACE_MS);
    await answered();
    expect(b.extensions).toEqual([]);
  });

  test("says nothing more than that the lease is over, should it come to that", async (b) => {
    const w = await watched(b, { timeout_ms: LEASE_MS - 1 });
    w.watch.stopping(GRACE_MS);
    await b.pass(LEASE_MS * 2);
    expect(w.said).toEqual([["lost: it could not be renewed in time", FENCE_MS]]);
  });

  test("has it killed when the time that it needs can't be had", async (b) => {
    const w = await watched(b);
    b.extend = () => Promise.reject(new Error("disk is full"));
    w.watch.stopping(LEASE_MS);
    await answered();
    await b.pass(LEASE_MS);
    expect(w.said).toEqual([["lost: it could not be renewed in time", FENCE_MS]]);
  });

  test("says that it is lost when the time it needs is refused", async (b) => {
    const w = await watched(b);
    await b.pass(LEASE_MS / 2 - 1);
    b.extend = async () => [{ status: "conflict" }];
    w.watch.stopping(LEASE_MS);
    await answered();
    expect(words(w)).toEqual(["lost: conflict"]);
  });
});

describe("a watch on a machine whose clocks do not go as they should", () => {
  test("is not led astray by a wall clock that is set back", async (b) => {
    const w = await watched(b, { verbs: { jobs: () => Promise.reject(new Error("unreadable")) } });
    await b.pass(10_000);
    b.clock.jumpWall(-3_600_000);
    await b.pass(LEASE_MS - 10_000);
    expect(w.said).toEqual([
      ["warn", LEASE_MS / 2],
      ["silent", LEASE_MS],
    ]);
  });

  test("goes on after the machine slept or its clock was set ahead, and puts the lease right with the store", async (b) => {
    const w = await watched(b);
    await b.pass(1_000);
    b.clock.jumpWall(3_600_000);
    await b.pass(1_000);
    expect(words(w)).toEqual([]);
    expect(w.lease.remaining()).toBe(LEASE_MS - 2_000);
    expect(w.lease.expires_at_ms).toBe(b.clock.wall_ms() + LEASE_MS - 2_000);
  });

  test("has the job killed when the store can't be told in time, long before a sweep may take it", async (b) => {
    const w = await watched(b, { verbs: { extend: () => Promise.reject(new Error("away")) } });
    await b.pass(1_000);
    b.clock.jumpWall(3_600_000);
    await b.pass(JUMP_TRUST_MS);
    expect(words(w)).toEqual(["lost: it could not be renewed in time"]);
  });

  test("never warns of silence where the lease is already gone", async (b) => {
    const w = await watched(b, { verbs: { extend: () => Promise.reject(new Error("away")) } });
    await b.pass(1_000);
    b.clock.jumpWall(3_600_000);
    await b.pass(LEASE_MS);
    expect(words(w)).toEqual(["lost: it could not be renewed in time"]);
  });

  test("keeps a lease through a clock that is set back, noticed by a sweep, and set ahead again", async (b) => {
    const w = await watched(b);
    const sweep = sweepOf(b);
    await sweep.scan();
    b.clock.jumpWall(-3_600_000);
    await sweep.scan();
    await b.pass(2_000);
    b.clock.jumpWall(3_600_000);
    await b.pass(1_000);
    expect(words(w)).toEqual([]);
    expect((await b.expiryOf(w.lease.job.id)) - b.clock.wall_ms()).toBeGreaterThanOrEqual(w.lease.remaining());
    expect(w.lease.remaining()).toBe(LEASE_MS - 3_000);
  });

  test("does not believe in an end that was read before the clock was set back, and told of after", async (b) => {
    const told = Promise.withResolvers<void>();
    const late = async (ids: readonly number[]) => {
      const found = await b.store.jobs(ids);
      await told.promise;
      return found.map((job) => {
        if (job?.state.name !== "running") return job;
        return { ...job, state: { ...job.state, expires_at_ms: job.state.expires_at_ms + LEASE_MS } };
      });
    };
    const { lease } = await watched(b, { verbs: { jobs: late } });
    await b.pass(LEASE_MS / 2 + 1_000);
    b.clock.jumpWall(-5_000);
    await b.pass(2_000);
    const left_ms = lease.remaining();
    told.resolve();
    await answered();
    expect(lease.remaining()).toBe(left_ms);
  });
});
