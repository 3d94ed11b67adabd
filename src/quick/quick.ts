/**
 * The lines that scripts call thousands of times a day, each from its words to its answer in one piece: scripts/build.ts
 * bundles this file alone, because what a start loads, links and compiles is most of what it costs. So nothing here may
 * run often enough to be compiled (some thirty calls of a function are), which rules out the tables that flags and their
 * values are in otherwise.
 *
 * It says yes or nothing. A line that needs a settings file, a clock on the wall, stdin or an error message is left to
 * the whole command; so it must do nothing that the whole command would not do again in the same way.
 */

import { platform } from "#platform";
import type { Env } from "../config/location.ts";
import { LeaseError, errorText, type ErrorCode } from "../core/errors.ts";
import { enqueueQuickly } from "./enqueue.ts";
import type { QuickWrite } from "./line.ts";
import { beatQuickly, checkpointQuickly } from "./report.ts";

/** What to print, and whether that is done; or what went wrong after it was too late to leave it to others. */
export type QuickAnswer = { text: string; printed: boolean } | { code: ErrorCode; message: string };

/** Null: nothing was done. Otherwise the process must end, by endAtOnce, without closing anything: see onQuickStore. */
export function answerQuickly(words: readonly string[], env: Env): QuickAnswer | null {
  const line = commandFirst(words);
  const name = line[0];
  const work =
    name === "enqueue" || name === "add"
      ? enqueueQuickly
      : name === "beat"
        ? beatQuickly
        : name === "checkpoint"
          ? checkpointQuickly
          : null;
  const files = work === null ? null : platform.quickFiles();
  const write = work === null || files === null ? null : readLine(() => work(files, line.slice(1), env));
  if (files === null || write === null) return null;
  try {
    const text = write();
    if (text === null) return null;
    const printed = text === "" || (files.isGiven(1) && files.write(1, encoder.encode(text)) === text.length);
    return { text, printed };
  } catch (error) {
    return { code: error instanceof LeaseError ? error.code : "store_failed", message: errorText(error) };
  }
}

/** `--store X enqueue …` as `enqueue --store X …`. */
function commandFirst(words: readonly string[]): readonly string[] {
  if (words[0]?.startsWith("--store") !== true) return words;
  const [first = "", second = "", third = "", ...rest] = words;
  if (first === "--store") return [third, first, second, ...rest];
  return first.startsWith("--store=") ? [second, first, ...words.slice(2)] : words;
}

const encoder = new TextEncoder();

/** What is wrong with a line the whole command says. */
function readLine(read: () => QuickWrite | null): QuickWrite | null {
  try {
    return read();
  } catch {
    return null;
  }
}

export function endAtOnce(code: number): void {
  platform.quickFiles()?.exit(code);
}
