/**
 * The audit: a store's own history held against the promises. Every other test of the contract ends with one that finds
 * nothing; here each rule is seen to find what breaks it, in a store that somebody has written past us.
 */

import { describe, expect } from "bun:test";
import { hookOf } from "../../src/core/hook.ts";
import { GIVEN_UP } from "../../src/core/transition.ts";
import { end } from "../support/jobs.ts";
import { workerRecord } from "../support/workers.ts";
import { audit, breaches, only, type StoreTest, type Subject } from "./subject.ts";

/** Each rule, a life that keeps it, and what somebody does to the tables that breaks it. $ID is the job of that life. */
interface Craft {
  rule: string;
  live: (s: Subject) => Promise<number>;
  tamper: readonly string[];
  /** The check of PostgreSQL's tables that would not let it. */
  unchecked?: string;
  says: string;
}

const completed = (s: Subject) => s.finished("completed");
const failed = (s: Subject) => s.finished("failed");
const running = async (s: Subject) => (await s.granted()).job.id;

/** Two attempts, of which the first failed. */
async function twice(s: Subject): Promise<number> {
  const grant = await s.granted();
  await s.settle(grant, end("exit"));
  await s.passTime(10_000);
  await s.settle(only(await s.acquire()));
  return grant.job.id;
}

async function noted(s: Subject): Promise<number> {
  const { job } = await s.granted();
  await s.store.checkpoint([{ id: job.id, token: job.token, text: "half" }]);
  const chunks = [
    { start: 0, bytes: 5, data: new Uint8Array(5) },
    { start: 5, bytes: 5, data: new Uint8Array(5) },
  ];
  await s.store.appendLogs([{ id: job.id, token: job.token, chunks, head_bytes: 100, keep_from: 0 }]);
  return job.id;
}

/** A job that ran after the one that it waits for. */
async function child(s: Subject): Promise<number> {
  const parent = await s.granted();
  const id = await s.enqueueOne({ after: [parent.job.id] });
  await s.passTime(1_000);
  await s.settle(parent);
  await s.passTime(1_000);
  await s.settle(only(await s.acquire()));
  return id;
}

async function recovered(s: Subject): Promise<number> {
  const { job, expires_at_ms } = await s.granted();
  await s.passTime(100_000);
  await s.store.recover([await s.recovery(job.id, "expired", audit({ expires_at_ms }))]);
  return job.id;
}

async function bounded(s: Subject): Promise<number> {
  await s.enqueue({ needs: { gpu: 1 } }, { needs: { gpu: 1 } });
  const grants = await s.acquire({ count: 2, have: { gpu: ["0", "1"] } });
  expect(grants).toHaveLength(2);
  return grants[1]?.job.id ?? 0;
}

async function lost(s: Subject): Promise<number> {
  const { job } = await s.granted();
  await s.store.saveWorker(workerRecord({ id: "w1", seen_at_ms: await s.store.now() }));
  await s.passTime(1_000);
  await s.store.recover([await s.recovery(job.id, "lost")]);
  return job.id;
}

/** A job that failed for good, and its hook. */
async function hooked(s: Subject): Promise<number> {
  const { job } = await s.granted({ settings: { retries: 0, on_failed: "./notify.sh" } });
  const request = await s.ending(job, end("exit"));
  await s.store.settle([{ ...request, hook: hookOf(job, request.change, []) }]);
  return job.id;
}

async function heavy(s: Subject): Promise<number> {
  const have = { mem: 8 };
  await s.store.saveWorker(workerRecord({ id: "w1", host: "h1", have }));
  return (await s.granted({ needs: { mem: 6 } }, { have })).job.id;
}

const CRAFTS: readonly Craft[] = [
  {
    rule: "rows",
    live: completed,
    tamper: ["INSERT INTO lease.checkpoints (job_id, kind, token, at_ms, text) VALUES (4711, 'error', 1, 1, '')"],
    says: "job 4711: there are rows of checkpoints, and no such job",
  },
  {
    rule: "tokens",
    live: twice,
    tamper: ["DELETE FROM lease.attempts WHERE job_id = $ID AND attempt = 1"],
    says: "its token is 2 after 1 attempts, the newest of them 2",
  },
  {
    rule: "grants",
    live: running,
    tamper: ["UPDATE lease.attempts SET worker = 'w2' WHERE job_id = $ID"],
    says: "it runs at w1, and attempt 1 was granted to w2",
  },
  {
    rule: "grants",
    live: twice,
    tamper: ["UPDATE lease.jobs SET started_at_ms = started_at_ms - 1 WHERE id = $ID"],
    says: "attempt 2 began at another time than the job says",
  },
  {
    rule: "due",
    live: running,
    tamper: ["UPDATE lease.jobs SET run_at_ms = run_at_ms + 60000 WHERE id = $ID"],
    says: "attempt 1 was granted 60000 ms before the job was due",
  },
  {
    rule: "due",
    live: completed,
    tamper: ["UPDATE lease.jobs SET created_at_ms = created_at_ms + 60000 WHERE id = $ID"],
    says: "attempt 1 was granted 60000 ms before the job was enqueued",
  },
  {
    rule: "overlap",
    live: twice,
    tamper: ["UPDATE lease.attempts SET ended_at_ms = ended_at_ms + 60000 WHERE job_id = $ID AND attempt = 1"],
    says: "attempt 2 was granted 50000 ms before the one before it had ended",
  },
  {
    rule: "spans",
    live: completed,
    tamper: ["UPDATE lease.attempts SET ended_at_ms = started_at_ms - 5000 WHERE job_id = $ID"],
    says: "attempt 1 ended 5000 ms before it was granted",
  },
  {
    rule: "spans",
    live: completed,
    tamper: ["UPDATE lease.jobs SET last_beat_at_ms = finished_at_ms + 7000 WHERE id = $ID"],
    says: "a beat was taken 7000 ms after attempt 1 had ended",
  },
  {
    rule: "ends",
    live: twice,
    tamper: ["UPDATE lease.attempts SET ended_at_ms = NULL, cause = NULL WHERE job_id = $ID AND attempt = 1"],
    says: "attempt 1 has no end, and the job is completed",
  },
  {
    rule: "ends",
    live: running,
    tamper: ["UPDATE lease.attempts SET ended_at_ms = started_at_ms, cause = 'exit' WHERE job_id = $ID"],
    says: "it runs as attempt 1, which has ended (exit)",
  },
  {
    rule: "results",
    live: completed,
    tamper: ["UPDATE lease.attempts SET cause = 'exit' WHERE job_id = $ID"],
    says: "it is completed (success 0), and its last attempt 1 ended with exit 0",
  },
  {
    rule: "results",
    live: failed,
    tamper: ["UPDATE lease.attempts SET cause = 'success' WHERE job_id = $ID"],
    says: "it is failed (exit 1), and its last attempt 1 ended with success 1",
  },
  {
    rule: "results",
    live: completed,
    tamper: ["UPDATE lease.jobs SET exit_code = 7 WHERE id = $ID"],
    says: "it is completed (success 7), and its last attempt 1 ended with success 0",
  },
  {
    rule: "done",
    live: twice,
    tamper: [
      "UPDATE lease.attempts SET cause = 'success' WHERE job_id = $ID AND attempt = 1",
      "UPDATE lease.jobs SET failures = 0, run_at_ms = created_at_ms - 1 WHERE id = $ID",
    ],
    says: "attempt 1 ended with success, and nobody retried it, but it is completed with token 2",
  },
  {
    rule: "failures",
    live: completed,
    tamper: ["UPDATE lease.jobs SET failures = 2 WHERE id = $ID"],
    says: "it counts 2 failures, and 0 attempts failed",
  },
  {
    rule: "retries",
    live: twice,
    tamper: [
      "UPDATE lease.jobs SET failures = 1, retries = 0 WHERE id = $ID",
      "UPDATE lease.jobs SET failures = 2 WHERE id = $ID",
    ],
    says: "it has failed 2 times with 0 retries",
  },
  {
    rule: "retries",
    live: twice,
    tamper: ["UPDATE lease.jobs SET retries = 0 WHERE id = $ID"],
    says: "it has failed once with 0 retries",
  },
  {
    rule: "checkpoints",
    live: noted,
    tamper: ["UPDATE lease.checkpoints SET token = 9 WHERE job_id = $ID"],
    says: "has token 9, which was never granted",
  },
  {
    rule: "checkpoints",
    live: async (s) => {
      const id = await noted(s);
      await s.passTime(100_000);
      await s.store.recover([await s.recovery(id)]);
      const { job } = only(await s.acquire());
      await s.store.checkpoint([{ id, token: job.token, text: "more" }]);
      return id;
    },
    tamper: [
      "INSERT INTO lease.checkpoints (job_id, kind, token, at_ms, text) SELECT job_id, kind, 1, at_ms, 'late' FROM lease.checkpoints WHERE text = 'half'",
    ],
    says: "of token 1 was taken after one of token 2",
  },
  {
    rule: "progress",
    live: noted,
    tamper: ["UPDATE lease.checkpoints SET at_ms = at_ms - 1000 WHERE job_id = $ID"],
    says: "was taken when attempt 1 did not run",
  },
  {
    rule: "leases",
    live: recovered,
    tamper: ["UPDATE lease.attempts SET ended_at_ms = ended_at_ms - 50000 WHERE job_id = $ID"],
    says: "attempt 1 was recovered 10000 ms before its lease ended",
  },
  {
    rule: "the dead",
    live: lost,
    tamper: ["UPDATE lease.workers SET seen_at_ms = (SELECT ended_at_ms + 9 FROM lease.attempts WHERE job_id = $ID)"],
    says: "attempt 1 was taken from w1 as dead, which was seen 9 ms later",
  },
  {
    rule: "logs",
    live: noted,
    tamper: ["UPDATE lease.logs SET bytes = 7 WHERE job_id = $ID AND start = 0"],
    says: "the log of attempt 1 has the bytes from 5 to 7 twice",
  },
  {
    rule: "logs",
    live: noted,
    tamper: ["UPDATE lease.logs SET attempt = 3 WHERE job_id = $ID"],
    says: "there is a log of attempt 3, which was never granted",
  },
  {
    rule: "cancels",
    live: running,
    tamper: ["UPDATE lease.jobs SET cancel_requested_at_ms = started_at_ms - 1 WHERE id = $ID"],
    says: "attempt 1 was granted after somebody had asked to cancel it",
  },
  {
    rule: "order",
    live: child,
    tamper: ["UPDATE lease.attempts SET started_at_ms = started_at_ms - 1500 WHERE job_id = $ID"],
    says: "which it waits for, had never succeeded",
  },
  {
    rule: "order now",
    live: child,
    tamper: ["UPDATE lease.jobs SET finished_at_ms = finished_at_ms + 1500 WHERE id = $ID - 1"],
    says: "which it waits for, was not done (completed)",
  },
  {
    rule: "blocked",
    live: child,
    tamper: [
      "DELETE FROM lease.attempts WHERE job_id = $ID",
      "UPDATE lease.jobs SET state = 'blocked', finished_at_ms = NULL, token = 0 WHERE id = $ID",
    ],
    says: "it is blocked, and all that it waits for is as it should be",
  },
  {
    rule: "doomed",
    live: async (s) => {
      const parent = await s.granted({ settings: { retries: 0 } });
      const id = await s.enqueueOne({ after: [parent.job.id] });
      await s.passTime(1_000);
      await s.settle(parent, end("exit"));
      return id;
    },
    tamper: ["UPDATE lease.jobs SET state = 'blocked', finished_at_ms = NULL WHERE id = $ID"],
    says: "it is blocked, and job 1, which it waits for, is failed",
  },
  {
    rule: "circles",
    live: child,
    tamper: ["INSERT INTO lease.dependencies (job_id, parent_id, kind) VALUES ($ID - 1, $ID, 'any')"],
    says: "it waits for itself, or for one that waits for it",
  },
  {
    rule: "keys",
    live: (s) => s.enqueueOne({ key: "k" }),
    tamper: [
      "DROP INDEX lease.jobs_live_key",
      "INSERT INTO lease.jobs (state, queue, priority, run_at_ms, retries, created_at_ms, key, argv, cwd) VALUES ('pending', 'default', 0, 1, 0, 1, 'k', '[]', '/')",
    ],
    says: "2 live jobs have its key k",
  },
  {
    rule: "bounded",
    live: bounded,
    unchecked: "jobs_check",
    tamper: ["UPDATE lease.jobs SET held = NULL WHERE id = $ID"],
    says: "it runs, needs or counts for something, and was given nothing",
  },
  {
    rule: "resources",
    live: bounded,
    tamper: ['UPDATE lease.jobs SET held = \'{"gpu":["0"]}\' WHERE id = $ID'],
    says: "it holds gpu 0 of h1, as does job",
  },
  {
    rule: "resources",
    live: heavy,
    tamper: ["UPDATE lease.jobs SET held = '{\"mem\":9}' WHERE id = $ID"],
    says: "9 of 8 mem of h1 are held",
  },
  {
    rule: "hooks",
    live: hooked,
    tamper: [
      `INSERT INTO lease.jobs (state, queue, priority, run_at_ms, retries, created_at_ms, settings, argv, cwd)
        SELECT state, queue, priority, run_at_ms, retries, created_at_ms, settings, argv, cwd FROM lease.jobs
        WHERE settings LIKE '%"hook"%'`,
    ],
    says: "there are 2 hooks of one attempt",
  },
  {
    rule: "hooks",
    live: hooked,
    tamper: ["UPDATE lease.attempts SET cause = 'returned' WHERE job_id = $ID"],
    says: "it is the hook of attempt 1 of job 1, which did not fail",
  },
  {
    rule: "recovery",
    live: recovered,
    tamper: ["UPDATE lease.checkpoints SET at_ms = at_ms - 100000 WHERE job_id = $ID"],
    says: "attempt 1 was recovered 60000 ms before its lease ended",
  },
  {
    rule: "schedules",
    live: completed,
    tamper: ["INSERT INTO lease.fired (schedule, at_ms, job_id) VALUES ('s', 1, $ID), ('s', 2, $ID)"],
    says: "it stands for 2 times of its schedule",
  },
  {
    rule: "limits",
    live: running,
    tamper: ["INSERT INTO lease.limits (name, most) VALUES ('default', 0)"],
    says: "limit default: 1 run, and it allows 0",
  },
  {
    rule: "limits",
    live: running,
    tamper: [
      "INSERT INTO lease.limits (name, rate_count, rate_ms) VALUES ('r', 2, 1000)",
      "INSERT INTO lease.starts (name, at_ms, job_id, attempt) VALUES ('r', 1, 1, 1), ('r', 500, 2, 1), ('r', 1000, 3, 1)",
    ],
    says: "limit r: 3 started within 999 ms, and it allows 2 in 1000",
  },
];

/** What one engine alone writes down twice. */
const OF_POSTGRES: readonly Craft[] = [
  {
    rule: "inputs",
    live: (s) => s.enqueueOne({ input: new Uint8Array([1]) }),
    tamper: ["DELETE FROM lease.inputs WHERE job_id = $ID"],
    says: "its input is gone",
  },
  {
    rule: "inputs",
    live: (s) => s.enqueueOne({ input: new Uint8Array([1]) }),
    tamper: ["UPDATE lease.jobs SET has_input = FALSE WHERE id = $ID"],
    says: "it has an input, and will not be given it",
  },
  {
    rule: "awaited",
    live: child,
    tamper: ["UPDATE lease.jobs SET awaited = FALSE WHERE id = $ID - 1"],
    says: "job 2 waits for it, and its end will not be told",
  },
];

function finds(test: StoreTest, crafts: readonly Craft[]): void {
  for (const { rule, live, tamper, unchecked, says } of crafts) {
    test(`finds what breaks "${rule}": ${says}`, async (s) => {
      const id = await live(s);
      expect(await breaches(s.store)).toEqual([]);
      if (unchecked !== undefined && !s.store.shares_clock) {
        await s.tamper(`ALTER TABLE lease.jobs DROP CONSTRAINT ${unchecked}`);
      }
      for (const sql of tamper) await s.tamper(sql.replaceAll("$ID", String(id)));
      const found = (await s.store.audit()).find(({ name }) => name === rule);
      expect(found?.broken.map(({ job, text }) => `job ${job}: ${text}`).join("\n")).toContain(says);
    });
  }
}

export function postgresAuditContract(test: StoreTest): void {
  describe("an audit of this engine", () => finds(test, OF_POSTGRES));
}

export function auditContract(test: StoreTest): void {
  describe("an audit", () => {
    finds(test, CRAFTS);

    test("asks nothing that has not been seen to fail here", async (s) => {
      const seen = new Set([...CRAFTS, ...OF_POSTGRES].map(({ rule }) => rule));
      expect((await s.store.audit()).map(({ name }) => name).filter((name) => !seen.has(name))).toEqual([]);
    });

    test("takes what only times show for no more than worth a look where the clock was set back", async (s) => {
      const tooEarly = async (id: number) => {
        const of_first = `job_id = ${id} AND attempt = 1`;
        await s.tamper(`UPDATE lease.attempts SET ended_at_ms = ended_at_ms + 60000 WHERE ${of_first}`);
        return `overlap: job ${id}: attempt 2 was granted 50000 ms before the one before it had ended`;
      };
      const before = await tooEarly(await twice(s));
      expect(await breaches(s.store)).toEqual([before]);
      const now_ms = await s.store.now();
      const set_back = { at_ms: now_ms, by_ms: 3_600_000, until_ms: now_ms + 3_600_000 };
      await s.tamper(`INSERT INTO lease.meta (name, value) VALUES ('clock_set_back', '${JSON.stringify(set_back)}')`);
      expect(await breaches(s.store)).toEqual([]);
      const found = (await s.store.audit()).find(({ name, broken }) => name === "overlap" && broken.length > 0);
      expect(found?.explained_by).toStartWith("it comes from the clock, which was set back (by 3600000 ms, noticed 20");
      // What came when no clock showed such times any more is as certain as ever.
      await s.passTime(3_700_000);
      const after = await tooEarly(await twice(s));
      expect(await breaches(s.store)).toEqual([after]);
    });

    test("has nothing against a holder that gave its lease up before its end", async (s) => {
      const grant = await s.granted();
      const given_up = end("expired", { error: `${GIVEN_UP}it could not be renewed in time` });
      await s.settle(grant, given_up, audit({ expires_at_ms: grant.expires_at_ms }));
      expect(await breaches(s.store)).toEqual([]);
    });

    test("is done soon with rows that stand far apart", async (s) => {
      await s.finished("completed");
      for (const far of [1_000_000_000_000, Number.MAX_SAFE_INTEGER]) {
        await s.tamper(`INSERT INTO lease.dependencies (job_id, parent_id, kind) VALUES (${far}, 1, 'any')`);
      }
      const found = (await s.store.audit()).find(({ name }) => name === "rows");
      expect(found?.broken.map(({ job }) => job)).toEqual([1_000_000_000_000, Number.MAX_SAFE_INTEGER]);
    });

    test("looks at everything in a store of many jobs, and names a part of what it finds", async (s) => {
      const id = await s.finished("completed");
      await s.tamper(
        `INSERT INTO lease.attempts (job_id, attempt, worker, host, lease_ms, started_at_ms)
          WITH RECURSIVE n (n) AS (SELECT 30000 UNION ALL SELECT n + 1 FROM n WHERE n < 30150)
          SELECT n, 1, 'w', 'h', 1, 1 FROM n`,
      );
      const found = (await s.store.audit()).find(({ name }) => name === "rows");
      expect(found).toMatchObject({ more: true });
      expect(found?.broken).toHaveLength(100);
      expect(found?.broken.every(({ job }) => job !== id)).toBe(true);
    });
  });
}
