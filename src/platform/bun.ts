/** The platform on Bun: `bun:sqlite`, `Bun.spawn`, `Bun.Terminal`. */

import { constants, Database } from "bun:sqlite";
import { processCalls } from "./bun_processes.ts";
import process from "node:process";
import { quickFiles } from "./libc.ts";
import { macProcesses } from "./mac.ts";
import type * as Spawning from "./bun_spawn.ts";
import type { Platform, SqlRow, SqlValue } from "./platform.ts";

const children = new Set<number>();
let spawning: Promise<typeof Spawning> | undefined;

/** One byte of DEFLATE stands for no more. */
const MOST_INFLATED = 1_032;

export const platform: Platform = {
  runtime: `bun ${Bun.version}`,
  variable: (name) => process.env[name],
  quickFiles,
  processCalls,
  macProcesses,
  children,

  keeps_log: true,
  watches_folders: true,
  openSqlite(path) {
    const database = new Database(path, { readwrite: true, create: true });
    // The WAL stays when the last connection closes: making it anew costs the next one two more syncs.
    database.fileControl(constants.SQLITE_FCNTL_PERSIST_WAL, 1);
    const statements: { finalize(): void }[] = [];
    return {
      exec: (sql) => void database.run(sql),
      prepare(sql) {
        const statement = database.prepare<SqlRow, SqlValue[]>(sql);
        statements.push(statement);
        return {
          run(...params) {
            const { changes, lastInsertRowid } = statement.run(...params);
            return { changes, last_id: Number(lastInsertRowid) };
          },
          get: (...params) => statement.get(...params),
          all: (...params) => statement.all(...params),
        };
      },
      close() {
        // A connection with a statement left stays open behind our back, and so do its files.
        for (const statement of statements) statement.finalize();
        database.close();
      },
      closeKeepingWal() {
        for (const statement of statements) statement.finalize();
        // The WAL stays as it is, whole and synced (PERSIST_WAL, and no limit to cut it to). As long as it is there it
        // outranks what closing copies from it, so that copy need not be synced: after a crash it is not looked at.
        try {
          database.run("PRAGMA journal_size_limit = -1");
          database.run("PRAGMA synchronous = OFF");
        } catch {
          // A transaction of a damaged store could not be ended.
          return database.close();
        }
        try {
          database.close(true);
        } catch (error) {
          // Still open: whatever folds the WAL back later must sync again.
          database.run("PRAGMA synchronous = FULL");
          throw error;
        }
      },
    };
  },

  async spawn(options) {
    // Loaded with the first job: only workers need it.
    const { spawnInTerminal, spawnWithPipes } = await (spawning ??= import("./bun_spawn.ts"));
    const child = options.pty ? spawnInTerminal(options) : spawnWithPipes(options);
    children.add(child.pid);
    void child.exited.then(() => children.delete(child.pid));
    return child;
  },

  // Not by node:zlib, which takes longer to load than a watchdog takes to run.
  deflate: (bytes) => Bun.deflateSync(bytes as Uint8Array<ArrayBuffer>, { level: 1 }),
  inflate: (bytes, most_bytes) =>
    bytes.length * MOST_INFLATED <= most_bytes
      ? Bun.inflateSync(bytes as Uint8Array<ArrayBuffer>)
      : process.getBuiltinModule("node:zlib").inflateRawSync(bytes, { maxOutputLength: most_bytes }),

  serve({ host, port, body_limit_bytes, answer }) {
    const server: Bun.Server<undefined> = Bun.serve({
      hostname: host,
      port,
      maxRequestBodySize: body_limit_bytes,
      // A stream of events may be silent for long.
      idleTimeout: 0,
      fetch: (request) => answer(request, server.requestIP(request)),
    });
    return { port: server.port ?? port, stop: () => server.stop(true) };
  },

  datagrams: async (address) => (await import("./bun_datagram.ts")).datagramTo(address),
};
