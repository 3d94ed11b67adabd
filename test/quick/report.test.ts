/** The quick beat and checkpoint write what the whole commands write, or nothing at all. */

import { platform } from "#platform";
import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import beat from "../../src/commands/beat.ts";
import checkpoint from "../../src/commands/checkpoint.ts";
import { dispatch } from "../../src/cli/main.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { answerQuickly } from "../../src/quick/quick.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { newJob } from "../support/jobs.ts";
import { asIfBuilt } from "../support/built.ts";

asIfBuilt();

const top = mkdtempSync(join(tmpdir(), "lease-report-"));
afterAll(() => rmSync(top, { recursive: true }));

let stores = 0;

interface Held {
  path: string;
  env: Record<string, string>;
}

/** A store with a job that is running, and what the job is told. */
async function heldJob(): Promise<Held> {
  const path = join(top, `${++stores}`, "lease.db");
  const store = await openSqlite(path, { clock: systemClock, random: systemRandom });
  await store.enqueue([newJob({ task: "t" })]);
  const [grant] = await store.acquire({ holder: "w", host: "h", queues: null, task: null, count: 1, lease_ms: 60_000 });
  const store_id = (await store.storeId()) ?? "";
  await store.close({ exiting: true });
  const env = { LEASE_JOB_ID: String(grant?.job.id), LEASE_TOKEN: String(grant?.job.token), LEASE_STORE_ID: store_id };
  return { path, env: { HOME: top, LEASE_STORE: path, LEASE_INTERVAL: "0", LEASE_EXTENSION: "30s", ...env } };
}

function change(path: string, sql: string): void {
  const database = platform.openSqlite(path);
  database.exec(sql);
  database.close();
}

/** All that a report may change, without the moments. */
function written(path: string): unknown {
  const database = platform.openSqlite(path);
  const row = (sql: string) => database.prepare(sql).all();
  const all = {
    job: row(
      "SELECT state, token, progress, message, cancel_told_at_ms, last_beat_at_ms > started_at_ms AS beaten FROM jobs",
    ),
    attempt: row("SELECT beats, self_beats, extensions, extension_failures, extension_refusals FROM attempts"),
    notes: row("SELECT job_id, task, kind, token, text FROM checkpoints"),
  };
  database.close();
  return all;
}

async function whole(words: readonly string[], env: Held["env"]): Promise<number> {
  const io = { stdout: () => {}, stdoutBytes: () => {}, stderr: () => {}, env, is_tty: false, columns: null };
  const entry = (load: typeof beat) => ({ group: "", description: "", load: async () => load });
  return dispatch(words, { beat: entry(beat), checkpoint: entry(checkpoint) }, io);
}

describe.if(process.platform === "linux")("a quick report", () => {
  const LINES = [
    ["beat"],
    ["beat", "--progress", "40"],
    ["beat", "--progress=12.5", "--message", "linking ü"],
    ["checkpoint", "page 7"],
    ["checkpoint", "--", "-7"],
  ];
  test.each(LINES)("writes what the whole command writes: %s %s %s", async (...words) => {
    const [ours, proper] = [await heldJob(), await heldJob()];
    const before = written(ours.path);
    expect(answerQuickly(words, ours.env)).toEqual({ text: "", printed: true });
    expect(await whole(words, proper.env)).toBe(0);
    expect(written(ours.path)).toEqual(written(proper.path));
    expect(written(ours.path)).not.toEqual(before);
  });

  const GONE: [string, string | null, Record<string, string>, number][] = [
    ["of a job that somebody cancels", "UPDATE jobs SET cancel_requested_at_ms = 1", {}, 3],
    ["of a lease that has run out", "UPDATE jobs SET expires_at_ms = 1", {}, 4],
    ["of another token", "UPDATE jobs SET token = 2", {}, 4],
    ["of another life of the store", null, { LEASE_STORE_ID: "f81d4fae-7dec-11d0-a765-00a0c91e6bf6" }, 4],
  ];
  test.each(GONE)("%s is left to the whole command", async (_what, sql, more, code) => {
    const { path, env } = await heldJob();
    if (sql !== null) change(path, sql);
    const before = written(path);
    expect(answerQuickly(["beat"], { ...env, ...more })).toBeNull();
    expect(written(path)).toEqual(before);
    expect(await whole(["beat"], { ...env, ...more })).toBe(code);
  });

  const LEFT = [
    ["beat", "--progress", "101"],
    ["beat", "--progress", "50%"],
    ["beat", "now"],
    ["beat", "--verbose"],
    ["checkpoint"],
    ["checkpoint", "-"],
    ["checkpoint", "two", "words"],
  ];
  test.each(LEFT)("a line that is not plain is left to the whole command: %s %s %s", async (...words) => {
    const { path, env } = await heldJob();
    const before = written(path);
    expect(answerQuickly(words, env)).toBeNull();
    expect(written(path)).toEqual(before);
  });

  test("outside a job there is nothing to report", () => {
    expect(answerQuickly(["beat"], { HOME: top })).toBeNull();
  });
});
