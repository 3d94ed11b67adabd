/** The platform on Bun: `bun:sqlite`, `Bun.spawn`, `Bun.Terminal`. */

import { constants, Database } from "bun:sqlite";
import { quickFiles } from "./quick_files.ts";
import type * as Pipes from "./pipes.ts";
import type { Child, Platform, SpawnOptions, SqlRow, SqlValue, Stream } from "./platform.ts";

export const platform: Platform = {
  runtime: `bun ${Bun.version}`,
  quickFiles,

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
        database.run("PRAGMA journal_size_limit = -1");
        database.run("PRAGMA synchronous = OFF");
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
    return options.pty ? spawnInTerminal(options) : spawnWithPipes(options);
  },

  // Not by node:zlib, which takes longer to load than a watchdog takes to run.
  deflate: (bytes) => Bun.deflateSync(bytes as Uint8Array<ArrayBuffer>, { level: 1 }),
  inflate: (bytes) => Bun.inflateSync(bytes as Uint8Array<ArrayBuffer>),
};

let pipes_module: Promise<typeof Pipes> | undefined;

async function spawnWithPipes(options: SpawnOptions): Promise<Child> {
  // Loaded with the first job: only workers need it.
  const { closeAll, openPipes } = await (pipes_module ??= import("./pipes.ts"));
  const pipes = openPipes();
  const start = (stdout: "pipe" | number, stderr: "pipe" | number) =>
    Bun.spawn([...options.argv], {
      cwd: options.cwd,
      env: options.env,
      stdin: options.input ?? "ignore",
      stdout,
      stderr,
      detached: true,
      // Else it begins to read before it is asked to, without bounds.
      lazy: true,
    });
  if (pipes === null) {
    const child = start("pipe", "pipe");
    return childOf(child, [child.stdout, child.stderr] as ReadableStream<Uint8Array>[], options, () => {});
  }
  const [stdout, stderr] = pipes;
  try {
    const child = start(stdout.write_fd, stderr.write_fd);
    const streams = [Bun.file(stdout.read_fd).stream(), Bun.file(stderr.read_fd).stream()];
    // A stream does not own its descriptor.
    return childOf(child, streams, options, () => closeAll([stdout.read_fd, stderr.read_fd]));
  } catch (error) {
    closeAll([stdout.read_fd, stderr.read_fd]);
    throw error;
  } finally {
    closeAll([stdout.write_fd, stderr.write_fd]);
  }
}

function childOf(
  child: Bun.Subprocess,
  streams: readonly ReadableStream<Uint8Array>[],
  { onOutput }: SpawnOptions,
  release: () => void,
): Child {
  const readers = streams.map((stream) => stream.getReader());
  const read = async (index: number, stream: Stream) => {
    for (;;) {
      const chunk = await readers[index]?.read();
      if (chunk?.value === undefined) return;
      const taken = onOutput(stream, chunk.value);
      if (taken !== undefined) await taken;
    }
  };
  return {
    pid: child.pid,
    exited: child.exited.then(() => exitOf(child.exitCode, child.signalCode)),
    drained: Promise.allSettled([read(0, "stdout"), read(1, "stderr")]).then(release),
    abandonOutput() {
      for (const reader of readers) reader.cancel().catch(() => {});
    },
  };
}

/** Signals without a name (the real-time ones) come as numbers. */
function exitOf(exit_code: number | null, signal: string | number | null) {
  return { exit_code, signal: signal === null ? null : String(signal) };
}

const PTY_COLUMNS = 120;
const PTY_ROWS = 40;

function spawnInTerminal(options: SpawnOptions): Child {
  const ended = Promise.withResolvers<void>();
  const child = Bun.spawn([...options.argv], {
    cwd: options.cwd,
    env: { TERM: "xterm-256color", ...options.env },
    terminal: {
      cols: PTY_COLUMNS,
      rows: PTY_ROWS,
      data: (_terminal, bytes) => void options.onOutput("stdout", bytes),
      exit: () => ended.resolve(),
    },
  });
  const { terminal } = child;
  if (options.input !== null) terminal?.write(options.input);
  // End of file, as a person types it: a program that reads its input must not wait for more.
  if (options.input !== null) terminal?.write("\x04");
  return {
    pid: child.pid,
    exited: child.exited.then(() => exitOf(child.exitCode, child.signalCode)),
    drained: ended.promise,
    abandonOutput: () => terminal?.close(),
  };
}
