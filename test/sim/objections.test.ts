/** The proof that the simulation can fail: stores, sweeps and workers that break one rule each, and are found out. */

import { describe, expect, test } from "bun:test";
import type { Store } from "../../src/store/store.ts";
import { intercept } from "../leasing/fixture.ts";
import type { Ground } from "./ground.ts";
import { simulate } from "./simulate.ts";
import type { WorldOptions } from "./world.ts";

/** Lives until somebody objects; the objection without its seed. */
async function objection(options: WorldOptions, lives = 400): Promise<string> {
  for (let seed = 1; seed <= lives; seed++) {
    const error: unknown = await simulate(seed, options).catch((caught: unknown) => caught);
    if (error instanceof Error) return error.message.replace(/^seed \d+: /, "").split("\n")[0]!;
  }
  return "nobody objected";
}

/** `tamper` writes past the store. */
type Mutation = (store: Store, eye: Store, tamper: Ground["tamper"]) => Partial<Store>;
const broken = (verbs: Mutation): WorldOptions => ({
  mutate: (store, { eye, tamper }) => intercept(store, verbs(store, eye, tamper)),
});

/** The token that would have been right. */
async function withCurrentToken<R extends { id: number; token: number }>(
  eye: Store,
  requests: readonly R[],
): Promise<R[]> {
  const jobs = await eye.jobs(requests.map(({ id }) => id));
  return requests.map((request, index) => ({ ...request, token: jobs[index]!.token }));
}

const TIMEOUT_MS = 300_000;

function objects(to: string, options: WorldOptions, pattern: RegExp): void {
  test(`the checker objects to ${to}`, async () => expect(await objection(options)).toMatch(pattern), TIMEOUT_MS);
}

describe("a simulation of something broken fails", () => {
  objects(
    "a fence that lets a late settle through",
    broken((store, eye) => ({ settle: async (requests) => store.settle(await withCurrentToken(eye, requests)) })),
    /^\(5\).*a settle with token/,
  );

  objects(
    "a fence that lets a late checkpoint through",
    broken((store, eye) => ({
      checkpoint: async (requests) => store.checkpoint(await withCurrentToken(eye, requests)),
    })),
    /^\(5\).*a checkpoint with token/,
  );

  objects(
    "a fence that lets a late log through",
    broken((store, _eye, tamper) => ({
      appendLogs: async (requests) => {
        await store.appendLogs(requests);
        for (const { id, token } of requests) {
          const sql = "INSERT OR IGNORE INTO logs (job_id, attempt, start, bytes, data) VALUES (?1, ?2, 99, 1, x'00')";
          tamper(sql, id, token);
        }
      },
    })),
    /^\(5\).*a log with token/,
  );

  objects(
    "an extension of a lease that was over",
    broken((store) => ({
      extend: async (requests) => {
        const answers = await store.extend(requests);
        return answers.map((answer) =>
          answer.status === "expired" ? { status: "extended", expires_at_ms: 0, cancel_requested: false } : answer,
        );
      },
    })),
    /^\(5\).*an extension/,
  );

  objects(
    "an extension that leaves the holder less than it believes in",
    broken((store) => ({
      extend: (requests) =>
        store.extend(requests.map((request) => ({ ...request, expires_in_ms: request.expires_in_ms - 500 }))),
    })),
    /^\(20\).*believes in/,
  );

  objects("a worker that does not kill what it has lost", { careless: true }, /^\(20\)/);

  objects(
    "a sweep that takes jobs from the living",
    broken((store) => ({
      expired: async (query) => {
        const found = await store.expired({ ...query, grace_ms: -1_000_000_000 });
        return found.map((lease) => ({ ...lease, holder_dead: true }));
      },
    })),
    /^\(8\).*which lives/,
  );

  objects(
    "a store that forgets what it acknowledged",
    broken((store, _eye, tamper) => ({
      enqueue: async (jobs) => {
        const answers = await store.enqueue(jobs);
        tamper("DELETE FROM jobs WHERE id = ?1", answers[0]!.id);
        return answers;
      },
    })),
    /^\(1\)/,
  );

  objects(
    "a store that forgets an accepted checkpoint",
    broken(() => ({ checkpoint: async (requests) => requests.map(() => "accepted" as const) })),
    /^\((13|5)\)/,
  );

  objects(
    "a token that comes back",
    broken((store, _eye, tamper) => ({
      recover: async (requests) => {
        const answers = await store.recover(requests);
        for (const { id } of requests)
          tamper("UPDATE jobs SET token = token - 1 WHERE id = ?1 AND state = 'pending'", id);
        return answers;
      },
    })),
    /^\(3\)/,
  );

  objects(
    "a cancelled job that runs again",
    broken((store, _eye, tamper) => ({
      cancel: async (ids, reason) => {
        const answers = await store.cancel(ids, reason);
        for (const { id, status } of answers) {
          if (status === "cancelled")
            tamper("UPDATE jobs SET state = 'pending', finished_at_ms = NULL WHERE id = ?1", id);
        }
        return answers;
      },
    })),
    // Whichever is seen first: that it runs, or that somebody was freed for an end that it has not come to.
    /^\(11\).*after it was cancelled|^\(14\) cancel freed job/,
  );

  objects(
    "a failure whose hook is lost, or there twice",
    broken((store) => ({
      settle: (requests) => store.settle(requests.map((request) => ({ ...request, hook: null }))),
    })),
    /^\(2\) job \d+ failed for good, and has 0 hooks/,
  );

  objects(
    "an edit of a job that runs",
    broken((store, _eye, tamper) => ({
      edit: async (ids, changes) => {
        for (const id of ids) tamper("UPDATE jobs SET priority = 9 WHERE id = ?1 AND state = 'running'", id);
        return store.edit(ids, changes);
      },
    })),
    /^\(5\) edit changed job/,
  );

  objects(
    "a retried job that does not wait for its parents",
    broken((store, _eye, tamper) => ({
      retry: async (ids) => {
        const answers = await store.retry(ids);
        for (const { id } of answers)
          tamper("UPDATE jobs SET state = 'pending' WHERE id = ?1 AND state = 'blocked'", id);
        return answers;
      },
    })),
    /^\(14\) retry freed job/,
  );

  objects(
    "a grant of a job that runs",
    broken((store, eye) => ({
      acquire: async (request) => {
        const grants = await store.acquire(request);
        const [running] = await eye.list({ states: ["running"], limit: 1, newest_first: false });
        if (running === undefined || running.state.name !== "running") return grants;
        const { expires_at_ms } = running.state;
        return [
          ...grants,
          { job: running, lease_ms: 10_000, expires_at_ms, checkpoint: null, previous: null, held: {} },
        ];
      },
    })),
    /^\((3|4|9|13|20)\)/,
  );

  objects(
    "a limit that nobody keeps",
    broken(() => ({ setLimit: async () => true })),
    /^\(21\)/,
  );

  objects(
    "two jobs with the same of a machine",
    broken((store) => ({
      acquire: async (request) => {
        const grants = await store.acquire(request);
        return grants.map((grant) => ("gpu" in grant.held ? { ...grant, held: { gpu: ["0"] } } : grant));
      },
    })),
    /^\(22\)/,
  );

  objects(
    "a time that becomes two jobs",
    broken((store) => ({
      fire: async (schedule, firings, next_at_ms) => {
        const made = await store.fire(schedule, firings, next_at_ms);
        for (const { job } of firings) if ((made ?? 0) > 0) await store.enqueue([{ ...job, key: null }]);
        return made;
      },
    })),
    /^\(23\)/,
  );

  objects(
    "a second live job with the same key",
    broken((store, _eye, tamper) => ({
      enqueue: async (jobs) => {
        tamper("DROP INDEX IF EXISTS jobs_live_key");
        const answers = await store.enqueue(jobs.map((job) => ({ ...job, key: null })));
        for (const [index, { id }] of answers.entries()) {
          if (jobs[index]!.key !== null) tamper("UPDATE jobs SET key = 'k' WHERE id = ?1", id);
        }
        return answers;
      },
    })),
    /^\(10\)/,
  );

  objects(
    "a sweep that finds nothing",
    broken(() => ({ expired: async () => [] })),
    /^\(16\)/,
  );
});
