/**
 * How fast jobs go through the store a hundred at a time, beside the bare statements of the same work: grant and
 * attempt in one commit, settle and end of the attempt in the next, both FULL. What the store does on top (promotion,
 * inputs, children, rows to records, answers) is its own cost.
 */

import { Database } from "bun:sqlite";
import { isRefusal, transition } from "../../src/core/transition.ts";
import { SQL, TURNS as TURNS_OF } from "../../src/store/sqlite/statements.ts";
import type { Store } from "../../src/store/store.ts";
import { filledStore, job, openStore, ratioFigure, SUCCESS, takeTurns, times } from "./harness.ts";

const BATCH = 100;
const BATCHES_PER_TURN = 40;
const TURNS = 10;
const LEASE_MS = 300_000;

const jobs = times(BATCH * BATCHES_PER_TURN * (TURNS + 1), () => job(["/bin/true"]));
const per_second = (started_ms: number) => (BATCH * BATCHES_PER_TURN * 1_000) / (performance.now() - started_ms);

async function throughStore(store: Store): Promise<number> {
  const request = { holder: "bench", host: "bench", count: BATCH, queues: ["default"], task: null, lease_ms: LEASE_MS };
  const started_ms = performance.now();
  for (let i = 0; i < BATCHES_PER_TURN; i++) {
    const grants = await store.acquire(request);
    const moment = { now_ms: Date.now(), random: Math.random };
    const requests = grants.map(({ job: { id, token }, job: granted }) => {
      const change = transition(granted, { type: "settle", token, end: SUCCESS }, moment);
      if (isRefusal(change)) throw new Error(change.refused);
      return { id, token, change, process: null, audit: null };
    });
    const answers = await store.settle(requests);
    if (answers.filter(({ status }) => status === "applied").length !== BATCH) throw new Error("not all were settled");
  }
  return per_second(started_ms);
}

/** Where it ran, how it was fenced and what it used. */
const NO_PROCESS = Array.from({ length: 6 }, () => null);

function bareStatements(path: string): () => number {
  const database = new Database(path);
  database.run("PRAGMA synchronous = FULL");
  database.run("PRAGMA foreign_keys = ON");
  const [begin, commit] = [database.prepare("BEGIN IMMEDIATE"), database.prepare("COMMIT")];
  const acquire = database.prepare<{ id: number; token: number }, (string | number)[]>(TURNS_OF.commands.acquire);
  const insertAttempt = database.prepare(SQL.insertAttempt);
  const settle = database.prepare(SQL.settle);
  const endAttempt = database.prepare(SQL.endAttempt);
  return () => {
    const started_ms = performance.now();
    for (let i = 0; i < BATCHES_PER_TURN; i++) {
      const granted_at_ms = Date.now();
      begin.run();
      const rows = acquire.all("bench", granted_at_ms, LEASE_MS, "default", BATCH);
      for (const { id, token } of rows) insertAttempt.run(id, token, "bench", "bench", granted_at_ms, LEASE_MS);
      commit.run();
      const now_ms = Date.now();
      begin.run();
      for (const { id, token } of rows) {
        settle.run(id, token, "completed", null, now_ms, 0, "success", 0, null, null, null, now_ms);
        endAttempt.run(id, token, now_ms, "success", 0, null, null, null, 1, ...NO_PROCESS);
      }
      commit.run();
      if (rows.length !== BATCH) throw new Error("the store ran dry");
    }
    return per_second(started_ms);
  };
}

const store = await openStore(await filledStore(jobs));
const bare = bareStatements(await filledStore(jobs));
await throughStore(store);
bare();
const turns = await takeTurns(
  TURNS,
  () => throughStore(store),
  async () => bare(),
);
await store.close();
ratioFigure("store-drain", "jobs/s", turns, { at_least: 0.5 });
