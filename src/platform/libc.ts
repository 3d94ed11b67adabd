/**
 * What Bun has to ask the C library for, where it can be called. Its answer may be null, whatever the reason.
 *
 * Questions about files that every `lease enqueue` asks: loading node:fs takes longer than all of them together. Whoever
 * gets a null asks node:fs, which also knows how to say what is wrong.
 *
 * Real pipes for a child's output: Bun.spawn makes sockets, and a program that opens /dev/stdout or /dev/stderr by name,
 * as `echo oops > /dev/stderr` does, can't open a socket.
 */

import { dlopen, ptr, type FFIFunction } from "bun:ffi";
import process from "node:process";
import type { QuickFiles } from "./platform.ts";

const LIBRARIES = ["libc.so.6", "libc.so"];

/** Bound when they are first called for: every start pays for what it binds. Null where they can't be had. */
export function libc<const Symbols extends Record<string, FFIFunction>>(symbols: Symbols) {
  const bind = () => {
    for (const library of process.platform === "linux" ? LIBRARIES : []) {
      try {
        return dlopen(library, symbols).symbols;
      } catch {
        // Another C library.
      }
    }
    return null;
  };
  let bound: ReturnType<typeof bind> | undefined;
  return () => (bound ??= bind());
}

const F_GETFD = 1;
/** Closed at exec: nothing that has it came to us by one. */
const FD_CLOEXEC = 1;
const AT_FDCWD = -100;
const AT_SYMLINK_NOFOLLOW = 0x100;
/**
 * TYPE, MODE, NLINK, UID, INO, SIZE. Not the times: who asks for them has Linux date the next change of the file exactly,
 * and then each sync of a store's log writes that date down too, which takes it a third longer.
 */
const STATX_WANTED = 0x30f;
const STATX_INO = 0x100;
const STATX_MTIME = 0x40;
const STATX_BTIME = 0x800;
const STATX_MNT_ID = 0x1000;
const STATX_ASKED = STATX_WANTED | STATX_BTIME | STATX_MNT_ID;
/** struct statx is the same on every machine: that is why it, and not stat, is asked. */
const STATX_BYTES = 256;
/** Where its fields are, by words of four bytes. */
const [MASK, LINKS, UID, MODE, INODE, SIZE, BORN_S, BORN_NS, WRITTEN_S, WRITTEN_NS, DEVICE, MOUNT] = [
  0, 4, 5, 7, 8, 10, 20, 22, 28, 30, 34, 36,
] as const;
const HIGH = 2 ** 32;
/** More than struct statfs needs anywhere; its type comes first. */
const STATFS_BYTES = 256;
const PATH_MAX = 4096;

const filesLibc = libc({
  statx: { args: ["i32", "ptr", "i32", "u32", "ptr"], returns: "i32" },
  statfs: { args: ["ptr", "ptr"], returns: "i32" },
  realpath: { args: ["ptr", "ptr"], returns: "ptr" },
  write: { args: ["i32", "ptr", "u64"], returns: "i64" },
  fcntl: { args: ["i32", "i32"], returns: "i32" },
  _exit: { args: ["i32"], returns: "void" },
});
const encoder = new TextEncoder();

/** Null where the C library can't be called. */
export function quickFiles(): QuickFiles | null {
  const c = filesLibc();
  if (c === null) return null;
  const ask = (path: string, flags: number) => {
    const words = new Uint32Array(STATX_BYTES / 4);
    if (c.statx(AT_FDCWD, ptr(text(path)), flags, STATX_ASKED, ptr(words)) !== 0) return null;
    // Word by word, the low one first: views, big numbers and helpers that are called often cost more than the question.
    const mask = words[MASK] ?? 0;
    const born_s = (words[BORN_S] ?? 0) + (words[BORN_S + 1] ?? 0) * HIGH + (words[BORN_NS] ?? 0) / 1e9;
    return {
      mode: (words[MODE] ?? 0) & 0xffff,
      uid: words[UID] ?? 0,
      size: (words[SIZE] ?? 0) + (words[SIZE + 1] ?? 0) * HIGH,
      links: words[LINKS] ?? 0,
      identity: `${words[DEVICE]}.${words[DEVICE + 1]}:${words[INODE]}.${words[INODE + 1]}`,
      born_s: (mask & STATX_BTIME) === 0 ? null : born_s,
      mount: (mask & STATX_MNT_ID) === 0 ? null : `${words[MOUNT]}.${words[MOUNT + 1]}`,
    };
  };
  return {
    stat: (path) => ask(path, 0),
    lstat: (path) => ask(path, AT_SYMLINK_NOFOLLOW),
    whichFile: (path, { dated }) => {
      const [name, words] = [text(path), new Uint32Array(STATX_BYTES / 4)];
      const asked = dated ? STATX_INO | STATX_MTIME : STATX_INO;
      const identity = identityIn(words);
      return () => {
        if (c.statx(AT_FDCWD, ptr(name), 0, asked, ptr(words)) !== 0) return null;
        return { identity: identity(), written_ms: writtenMs(words) };
      };
    },
    view(path, bytes) {
      try {
        const { buffer, length } = Bun.mmap(path, { size: bytes });
        return length < bytes ? null : new Uint32Array(buffer, 0, bytes / 4);
      } catch {
        return null;
      }
    },
    fileSystem(path) {
      const words = new Uint32Array(STATFS_BYTES / 4);
      return c.statfs(ptr(text(path)), ptr(words)) === 0 ? (words[0] ?? null) : null;
    },
    realPath(path) {
      const buffer = new Uint8Array(PATH_MAX + 1);
      if (c.realpath(ptr(text(path)), ptr(buffer)) === null) return null;
      const real = new TextDecoder().decode(buffer.subarray(0, buffer.indexOf(0)));
      // A path that is not UTF-8 would not come back as it is.
      return real.includes("\uFFFD") ? null : real;
    },
    write(fd, bytes) {
      const written = bytes.length === 0 ? 0 : Number(c.write(fd, ptr(bytes), bytes.length));
      return written > 0 ? written : 0;
    },
    isGiven: (fd) => (c.fcntl(fd, F_GETFD) & FD_CLOEXEC) === 0,
    exit: (code) => c["_exit"](code),
  };
}

/** The same as the last time, nearly always: to put it into words takes as long as to ask. */
function identityIn(words: Uint32Array): () => string {
  let [device, minor, low, high, identity] = [-1, -1, -1, -1, ""];
  return () => {
    const is_same =
      words[INODE] === low && words[DEVICE + 1] === minor && words[DEVICE] === device && words[INODE + 1] === high;
    if (is_same) return identity;
    [device = 0, minor = 0] = [words[DEVICE], words[DEVICE + 1]];
    [low = 0, high = 0] = [words[INODE], words[INODE + 1]];
    return (identity = `${device}:${minor}:${low}:${high}`);
  };
}

function writtenMs(words: Uint32Array): number {
  const written_s = (words[WRITTEN_S] ?? 0) + (words[WRITTEN_S + 1] ?? 0) * HIGH;
  return written_s * 1e3 + (words[WRITTEN_NS] ?? 0) / 1e6;
}

function text(path: string): Uint8Array {
  return encoder.encode(`${path}\0`);
}

const O_CLOEXEC = 0o2000000;
const POLLIN = 1;
const POLLHUP = 16;
/** As much as a pipe holds. */
const BUFFER_BYTES = 64 * 1024;
/** Whoever prints faster than this is read by those who can wait. */
const MOST_READS = 16;

const pipesLibc = libc({
  pipe2: { args: ["ptr", "i32"], returns: "i32" },
  poll: { args: ["ptr", "u64", "i32"], returns: "i32" },
  read: { args: ["i32", "ptr", "u64"], returns: "i64" },
  close: { args: ["i32"], returns: "i32" },
});

interface Pipe {
  read_fd: number;
  write_fd: number;
}
export type Pipes = readonly [Pipe, Pipe];

/** Two pipes, or null where they can't be had. Neither end is inherited by a child that is not given it. */
export function openPipes(): Pipes | null {
  const c = pipesLibc();
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
function pollAll(pipes: Pipes): number[] | null {
  // struct pollfd: the descriptor, then what is asked for and what is answered in halves of a word.
  const polled = new Int32Array(2 * pipes.length);
  for (const [index, { read_fd }] of pipes.entries()) polled.set([read_fd, POLLIN], 2 * index);
  const failed = (pipesLibc()?.poll(ptr(polled), pipes.length, 0) ?? -1) < 0;
  return failed ? null : pipes.map((_pipe, index) => (polled[2 * index + 1] ?? 0) >>> 16);
}

/** Whether there is something to read. */
export function anyBytes(pipes: Pipes): boolean {
  return pollAll(pipes)?.some((answer) => (answer & POLLIN) !== 0) ?? true;
}

let read_buffer: Uint8Array | undefined;

/**
 * Reads what is in the pipes without waiting for more. True when both are at their ends: nobody can write to them any
 * more; else somebody has to go on reading. The bytes are only valid during the call.
 */
export function readWhatIsThere(pipes: Pipes, onBytes: (index: number, bytes: Uint8Array) => void): boolean {
  const c = pipesLibc();
  if (c === null) return false;
  for (let reads = 0; reads < MOST_READS; reads++) {
    const answers = pollAll(pipes);
    if (answers === null) return false;
    if (answers.every((answer) => (answer & POLLIN) === 0)) return answers.every((answer) => answer === POLLHUP);
    const buffer = (read_buffer ??= new Uint8Array(BUFFER_BYTES));
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
  const c = pipesLibc();
  for (const fd of fds) c?.close(fd);
}
