/**
 * What `ps` shows of this process. A secret that somebody wrote on the command line is covered in the very memory that
 * the kernel shows to everybody; until then, for some milliseconds, it could be seen. Where there is no /proc it stays.
 */

import { lazyFs } from "./platform.ts";

/** Of /proc/self/stat, counted from behind the name of the program, which is the second. */
const ARG_START = 48 - 3;

/** `argument` is a word of the command line or a part of one, `secret` what in it is not to be seen. */
export function hideArgument(argument: string, secret: string): void {
  if (secret === "") return;
  const { closeSync, openSync, readFileSync, writeSync } = lazyFs();
  try {
    const shown = readFileSync("/proc/self/cmdline");
    const word = Buffer.from(argument);
    const at = shown.indexOf(word);
    if (at < 0) return;
    const stat = readFileSync("/proc/self/stat", "latin1");
    const start = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[ARG_START]);
    const memory = openSync("/proc/self/mem", "r+");
    try {
      for (let from = at; from >= 0; from = shown.indexOf(word, from + 1)) {
        const behind = from + word.lastIndexOf(secret);
        const cover = Buffer.alloc(Buffer.byteLength(secret), "x");
        writeSync(memory, cover, 0, cover.length, start + behind);
      }
    } finally {
      closeSync(memory);
    }
  } catch {
    // It was the user's choice to write it there.
  }
}
