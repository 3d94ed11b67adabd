/**
 * What people do to whole stores: jobs go in, one at a time by a program of its own or all at once, and are cancelled,
 * retried and deleted by what they have in common. The limit is one bare statement on the same schema in one commit,
 * which nobody else could write beside. And what is asked of a large store is held against the same of a small one: there
 * 1 is as fast, and the ratio what is left of that.
 */

import { Database } from "bun:sqlite";
import { copyFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import {
  emptyBinary,
  has,
  job,
  leaseBinary,
  newFolder,
  newStorePath,
  openStore,
  timed,
  timedShell,
  times,
} from "../harness.ts";
import type { Contest, Contestant } from "./contest.ts";
import type { Size } from "./league.ts";

const SYNCED = "synced, each step";
const perSecond = (count: number, taken_ms: number) => (count * 1_000) / taken_ms;
const SMALL = 1_000;

/** Made once, and copied for whoever changes it: so many pending jobs, or as many that have ended with an attempt each. */
const made = new Map<string, Promise<string>>();

async function storeOf(count: number, ended: boolean): Promise<string> {
  const path = newStorePath();
  const store = await openStore(path);
  await store.enqueueAll(batches(count));
  await store.close();
  const database = new Database(path);
  if (ended) {
    database.run(
      "INSERT INTO attempts (job_id, attempt, worker, host, lease_ms, started_at_ms, ended_at_ms, cause, beats) SELECT id, 1, 'w', 'h', 300000, 1, 2, 'success', 2 FROM jobs",
    );
    database.run(
      "UPDATE jobs SET state = 'completed', token = 1, started_at_ms = 1, finished_at_ms = id, cause = 'success', exit_code = 0",
    );
  }
  database.run("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
  return path;
}

async function* batches(count: number) {
  const STEP = 2_000;
  for (let from = 0; from < count; from += STEP) yield times(Math.min(STEP, count - from), () => job(["/bin/true"]));
}

async function copyOf(count: number, ended: boolean): Promise<string> {
  const name = `${count} ${ended}`;
  const known = made.get(name) ?? storeOf(count, ended);
  made.set(name, known);
  const path = newStorePath();
  copyFileSync(await known, path);
  return path;
}

/** By a command of ours on a copy, per second. */
function byCommand(count: number, ended: boolean, args: readonly string[]): Contestant {
  return {
    name: "lease",
    durability: SYNCED,
    async run() {
      const store = await copyOf(count, ended);
      return perSecond(count, await timed([leaseBinary(), ...args, "--store", store]));
    },
  };
}

function byStatement(count: number, ended: boolean, statements: readonly string[]): Contestant {
  return {
    name: "bare statements, one commit",
    durability: "synced, once",
    async run() {
      const database = new Database(await copyOf(count, ended));
      database.run("PRAGMA synchronous = FULL");
      const started_ms = performance.now();
      database.run("BEGIN IMMEDIATE");
      for (const sql of statements) database.run(sql);
      database.run("COMMIT");
      const taken_ms = performance.now() - started_ms;
      database.close();
      return perSecond(count, taken_ms);
    },
  };
}

const CANCEL = "UPDATE jobs SET state = 'cancelled', finished_at_ms = 1 WHERE state = 'pending'";
const RETRY = "UPDATE jobs SET state = 'pending', run_at_ms = 1, finished_at_ms = NULL, cause = NULL, exit_code = NULL";

/** The same asked of a large store and of a small one. */
function growth(name: string, count: number, turns: number, args: readonly string[]): Contest {
  const stores = new Map<number, Promise<string>>();
  const ask = (jobs: number): Contestant => ({
    name: jobs === SMALL ? `itself with ${SMALL.toLocaleString("en-US")} jobs` : "lease",
    durability: "reads",
    at_least: 1 / 1.5,
    async run() {
      const known = stores.get(jobs) ?? copyOf(jobs, true);
      stores.set(jobs, known);
      const store = await known;
      return timed([leaseBinary(), ...args, "--store", store], { may_fail: true });
    },
  });
  const title = `${name} with ${count.toLocaleString("en-US")} jobs`;
  return { name: title, unit: "ms", less_is_better: true, turns, ours: ask(count), others: [ask(SMALL)] };
}

/** One program start for each job, as a script does it. */
function coldEnqueue(turns: number, count: number): Contest {
  const empty = emptyBinary();
  const each = (shell: string) => `i=0; while [ $i -lt ${count} ]; do ${shell} >/dev/null; i=$((i+1)); done`;
  const ours: Contestant = {
    name: "lease",
    durability: "synced, each job",
    run: async () =>
      (await timedShell(each(`${leaseBinary()} enqueue --store ${newStorePath()} -- /bin/true`))) / count,
  };
  const limit: Contestant = {
    name: "an empty Bun program",
    durability: "nothing",
    at_least: 1 / 2,
    run: async () => (await timedShell(each(empty))) / count,
  };
  const nq: Contestant = {
    name: "nq",
    durability: "files, not synced",
    async run() {
      const folder = newFolder();
      return (await timedShell(each("nq -q /bin/true"), { env: { NQDIR: folder }, cwd: folder })) / count;
    },
  };
  const others = [limit, ...(has("nq") ? [nq] : [])];
  return { name: "enqueue, one program each", unit: "ms", less_is_better: true, turns, ours, others };
}

function bulk(turns: number, count: number): Contest {
  const lines = join(newFolder(), "jobs.jsonl");
  writeFileSync(lines, `{"argv":["/bin/true"]}\n`.repeat(count));
  const ours: Contestant = {
    name: "lease, lines of JSON",
    durability: "synced, all or none",
    run: async () =>
      perSecond(count, await timed([leaseBinary(), "enqueue", "--from", lines, "--store", newStorePath()])),
  };
  const bare: Contestant = {
    name: "bare statements, 100 rows each",
    durability: "synced, once",
    async run() {
      const database = new Database(await copyOf(0, false));
      database.run("PRAGMA synchronous = FULL");
      const one = "('pending', 'default', 0, 1, 3, 1, '[\"/bin/true\"]', '/')";
      const names = "state, queue, priority, run_at_ms, retries, created_at_ms, argv, cwd";
      const insert = database.prepare(`INSERT INTO jobs (${names}) VALUES ${times(100, () => one).join()}`);
      const started_ms = performance.now();
      database.run("BEGIN IMMEDIATE");
      for (let added = 0; added < count; added += 100) insert.run();
      database.run("COMMIT");
      return perSecond(count, performance.now() - started_ms);
    },
  };
  return { name: "bulk enqueue", unit: "jobs/s", turns, ours, others: [bare] };
}

/** After a job that printed a line: what it takes on the disk, with its attempt, log and share of the indexes. */
function bytes(count: number): Contest {
  const ours: Contestant = {
    name: "lease",
    durability: "synced, each job",
    async run() {
      const path = newStorePath();
      const store = await openStore(path);
      await store.enqueue(times(count, () => job(["echo", "hello"])));
      await store.close();
      await timed([leaseBinary(), "worker", "-j", "4", "--until-empty", "--store", path]);
      const database = new Database(path);
      database.run("PRAGMA wal_checkpoint(TRUNCATE)");
      database.close();
      return statSync(path).size / count;
    },
  };
  const other: Contestant = {
    name: "nq, a file for each",
    durability: "files, not synced",
    async run() {
      const folder = newFolder();
      const line = `i=0; while [ $i -lt 50 ]; do nq -q echo hello; i=$((i+1)); done; nq -w; du -sB1 . | cut -f1 >size`;
      await timedShell(line, { env: { NQDIR: folder }, cwd: folder });
      return Number(await Bun.file(join(folder, "size")).text()) / 50;
    },
  };
  const contest = { name: "a finished job on the disk", unit: "bytes", less_is_better: true, turns: 1, ours };
  return { ...contest, others: has("nq") ? [other] : [] };
}

export function storeContests({ quick }: Size): Contest[] {
  const count = quick ? 3_000 : Number(process.env["LEASE_BENCH_JOBS"] ?? 1_000_000);
  const turns = quick ? 1 : 3;
  const unit = "jobs/s";
  const rowOf = (name: string, ended: boolean, args: string[], statements: string[]): Contest => {
    const others = [byStatement(count, ended, statements)];
    return {
      name: `${name}, ${count.toLocaleString("en-US")} jobs`,
      unit,
      turns,
      ours: byCommand(count, ended, args),
      others,
    };
  };
  const all = ["--queue", "default"];
  return [
    coldEnqueue(quick ? 1 : 5, quick ? 5 : 100),
    bulk(turns, count),
    rowOf("cancel by queue", false, ["cancel", ...all], [CANCEL]),
    rowOf("retry by queue", true, ["retry", "--status", "completed", ...all], [RETRY]),
    rowOf("prune by queue", true, ["prune", ...all], ["DELETE FROM attempts", "DELETE FROM jobs"]),
    growth("doctor", count, quick ? 1 : 5, ["doctor", "--json"]),
    growth("overview", count, quick ? 1 : 5, ["inspect", "--json"]),
    growth("list of queues", count, quick ? 1 : 5, ["inspect", "queues", "--json"]),
    growth("metrics", count, quick ? 1 : 5, ["metrics"]),
    bytes(quick ? 50 : 2_000),
  ].filter(({ others }) => others.length > 0);
}
