// A store as the lease of some source tree makes it, with something of everything, for test/compat:
//
//   git worktree add --detach /tmp/then COMMIT && ln -s "$PWD/node_modules" /tmp/then/
//   bun scripts/store_fixture.ts /tmp/then [sqlite|postgres]
//
// To be run for the last commit before a schema gets a further step; a fixture that is there is never made anew.

import { Database } from "bun:sqlite";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import postgres from "postgres";
import { startPostgres } from "../test/support/postgres.ts";

const [source = ".", only] = process.argv.slice(2);
const STORES = join(import.meta.dir, "../test/compat/stores");
const folder = mkdtempSync(join(tmpdir(), "lease-fixture-"));

async function lease(store: string, ...words: string[]): Promise<string> {
  const [command = "", ...rest] = words;
  const argv = [process.execPath, join(resolve(source), "src/main.ts"), command, "--store", store, ...rest];
  const child = Bun.spawn(argv, {
    cwd: "/",
    env: { PATH: process.env["PATH"] ?? "", HOME: folder, NO_COLOR: "1" },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    timeout: 60_000,
  });
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  const died = child.signalCode === "SIGKILL";
  if (!died && child.exitCode !== 0 && child.exitCode !== 1) throw new Error(`${words.join(" ")}: ${stderr}`);
  return stdout.trim();
}

/** All states, with logs, checkpoints, inputs, keys, tasks, a pause, and a worker that died with a job. */
async function live(store: string): Promise<void> {
  const queue = (...words: string[]) => lease(store, "enqueue", ...words);
  await queue("--input", "some input", "-t", "release", "--key", "k1", "--", "sh", "-c", "seq 3000; echo oops >&2");
  await queue("--retries", "1", "--backoff", "1ms", "--", "sh", "-c", "echo bad; exit 3");
  await queue("-q", "mail", "-p", "7", "--", "true");
  await lease(store, "worker", "--until-empty", "-q", "default", "-q", "mail");
  await queue("-q", "lost", "--retries", "5", "--", "sh", "-c", "echo going; kill -KILL $PPID; sleep 1");
  await lease(store, "worker", "--once", "-q", "lost", "--no-sweep");
  const parent = await queue("-q", "later", "--key", "live", "--", "echo", "pending");
  await queue("-q", "later", "--after", parent, "--", "echo", "blocked");
  await queue("-q", "later", "--delay", "1d", "--env", "A=1", "--", "echo", "scheduled");
  await lease(store, "cancel", await queue("-q", "later", "--", "echo", "cancelled"));
  await lease(store, "pause", "quiet");
}

function write(name: string, bytes: Uint8Array): void {
  const path = join(STORES, name);
  if (existsSync(path)) throw new Error(`${path} is there already: what was released does not change`);
  writeFileSync(path, Bun.gzipSync(new Uint8Array(bytes)));
  console.log(name, bytes.length);
}

async function sqlite(): Promise<void> {
  const path = join(folder, "lease.db");
  await live(path);
  const database = new Database(path);
  const { user_version } = database.query("PRAGMA user_version").get() as { user_version: number };
  database.run("PRAGMA wal_checkpoint(TRUNCATE)");
  database.run("VACUUM");
  database.run("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
  write(`sqlite_${user_version}.db.gz`, readFileSync(path));
}

/** The steps as they were then, and the rows. */
async function onPostgres(): Promise<void> {
  const { MIGRATIONS } = (await import(join(resolve(source), "src/store/postgres/schema.ts"))) as {
    MIGRATIONS: readonly string[];
  };
  const server = await startPostgres();
  await live(`${server.url}?schema=lease`);
  const sql = postgres(server.url, { max: 1 });
  const tables = await sql`SELECT tablename FROM pg_tables WHERE schemaname = 'lease' ORDER BY tablename`;
  const rows: Record<string, unknown> = {};
  for (const { tablename } of tables) {
    const [all] = await sql.unsafe(`SELECT coalesce(json_agg(t), '[]')::text AS rows FROM lease.${tablename} AS t`);
    rows[tablename as string] = JSON.parse(String(all?.["rows"]));
  }
  await sql.end();
  await server.stop();
  const text = JSON.stringify({ steps: MIGRATIONS, rows });
  write(`postgres_${MIGRATIONS.length}.json.gz`, new TextEncoder().encode(text));
}

if (only !== "postgres") await sqlite();
if (only !== "sqlite") await onPostgres();
rmSync(folder, { recursive: true, force: true });
process.exit(0);
