/** Rows that can't be read, because somebody else wrote them: set aside and named, and never in the way of the others. */

import { describe, expect } from "bun:test";
import type { Job } from "../../src/core/job.ts";
import { end, newJob } from "../support/jobs.ts";
import { acquireRequest, only, type StoreTest, type Subject } from "./subject.ts";

/** Each way to damage a job, and what is said about it. */
const DAMAGES: readonly (readonly [assignment: string, reason: string])[] = [
  ["argv = '[\"echo'", "damaged: argv is not JSON"],
  ["argv = '{}'", "damaged: argv is not of type Array"],
  ["argv = '[1]'", "damaged: argv.0 is not of type string"],
  ["env = '{\"A\":1}'", "damaged: env.A is not of type string"],
  ["settings = 'none'", "damaged: settings is not JSON"],
  ['settings = \'{"retry_on":"never"}\'', "damaged: settings.retry_on is none that is known"],
  ["cause = 'magic'", "damaged: cause is none that is known"],
  ["priority = 9223372036854775807", "damaged: priority is out of range"],
  ["created_at_ms = 9000000000000000", "damaged: created_at_ms is out of range"],
  ["created_at_ms = 253402300800000", "damaged: created_at_ms is out of range"],
  ["argv = '[\"a\\u0000b\"]'", "damaged: argv.0 is out of range"],
  ['env = \'{"A=B":"1"}\'', "damaged: env.A=B is out of range"],
  ["settings = '{\"timeout_ms\":-1}'", "damaged: settings.timeout_ms is out of range"],
  ["settings = '{\"log_limit_bytes\":1e300}'", "damaged: settings.log_limit_bytes is out of range"],
  ["lease_ms = 9223372036854775807", "damaged: lease_ms is out of range"],
  ["token = 2147483647", "damaged: token is out of range"],
  ["failures = 2147483647", "damaged: failures is out of range"],
];

const everything = { limit: 100, newest_first: false };

async function damage(s: Subject, id: number, assignment = "argv = '[\"echo'"): Promise<void> {
  await s.tamper(`UPDATE lease.jobs SET ${assignment} WHERE id = ${id}`);
}

async function finding(s: Subject) {
  return (await s.store.diagnose()).find(({ name }) => name === "jobs");
}

export function damageContract(test: StoreTest): void {
  describe("a damaged job", () => {
    for (const [assignment, reason] of DAMAGES) {
      test(`is set aside in its turn, and the next is granted: ${assignment}`, async (s) => {
        const [bad, good] = (await s.enqueue({ queue: "a" }, { queue: "a" })) as [number, number];
        await damage(s, bad, assignment);
        expect((await s.job(bad)).damaged).toBe(reason);
        expect(await s.acquireIds()).toEqual([good]);
        const job = await s.job(bad);
        expect(job.state.name).toBe("failed");
        expect(job).toMatchObject({ id: bad, queue: "a", result: { error: reason } });
      });
    }

    test("is set aside by an acquire of many from named queues as well", async (s) => {
      const ids = await s.enqueue(...Array.from({ length: 30 }, (_, n) => ({ queue: n % 2 ? "a" : "b" })));
      for (const id of ids.slice(0, 12)) await damage(s, id);
      const granted = await s.acquireIds({ count: 15, queues: ["b", "a"] });
      expect(granted).toHaveLength(15);
      expect(granted.filter((id) => ids.indexOf(id) < 12)).toEqual([]);
      expect(await s.acquireIds({ count: 15 })).toHaveLength(3);
      expect(await s.store.counts()).toEqual(
        expect.arrayContaining([
          { queue: "a", state: "failed", count: 6 },
          { queue: "b", state: "failed", count: 6 },
        ]),
      );
    });

    test("that is asked for by its id, or by its key, is not granted", async (s) => {
      const [bad, keyed] = (await s.enqueue({}, { key: "k" })) as [number, number];
      await damage(s, bad);
      await damage(s, keyed);
      expect(await s.acquireIds({ job: bad })).toEqual([]);
      expect(await s.stateOf(bad)).toBe("failed");
      const again = await s.store.enqueue([newJob({ key: "k" })], { acquire: acquireRequest() });
      expect(again).toEqual([{ id: keyed, created: false, grant: null }]);
      expect(await s.stateOf(keyed)).toBe("failed");
    });

    test("takes those with it that wait for its success", async (s) => {
      const bad = await s.enqueueOne();
      const [child, either] = (await s.enqueue({ after: [bad] }, { after_any: [bad] })) as [number, number];
      await damage(s, bad);
      expect(await s.acquireIds({ count: 9 })).toEqual([either]);
      expect(await s.stateOf(child)).toBe("cancelled");
    });

    test("is shown as far as it can be told, among the others", async (s) => {
      const [before, bad, behind] = (await s.enqueue({}, { queue: "q", task: "t" }, {})) as [number, number, number];
      await damage(s, bad);
      const shown: Partial<Job> = { id: bad, queue: "q", task: "t", argv: [], damaged: "damaged: argv is not JSON" };
      const jobs = await s.store.list(everything);
      expect(jobs.map(({ id }) => id)).toEqual([before, bad, behind]);
      expect(jobs[1]).toMatchObject(shown);
      expect(jobs[1]?.state.name).toBe("pending");
      expect((await s.store.jobs([behind, bad])).map((job) => job?.id)).toEqual([behind, bad]);
      expect(only(await s.store.list({ ...everything, states: ["pending"], queues: ["q"] }))).toMatchObject(shown);
    });

    test("that runs is left to its holder while the lease lasts", async (s) => {
      const grant = await s.granted();
      await damage(s, grant.job.id);
      expect(await s.store.expired({ grace_ms: 0, dead_holders: [], after: null, limit: 9 })).toEqual([]);
      expect(await s.settle(grant)).toEqual({ status: "applied" });
      expect(await s.stateOf(grant.job.id)).toBe("completed");
    });

    test("that ran until its lease was over fails instead of being tried again, and the others are recovered", async (s) => {
      const bad = await s.granted();
      const good = await s.granted();
      await damage(s, bad.job.id);
      await s.passTime(120_000);
      const over = await s.store.expired({ grace_ms: 0, dead_holders: [], after: null, limit: 9 });
      expect(over.map(({ job }) => job.id)).toEqual([bad.job.id, good.job.id]);
      const requests = await Promise.all(over.map(({ job }) => s.recovery(job.id)));
      expect(await s.store.recover(requests)).toEqual(["recovered", "recovered"]);
      expect(await s.job(bad.job.id)).toMatchObject({
        state: { name: "failed" },
        result: { error: "damaged: argv is not JSON" },
      });
      expect(await s.stateOf(good.job.id)).toBe("pending");
    });

    test("can be retried, which sets it aside again, cancelled and pruned", async (s) => {
      const [bad, other] = (await s.enqueue({}, {})) as [number, number];
      await damage(s, bad);
      await damage(s, other);
      expect(await s.store.cancel([other], null)).toMatchObject([{ status: "cancelled" }]);
      expect(await s.acquireIds()).toEqual([]);
      expect(await s.store.retry([bad])).toMatchObject([{ status: "pending" }]);
      expect(await s.acquireIds()).toEqual([]);
      expect(await s.stateOf(bad)).toBe("failed");
      expect((await s.store.prune({ states: ["failed", "cancelled"], older_than_ms: 0, limit: 9 })).count).toBe(2);
    });

    test("is named to whoever asks for the health of the store, before its turn and after", async (s) => {
      const [first] = await s.enqueue(...Array.from({ length: 8 }, () => ({})));
      expect(await finding(s)).toMatchObject({ level: "ok" });
      await s.tamper("UPDATE lease.jobs SET argv = '[' WHERE id < 8");
      expect(await finding(s)).toMatchObject({ level: "error" });
      expect((await finding(s))?.value).toStartWith(`7 can't be read (job ${first}, 2, 3, 4, 5 …; 1: damaged: argv is`);
      expect(await s.acquireIds({ count: 9 })).toEqual([8]);
      expect(await finding(s)).toMatchObject({ level: "warn" });
    });
  });

  describe("what belongs to a job or a worker and is damaged", () => {
    test("an attempt is shown without what can't be read", async (s) => {
      const { job } = await s.granted({ settings: { retries: 0 } });
      await s.tamper("UPDATE lease.attempts SET started_at_ms = 9000000000000000, ended_at_ms = 5, cause = 'magic'");
      expect(only(await s.store.attempts(job.id))).toMatchObject({ attempt: 1, worker: "w1", end: { cause: "lost" } });
    });

    test("an attempt that is gone keeps no lease from being recovered", async (s) => {
      const { job } = await s.granted();
      await s.tamper("DELETE FROM lease.attempts");
      await s.passTime(120_000);
      const over = await s.store.expired({ grace_ms: 0, dead_holders: [], after: null, limit: 9 });
      expect(over).toMatchObject([{ job: { id: job.id }, attempt: { worker: "w1", process: null } }]);
      expect(await s.store.recover([await s.recovery(job.id)])).toEqual(["recovered"]);
    });

    test("an attempt that is there before its time does not keep the job from being granted", async (s) => {
      const id = await s.enqueueOne();
      await s.tamper(`INSERT INTO lease.attempts (job_id, attempt, worker, host, lease_ms, started_at_ms)
        VALUES (${id}, 1, 'nobody', 'nowhere', 1, 1)`);
      expect(await s.acquireIds()).toEqual([id]);
      expect(only(await s.store.attempts(id))).toMatchObject({ worker: "w1", host: "h1" });
    });

    test("a worker's queues, and what was learned", async (s) => {
      await s.tamper(`INSERT INTO lease.workers (id, host, boot_id, pid, pid_started, version, queues, slots, started_at_ms, seen_at_ms)
        VALUES ('w', 'h', 'b', 1, 1, '1', '[', 1, 1, 9000000000000000)`);
      expect(await s.store.workers()).toMatchObject([{ id: "w", host: "h", queues: [], slots: 1 }]);
      await s.tamper("INSERT INTO lease.learned (subject, runs, gaps) VALUES ('queue default', 30, '[')");
      expect(await s.store.learned(["queue default"])).toEqual([null]);
      const grant = await s.granted({ settings: { lease_ms: "auto" } });
      const request = { ...(await s.ending(grant.job, end("success"))), gaps: { "10": 1 } };
      expect(await s.store.settle([request])).toEqual([{ status: "applied" }]);
      expect(await s.store.learned(["queue default"])).toMatchObject([{ runs: 1 }]);
    });

    test("totals that can't be, of which a counter for monitors would have to fall", async (s) => {
      await s.tamper(`INSERT INTO lease.totals (queue, name, label, count, sum_ms)
        VALUES ('default', 'run', 'success', -1, -5), ('other', 'run', 'success', 9007199254740993, 7)`);
      expect(await s.store.totals()).toEqual([
        { queue: "default", name: "run", label: "success", count: 0, sum_ms: 0 },
        { queue: "other", name: "run", label: "success", count: 0, sum_ms: 7 },
      ]);
    });

    test("totals of recoveries begin anew", async (s) => {
      await s.tamper("INSERT INTO lease.meta (name, value) VALUES ('recovery', '[')");
      expect(await s.store.recovery()).toBeNull();
      const none = { recovered: 0, failed: 0, cancelled: 0, checkpoints_created: 0, orphans_killed: 0, errors: 0 };
      await s.store.noteRecovery({ ...none, expired_found: 2, scan_duration_ms: 1 });
      expect(await s.store.recovery()).toMatchObject({ expired_found: 2 });
    });
  });
}
