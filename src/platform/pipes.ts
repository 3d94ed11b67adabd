/**
 * Real pipes for a child's output on Bun. Bun.spawn makes sockets, and a program that opens /dev/stdout or /dev/stderr
 * by name, as `echo oops > /dev/stderr` does, can't open a socket. Where the C library can't be called, there are none.
 */

import { dlopen, ptr } from "bun:ffi";
import { lazyFs } from "./lazy.ts";

const O_CLOEXEC = 0o2000000;
const LIBRARIES = ["libc.so.6", "libc.so"];

type Pipe2 = (fds: ReturnType<typeof ptr>, flags: number) => number;

let pipe2: Pipe2 | null | undefined;

function findPipe2(): Pipe2 | null {
  for (const library of LIBRARIES) {
    try {
      return dlopen(library, { pipe2: { args: ["ptr", "i32"], returns: "i32" } }).symbols.pipe2;
    } catch {
      // Another system, or another C library.
    }
  }
  return null;
}

export interface Pipe {
  read_fd: number;
  write_fd: number;
}

/** Two pipes, or null where they can't be had. Neither end is inherited by a child that is not given it. */
export function openPipes(): readonly [Pipe, Pipe] | null {
  pipe2 ??= findPipe2();
  if (pipe2 === null || process.platform !== "linux") return null;
  const fds = new Int32Array(4);
  if (pipe2(ptr(fds), O_CLOEXEC) !== 0) return null;
  const [read_fd = -1, write_fd = -1] = fds;
  if (pipe2(ptr(fds, 8), O_CLOEXEC) !== 0) {
    closeAll([read_fd, write_fd]);
    return null;
  }
  return [
    { read_fd, write_fd },
    { read_fd: fds[2] ?? -1, write_fd: fds[3] ?? -1 },
  ];
}

export function closeAll(fds: readonly number[]): void {
  for (const fd of fds) lazyFs().closeSync(fd);
}
