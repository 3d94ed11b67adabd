/**
 * expired and recover: a sweep finds what has been abandoned and touches nothing that has moved since it looked.
 */

import { describe, expect } from "bun:test";
import type { ExpiredLease, ExpiredQuery } from "../../src/store/queries.ts";
import { end } from "../support/jobs.ts";
import { audit, LEASE_MS, only, type StoreTest, type Subject } from "./subject.ts";

function expired(s: Subject, query: Partial<ExpiredQuery> = {}): Promise<ExpiredLease[]> {
  return s.store.expired({ grace_ms: 0, dead_holders: [], after: null, limit: 100, ...query });
}

const idsOf = (leases: readonly ExpiredLease[]): number[] => leases.map(({ job }) => job.id);

export function recoverContract(test: StoreTest): void {
  describe("expired", () => {
    test("finds nothing while all leases hold", async (s) => {
      await s.granted();
      await s.passTime(LEASE_MS - s.slack_ms - 1);
      expect(await expired(s)).toEqual([]);
    });

    test("finds a lease once it has been over for longer than the grace", async (s) => {
      const { job, expires_at_ms } = await s.granted();
      await s.passTime(LEASE_MS + 10_000 - s.slack_ms);
      expect(await expired(s, { grace_ms: 10_000 })).toEqual([]);
      await s.passTime(1 + s.slack_ms);
      const lease = only(await expired(s, { grace_ms: 10_000 }));
      expect(lease).toMatchObject({ expires_at_ms, holder_dead: false });
      expect(lease.job).toEqual(job);
    });

    test("never finds a lease that can still be extended", async (s) => {
      const { job } = await s.granted();
      await s.passTime(LEASE_MS);
      const found = await expired(s);
      const extended = only(
        await s.store.extend([{ id: job.id, token: 1, expires_in_ms: LEASE_MS, beat_age_ms: null, beats: 0 }]),
      );
      expect(found.length === 0 || extended.status !== "extended").toBe(true);
    });

    test("says all that is known of the attempt", async (s) => {
      const { job } = await s.granted({}, { holder: "w7", host: "ci-3" });
      const process = { boot_id: "b", pid: 7, pid_started: 70 };
      await s.store.noteProcess([{ id: job.id, token: 1, ...process }]);
      await s.passTime(LEASE_MS + 1_000);
      const { attempt } = only(await expired(s));
      expect(attempt).toEqual(only(await s.store.attempts(job.id)));
      expect(attempt).toMatchObject({ attempt: 1, token: 1, worker: "w7", host: "ci-3", process, end: null });
    });

    test("finds the jobs of a dead holder before they expire, and says so", async (s) => {
      const dead = await s.granted({}, { holder: "dead" });
      await s.granted({}, { holder: "alive" });
      const lease = only(await expired(s, { dead_holders: ["dead", "other"], grace_ms: 999_999 }));
      expect(lease.job.id).toBe(dead.job.id);
      expect(lease.holder_dead).toBe(true);
    });

    test("tells the expired from the dead where it finds both", async (s) => {
      const late = await s.granted({ settings: { lease_ms: 1_000 } }, { holder: "alive" });
      const dead = await s.granted({}, { holder: "dead" });
      await s.granted({}, { holder: "alive" });
      await s.passTime(2_000);
      const found = await expired(s, { dead_holders: ["dead"] });
      expect(found.map((lease) => [lease.job.id, lease.holder_dead])).toEqual([
        [late.job.id, false],
        [dead.job.id, true],
      ]);
    });

    test("finds running jobs only", async (s) => {
      await s.finished("completed");
      await s.finished("failed");
      const returned = await s.granted();
      await s.settle(returned, end("returned"));
      await s.passTime(LEASE_MS + 1_000);
      expect(await expired(s, { dead_holders: ["w1"] })).toEqual([]);
    });

    test("answers in order of expiry, then of id", async (s) => {
      const leases = [30_000, 10_000, 20_000, 10_000];
      const ids = await s.enqueue(...leases.map((lease_ms) => ({ settings: { lease_ms } })));
      await s.acquire({ count: 4 });
      await s.passTime(40_000);
      expect(idsOf(await expired(s))).toEqual([1, 3, 2, 0].map((index) => ids[index] as number));
    });

    test("can be read page by page, each page behind the last one", async (s) => {
      const ids = await s.enqueue(
        ...Array.from({ length: 7 }, (_, n) => ({ settings: { lease_ms: n < 5 ? 5_000 : 9_000 } })),
      );
      await s.acquire({ count: 7 });
      await s.passTime(20_000);
      const pages: number[][] = [];
      let after: ExpiredQuery["after"] = null;
      for (;;) {
        const page = await expired(s, { after, limit: 3 });
        const last = page.at(-1);
        if (!last) break;
        pages.push(idsOf(page));
        after = { expires_at_ms: last.expires_at_ms, id: last.job.id };
      }
      expect(pages).toEqual([ids.slice(0, 3), ids.slice(3, 6), ids.slice(6)]);
    });

    test("reads on behind a page whose jobs nobody could recover", async (s) => {
      const ids = await s.enqueue(...Array.from({ length: 4 }, () => ({ settings: { lease_ms: 5_000 } })));
      await s.acquire({ count: 4, holder: "dead" });
      const [, second] = await expired(s, { limit: 2, dead_holders: ["dead"] });
      if (!second) throw new Error("the first page is too short");
      const after = { expires_at_ms: second.expires_at_ms, id: second.job.id };
      expect(idsOf(await expired(s, { limit: 2, after, dead_holders: ["dead"] }))).toEqual(ids.slice(2));
    });
  });

  describe("recover", () => {
    test("makes an abandoned job pending again and ends its attempt", async (s) => {
      const { job } = await s.granted();
      await s.passTime(LEASE_MS + 1_000);
      const now_ms = await s.store.now();
      const told = audit({ last_lines: ["linking…"] });
      expect(await s.store.recover([await s.recovery(job.id, "expired", told)])).toEqual(["recovered"]);
      const after = await s.job(job.id);
      expect(after).toMatchObject({ token: 1, failures: 1, result: { cause: "expired" } });
      expect(after.state).toEqual({ name: "pending", run_at_ms: job.run_at_ms });
      const attempt = only(await s.store.attempts(job.id));
      expect(attempt.end?.cause).toBe("expired");
      s.sameTime(attempt.ended_at_ms, now_ms);
      const { kind, text } = only(await s.store.checkpoints({ job: job.id, limit: 9 }));
      expect(kind).toBe("error");
      expect(JSON.parse(text)).toMatchObject({ cause: "expired", token: 1, last_lines: ["linking…"] });
    });

    test("keeps what the holder had reported of its attempt", async (s) => {
      const { job } = await s.granted();
      await s.store.extend([{ id: job.id, token: 1, expires_in_ms: 5_000, beat_age_ms: 0, beats: 6 }]);
      await s.passTime(6_000);
      await s.store.recover([await s.recovery(job.id)]);
      expect(only(await s.store.attempts(job.id)).beats).toBe(6);
    });

    test("takes a job from a dead holder before it expires", async (s) => {
      const { job } = await s.granted();
      expect(await s.store.recover([await s.recovery(job.id, "lost")])).toEqual(["recovered"]);
      expect(await s.job(job.id)).toMatchObject({ state: { name: "pending" }, result: { cause: "lost" } });
      expect(only(await s.acquire({ holder: "w2" })).job.token).toBe(2);
    });

    test("fails a job that has no retries left", async (s) => {
      const { job } = await s.granted({ settings: { retries: 0 } });
      await s.passTime(LEASE_MS + 1_000);
      await s.store.recover([await s.recovery(job.id)]);
      expect(await s.job(job.id)).toMatchObject({
        state: { name: "failed" },
        result: { error: "max retries exceeded" },
      });
    });

    test("cancels a job that had been asked to stop", async (s) => {
      const { job } = await s.granted();
      await s.store.cancel([job.id], "not needed");
      await s.passTime(LEASE_MS + 1_000);
      expect(await s.store.recover([await s.recovery(job.id)])).toEqual(["recovered"]);
      expect(await s.job(job.id)).toMatchObject({ state: { name: "cancelled" }, reason: "not needed" });
      expect(await s.acquireIds()).toEqual([]);
    });

    test("leaves a job alone that was extended since it was read", async (s) => {
      const { job } = await s.granted();
      const request = await s.recovery(job.id, "lost");
      await s.passTime(1_000);
      await s.store.extend([{ id: job.id, token: 1, expires_in_ms: LEASE_MS, beat_age_ms: 0, beats: 1 }]);
      const before = await s.job(job.id);
      expect(await s.store.recover([{ ...request, audit: audit() }])).toEqual(["changed"]);
      expect(await s.job(job.id)).toEqual(before);
      expect(only(await s.store.attempts(job.id)).end).toBeNull();
      expect(await s.store.checkpoints({ limit: 9 })).toEqual([]);
    });

    test("leaves a job alone whose holder cut its lease short since it was read: whoever does that lives", async (s) => {
      const { job } = await s.granted();
      const request = await s.recovery(job.id, "lost");
      await s.store.extend([{ id: job.id, token: 1, expires_in_ms: LEASE_MS / 2, beat_age_ms: null, beats: 1 }]);
      expect(await s.store.recover([request])).toEqual(["changed"]);
      expect(await s.stateOf(job.id)).toBe("running");
    });

    test("leaves it alone also when both the lease that was read and the shorter one are over by then", async (s) => {
      const { job } = await s.granted();
      const request = await s.recovery(job.id, "lost");
      await s.store.extend([{ id: job.id, token: 1, expires_in_ms: 10_000, beat_age_ms: null, beats: 0 }]);
      await s.passTime(2 * LEASE_MS);
      expect(await s.store.recover([request])).toEqual(["changed"]);
      expect(await s.stateOf(job.id)).toBe("running");
    });

    test("leaves a job alone that was settled since it was read", async (s) => {
      const grant = await s.granted();
      await s.passTime(LEASE_MS + 1_000);
      const request = await s.recovery(grant.job.id);
      await s.settle(grant);
      expect(await s.store.recover([request])).toEqual(["changed"]);
      expect(await s.stateOf(grant.job.id)).toBe("completed");
    });

    test("leaves a job alone that was asked to stop since it was read, and does not run it again", async (s) => {
      const { job } = await s.granted();
      await s.passTime(LEASE_MS + 1_000);
      const request = await s.recovery(job.id);
      await s.store.cancel([job.id], null);
      expect(await s.store.recover([request])).toEqual(["changed"]);
      expect(await s.acquireIds()).toEqual([]);
    });

    test("leaves a job alone that has been granted again, though its lease ends at the same moment", async (s) => {
      const { job } = await s.granted();
      const request = await s.recovery(job.id, "lost");
      await s.store.recover([request]);
      const again = only(await s.acquire({ holder: "w2" }));
      expect(await s.store.recover([request])).toEqual(["changed"]);
      expect(await s.job(job.id)).toEqual(again.job);
    });

    test("lets exactly one of two sweeps win", async (s) => {
      const { job } = await s.granted();
      await s.passTime(LEASE_MS + 1_000);
      const other = await s.reopen();
      const request = await s.recovery(job.id, "expired", audit());
      const answers = await Promise.all([s.store.recover([request]), other.recover([request])]);
      expect(answers.flat().toSorted()).toEqual(["changed", "recovered"]);
      expect(await s.job(job.id)).toMatchObject({ failures: 1 });
      expect(await s.store.checkpoints({ limit: 9 })).toHaveLength(1);
    });

    test("answers many requests in their order, and an unknown job as changed", async (s) => {
      const moved = await s.granted();
      const left = await s.granted();
      await s.passTime(LEASE_MS + 1_000);
      const requests = [await s.recovery(moved.job.id), await s.recovery(left.job.id)];
      await s.settle(moved);
      const unknown = { ...(requests[1] as (typeof requests)[number]), id: 999 };
      expect(await s.store.recover([...requests, unknown])).toEqual(["changed", "recovered", "changed"]);
    });
  });
}
