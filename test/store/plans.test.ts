/**
 * Which way the engine takes: nothing that is asked often may walk through all jobs, however many there are. The plans
 * are those of the statements that the store really prepares.
 */

import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, spyOn, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { platform } from "#platform";
import { SORTS } from "../../src/store/queries.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { Subject } from "../contract/subject.ts";
import { ManualClock } from "../support/clock.ts";
import { end } from "../support/jobs.ts";

const FINISHED = ["completed", "failed", "cancelled"] as const;

let folder: string;
let s: Subject;
let prepared: string[];
let done: () => Promise<void>;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "lease-plans-"));
  prepared = [];
  const openReal = platform.openSqlite;
  const spy = spyOn(platform, "openSqlite").mockImplementation((file) => {
    const database = openReal(file);
    return {
      ...database,
      prepare(sql) {
        prepared.push(sql);
        return database.prepare(sql);
      },
    };
  });
  const clock = new ManualClock();
  const store = await openSqlite(join(folder, "lease.db"), { clock, random: () => 0.5 });
  done = async () => {
    await store.close();
    spy.mockRestore();
    rmSync(folder, { recursive: true, force: true });
  };
  const later = {
    reopen: () => Promise.reject(new Error("one handle")),
    tamper: () => Promise.resolve(),
    dispose: done,
  };
  s = new Subject({ store, passTime: (ms) => clock.advance(ms), jumpTime: null, slack_ms: 0, ...later });
});
afterEach(() => done());

function stepsOf(sql: string): string[] {
  const database = new Database(join(folder, "lease.db"));
  try {
    return (database.query(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[]).map(({ detail }) => detail);
  } finally {
    database.close();
  }
}

/** Statements among those prepared so far that read a whole table, with the step that does. */
function walks(): string[] {
  const asked = prepared.filter((sql) => /^\s*(SELECT|WITH|UPDATE|DELETE|INSERT)/.test(sql));
  return asked.flatMap((sql) => {
    const bad = stepsOf(sql).filter((step) =>
      /^SCAN (jobs|granted|attempts|new|checkpoints|logs|dependencies)$/.test(step),
    );
    return bad.map((step) => `${step}: ${sql}`);
  });
}

describe("the plan", () => {
  test("of whose turn it is goes straight to the place in line, also past jobs that have no command", async () => {
    const bare = { argv: [], input: new Uint8Array([49]), task: "t" };
    for (let n = 0; n < 60; n++) await s.enqueue({ task: "t" }, bare);
    for (const commands_only of [true, false]) {
      for (const task of [null, "t"]) {
        for (const count of [1, 20]) await s.acquire({ count, commands_only, task, queues: ["default"] });
        await s.acquire({ commands_only, task, queues: null });
      }
    }
    const asked = prepared.filter((sql) => sql.includes("ORDER BY priority DESC"));
    expect(asked.length).toBeGreaterThanOrEqual(6);
    const looks = asked.flatMap(stepsOf).filter((step) => /INDEX jobs_ready/.test(step));
    expect(looks.length).toBeGreaterThanOrEqual(asked.length);
    // <expr> is what keeps those with and without a command apart.
    expect(looks.filter((step) => !/queue=\? AND <expr>=\?/.test(step))).toEqual([]);
    expect(
      asked
        .filter((sql) => sql.includes("= 0") && !sql.includes("UNION"))
        .flatMap(stepsOf)
        .join(),
    ).not.toMatch(/TEMP B-TREE/);
  });

  test("of the oldest pending job and of the counts steps through the line, and sorts nothing", async () => {
    await s.enqueue({ queue: "a" }, { queue: "a", priority: 3, limits: ["few"] }, { queue: "b" });
    prepared.length = 0;
    await s.store.oldestPending();
    await s.store.counts();
    expect(walks()).toEqual([]);
    const heads = prepared.filter((sql) => sql.includes("ORDER BY priority DESC"));
    expect(heads).toHaveLength(1);
    expect(heads.flatMap(stepsOf).join()).not.toMatch(/TEMP B-TREE/);
  });

  test("of a list of all that were given an order by start walks, so that these tests can fail", async () => {
    await s.store.list({ limit: 5, newest_first: true, sort: "started" });
    expect(walks()).toHaveLength(1);
  });

  test("of a job's life never walks through the jobs", async () => {
    const parent = await s.granted({ key: "k", queue: "a", settings: { lease_ms: "auto" } });
    await s.enqueue({ after: [parent.job.id] }, { delay_ms: 1_000 }, { task: "t" });
    const { id, token } = parent.job;
    await s.store.extend([{ id, token, expires_in_ms: 9_000, beat_age_ms: 0, beats: 1 }]);
    await s.store.checkpoint([{ id, token, text: "half way" }]);
    await s.store.settle([await s.ending(parent.job, end("exit"), { gaps: {} })]);
    await s.passTime(5_000);
    const again = await s.acquire({ queues: ["a"] });
    await s.acquire({ task: "t" });
    await s.acquire({ queues: ["b"], task: "t" });
    await s.acquire({ job: id });
    await s.store.cancel([id], null);
    await s.store.cancelRequests("w1");
    for (const grant of again) await s.settle(grant, end("cancelled"));
    await s.store.retry([id]);
    expect(walks()).toEqual([]);
  });

  test("of the running jobs, page by page, never walks through the others", async () => {
    await s.granted();
    for (const states of [["cancelling"], ["running", "cancelling"]] as const) {
      await s.store.list({ states, behind_id: 0, limit: 9, newest_first: false });
    }
    expect(
      prepared
        .filter((sql) => sql.includes("+id >"))
        .flatMap(stepsOf)
        .join("\n"),
    ).not.toMatch(/rowid[<>]/);
    expect(walks()).toEqual([]);
  });

  test("of a sweep and of housekeeping never walks through the jobs", async () => {
    const grant = await s.granted();
    await s.passTime(100_000);
    await s.store.expired({ grace_ms: 0, dead_holders: [], after: null, limit: 9 });
    await s.store.expired({ grace_ms: 0, dead_holders: ["w1"], after: null, limit: 9 });
    await s.store.recover([await s.recovery(grant.job.id)]);
    await s.store.promote();
    await s.store.trimCheckpoints(1);
    for (const uptime_ms of [0, 3_600_000])
      await s.store.noticeClockJump({ boot_id: "b", suspends: 0, uptime_ms }, 1_000);
    expect(prepared.some((sql) => sql.includes("AS granted"))).toBe(true);
    await s.store.prunable({ older_than_ms: 0, states: FINISHED });
    await s.finished("completed", { priority: 1 });
    for (const selection of [{}, { queues: ["a"] }, { task: "t" }]) {
      await s.store.prune({ older_than_ms: 0, states: FINISHED, limit: 9, ...selection });
    }
    expect(walks()).toEqual([]);
  });

  test("of figures never walks through the jobs", async () => {
    await s.store.counts();
    await s.store.counts({ queues: ["a"] });
    await s.store.counts({ task: "t" });
    await s.store.counts({ ids: [1, 2] });
    await s.store.retryCounts();
    await s.store.parents([1]);
    await s.store.nextDue();
    for (const queues of [null, ["a"]]) {
      for (const task of [null, "t"]) {
        await s.store.backlog({ queues, task });
        await s.store.topPriority({ queues, task });
      }
    }
    expect(walks()).toEqual([]);
  });

  test.each([false, true])("of a list of few among many takes their index (newest first: %p)", async (newest_first) => {
    const list = { limit: 5, newest_first };
    for (const state of ["blocked", "scheduled", "retrying", "pending", "running", "cancelling", "failed"] as const) {
      await s.store.list({ ...list, states: [state] });
      await s.store.list({ ...list, states: [state], queues: ["a"] });
    }
    await s.store.list({ ...list, states: ["running", "cancelling", "failed", "cancelled"] });
    await s.store.list({ ...list, states: [...FINISHED], sort: "finished" });
    await s.store.list({ ...list, holder: "w1" });
    await s.store.list({ ...list, ids: [1, 2], states: ["completed"] });
    for (const sort of SORTS) {
      await s.store.list({ ...list, sort, task: "t", states: ["completed", "running"] });
      await s.store.list({ ...list, sort, key: "k", states: ["completed", "pending"] });
      await s.store.list({ ...list, sort, states: ["running"] });
    }
    expect(walks()).toEqual([]);
  });

  test("of the latest failures comes out of the index in order, without sorting them all", async () => {
    await s.store.list({ limit: 5, newest_first: true, states: ["failed"], sort: "finished" });
    const steps = stepsOf(prepared.at(-1) as string).join("\n");
    expect(steps).toContain("COVERING INDEX jobs_finished (state=? AND finished_at_ms>?)");
    // The one that is left orders the five.
    expect(steps.match(/TEMP B-TREE/g)).toHaveLength(1);
  });
});
