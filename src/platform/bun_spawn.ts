/** Children on Bun: `Bun.spawn` with pipes of our own, or a terminal. */

import { anyBytes, closeAll, openPipes, readWhatIsThere, type Pipes } from "./libc.ts";
import type { Child, SpawnOptions, Stream } from "./platform.ts";

/**
 * A stream is set up when a program has printed something, when it has lived for a while, or never: setting two up and
 * taking them down is a tenth of all the time that a very short job takes. Of what it prints to both between two looks
 * the order is lost, so they are close.
 */
const LOOK_EVERY_MS = 1;
const LOOKS = 5;

export function spawnWithPipes(options: SpawnOptions): Child {
  const pipes = openPipes();
  if (pipes === null) return spawnWithSockets(options);
  const [stdout, stderr] = pipes;
  try {
    return readLate(start(options, stdout.write_fd, stderr.write_fd), pipes, options);
  } catch (error) {
    closeAll([stdout.read_fd, stderr.read_fd]);
    throw error;
  } finally {
    closeAll([stdout.write_fd, stderr.write_fd]);
  }
}

function start(options: SpawnOptions, stdout: "pipe" | number, stderr: "pipe" | number) {
  return Bun.spawn([...options.argv], {
    cwd: options.cwd,
    env: options.env,
    stdin: options.input ?? (options.inherits_stdin === true ? "inherit" : "ignore"),
    stdout,
    stderr,
    detached: true,
    ...inCgroup(options),
    // Else it begins to read before it is asked to, without bounds.
    lazy: true,
  });
}

function inCgroup({ cgroup = null }: SpawnOptions) {
  return cgroup === null ? {} : { cgroup };
}

function readLate(child: Bun.Subprocess, pipes: Pipes, { onOutput }: SpawnOptions): Child {
  const drained = Promise.withResolvers<void>();
  let reading: Reading | null = null;
  const release = () => {
    // A stream does not own its descriptor.
    closeAll(pipes.map(({ read_fd }) => read_fd));
    drained.resolve();
  };
  const attach = () => {
    const streams = pipes.map(({ read_fd }) => Bun.file(read_fd).stream());
    reading = readAll(streams, onOutput);
    void reading.drained.then(release);
  };
  let looks = 0;
  let timer = setTimeout(function look() {
    looks += 1;
    if (looks === LOOKS || anyBytes(pipes)) attach();
    else timer = setTimeout(look, LOOK_EVERY_MS);
  }, LOOK_EVERY_MS);
  const exited = child.exited.then(() => {
    clearTimeout(timer);
    // Nobody is held back any more: what is left fits into a pipe.
    if (reading === null) {
      if (readWhatIsThere(pipes, (index, bytes) => void onOutput(STREAMS[index] ?? "stdout", bytes))) release();
      else attach();
    }
    return exitOf(child.exitCode, child.signalCode);
  });
  return {
    pid: child.pid,
    exited,
    drained: drained.promise,
    abandonOutput: () => reading?.abandon(),
    cpu_ms: () => cpuOf(child),
  };
}

function spawnWithSockets(options: SpawnOptions): Child {
  const child = start(options, "pipe", "pipe");
  const reading = readAll([child.stdout, child.stderr] as ReadableStream<Uint8Array>[], options.onOutput);
  const exited = child.exited.then(() => exitOf(child.exitCode, child.signalCode));
  return {
    pid: child.pid,
    exited,
    drained: reading.drained,
    abandonOutput: () => reading.abandon(),
    cpu_ms: () => cpuOf(child),
  };
}

const STREAMS: readonly Stream[] = ["stdout", "stderr"];

interface Reading {
  drained: Promise<void>;
  abandon(): void;
}

/** Reads both streams to their ends. */
function readAll(streams: readonly ReadableStream<Uint8Array>[], onOutput: SpawnOptions["onOutput"]): Reading {
  const readers = streams.map((stream) => stream.getReader());
  const read = async (stream: Stream, index: number) => {
    for (;;) {
      const chunk = await readers[index]?.read();
      if (chunk?.value === undefined) return;
      const taken = onOutput(stream, chunk.value);
      if (taken !== undefined) await taken;
    }
  };
  return {
    drained: Promise.allSettled(STREAMS.map(read)).then(() => {}),
    abandon() {
      for (const reader of readers) reader.cancel().catch(() => {});
    },
  };
}

function cpuOf(child: Bun.Subprocess): number | null {
  const usage = child.resourceUsage();
  return usage === undefined ? null : Math.round(Number(usage.cpuTime.total) / 1_000);
}

/** Signals without a name (the real-time ones) come as numbers. */
function exitOf(exit_code: number | null, signal: string | number | null) {
  return { exit_code, signal: signal === null ? null : String(signal) };
}

const PTY_COLUMNS = 120;
const PTY_ROWS = 40;

export function spawnInTerminal(options: SpawnOptions): Child {
  const ended = Promise.withResolvers<void>();
  const child = Bun.spawn([...options.argv], {
    cwd: options.cwd,
    env: { TERM: "xterm-256color", ...options.env },
    ...inCgroup(options),
    terminal: {
      cols: options.terminal?.columns() ?? PTY_COLUMNS,
      rows: options.terminal?.rows() ?? PTY_ROWS,
      data: (_terminal, bytes) => void options.onOutput("stdout", bytes),
      exit: () => ended.resolve(),
    },
  });
  const { terminal } = child;
  const { terminal: ours } = options;
  const stop = ours?.onChange(() => terminal?.resize(ours.columns(), ours.rows()));
  if (options.input !== null) {
    terminal?.write(options.input);
    // End of file, as a person types it: a program that reads its input must not wait for more.
    terminal?.write("\x04");
  }
  return {
    pid: child.pid,
    exited: child.exited.then(() => {
      stop?.();
      return exitOf(child.exitCode, child.signalCode);
    }),
    drained: ended.promise,
    abandonOutput: () => terminal?.close(),
    cpu_ms: () => cpuOf(child),
  };
}
