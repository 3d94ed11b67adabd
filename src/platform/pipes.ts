/**
 * Real pipes for a child's output on Bun. Bun.spawn makes sockets, and a program that opens /dev/stdout or /dev/stderr
 * by name, as `echo oops > /dev/stderr` does, can't open a socket. Where the C library can't be called, there are none.
 */

import { dlopen, ptr } from "bun:ffi";
import process from "node:process";

const O_CLOEXEC = 0o2000000;
const LIBRARIES = ["libc.so.6", "libc.so"];
const POLLIN = 1;
const POLLHUP = 16;
/** As much as a pipe holds. */
const BUFFER_BYTES = 64 * 1024;
/** Whoever prints faster than this is read by those who can wait. */
const MOST_READS = 16;

const SYMBOLS = {
  pipe2: { args: ["ptr", "i32"], returns: "i32" },
  poll: { args: ["ptr", "u64", "i32"], returns: "i32" },
  read: { args: ["i32", "ptr", "u64"], returns: "i64" },
  close: { args: ["i32"], returns: "i32" },
} as const;

function libc() {
  if (process.platform !== "linux") return null;
  for (const library of LIBRARIES) {
    try {
      return dlopen(library, SYMBOLS).symbols;
    } catch {
      // Another system, or another C library.
    }
  }
  return null;
}

let found: ReturnType<typeof libc> | undefined;
const theLibc = () => (found ??= libc());

export interface Pipe {
  read_fd: number;
  write_fd: number;
}

/** Two pipes, or null where they can't be had. Neither end is inherited by a child that is not given it. */
export function openPipes(): readonly [Pipe, Pipe] | null {
  const c = theLibc();
  if (c === null) return null;
  const fds = new Int32Array(4);
  if (c.pipe2(ptr(fds), O_CLOEXEC) !== 0) return null;
  const [read_fd = -1, write_fd = -1] = fds;
  if (c.pipe2(ptr(fds, 8), O_CLOEXEC) !== 0) {
    closeAll([read_fd, write_fd]);
    return null;
  }
  return [
    { read_fd, write_fd },
    { read_fd: fds[2] ?? -1, write_fd: fds[3] ?? -1 },
  ];
}

/** What poll(2) says of each pipe; null when it fails. */
function pollAll(pipes: readonly [Pipe, Pipe]): number[] | null {
  // struct pollfd: the descriptor, then what is asked for and what is answered in halves of a word.
  const polled = new Int32Array(2 * pipes.length);
  for (const [index, { read_fd }] of pipes.entries()) polled.set([read_fd, POLLIN], 2 * index);
  const failed = (theLibc()?.poll(ptr(polled), pipes.length, 0) ?? -1) < 0;
  return failed ? null : pipes.map((_pipe, index) => (polled[2 * index + 1] ?? 0) >>> 16);
}

/** Whether there is something to read. */
export function anyBytes(pipes: readonly [Pipe, Pipe]): boolean {
  return pollAll(pipes)?.some((answer) => (answer & POLLIN) !== 0) ?? true;
}

let buffer: Uint8Array | undefined;

/**
 * Reads what is in the pipes without waiting for more. True when both are at their ends: nobody can write to them any
 * more; else somebody has to go on reading. The bytes are only valid during the call.
 */
export function readWhatIsThere(
  pipes: readonly [Pipe, Pipe],
  onBytes: (index: number, bytes: Uint8Array) => void,
): boolean {
  const c = theLibc();
  if (c === null) return false;
  for (let reads = 0; reads < MOST_READS; reads++) {
    const answers = pollAll(pipes);
    if (answers === null) return false;
    if (answers.every((answer) => (answer & POLLIN) === 0)) return answers.every((answer) => answer === POLLHUP);
    buffer ??= new Uint8Array(BUFFER_BYTES);
    for (const [index, { read_fd }] of pipes.entries()) {
      if (((answers[index] ?? 0) & POLLIN) === 0) continue;
      const count = Number(c.read(read_fd, ptr(buffer), BUFFER_BYTES));
      if (count < 0) return false;
      onBytes(index, buffer.subarray(0, count));
    }
  }
  return false;
}

export function closeAll(fds: readonly number[]): void {
  const c = theLibc();
  for (const fd of fds) c?.close(fd);
}
