/** A command line → its command → the exit code, on the real stdout and stderr. */

import process from "node:process";
import { platform } from "#platform";
import { LeaseError } from "../core/errors.ts";
import { lazyFs } from "../platform/lazy.ts";
import { COMMANDS } from "./commands.ts";
import type { Io } from "./command.ts";
import { dispatch, guarded } from "./dispatch.ts";
import type { QuickAnswer } from "../commands/enqueue/quick.ts";

/** As if the signal had ended us: that is what a shell expects of a program whose reader went away. */
const PIPE_CLOSED = 128 + 13;

/** Whole, in order and before we exit, also into a pipe that is full or closed. */
function write(fd: number, bytes: Uint8Array): void {
  for (let at = platform.quickFiles()?.write(fd, bytes) ?? 0; at < bytes.length;) {
    try {
      at += lazyFs().writeSync(fd, bytes, at);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}

const encoder = new TextEncoder();

/** Nobody may be there to read it, which changes nothing about what happened. */
function complain(text: string): void {
  try {
    write(2, encoder.encode(text));
  } catch {
    // There is no better place to say so.
  }
}

const io: Io = {
  stdout: (text) => write(1, encoder.encode(text)),
  stdoutBytes: (bytes) => write(1, bytes),
  stderr: complain,
  env: process.env,
  // Asked only when needed: loading the stream costs a third of an enqueue.
  get is_tty() {
    return lazyFs().fstatSync(1).isCharacterDevice() && process.stdout.isTTY;
  },
  get columns() {
    // Some terminals say 0 when they don't know.
    return this.is_tty ? process.stdout.columns || Number(process.env["COLUMNS"]) || null : null;
  },
};

/** `answer`: what the quick enqueue of this line has come to; null when it has done nothing. */
export async function runLine(words: readonly string[], answer: QuickAnswer | null): Promise<number> {
  try {
    return await (answer === null ? dispatch(words, COMMANDS, io) : guarded(words, io, async () => tell(answer)));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EPIPE") return PIPE_CLOSED;
    throw error;
  }
}

function tell(answer: QuickAnswer): number {
  if ("message" in answer) throw new LeaseError(answer.code, answer.message);
  io.stdout(answer.text);
  return 0;
}
