/**
 * A job's command as a line that a person can read and paste into a shell. Quotes stand only where the shell needs
 * them; hidden characters become `$'…'` escapes, so that the line is safe to print as it is.
 */

import type { Job } from "../core/job.ts";
import { hasHidden, visible } from "./text.ts";

const BARE = /^[\p{L}\p{N}_@%+=:,./-]+$/u;

export function quote(word: string): string {
  if (hasHidden(word)) return `$'${visible(word.replaceAll(/[\\']/g, String.raw`\$&`))}'`;
  if (BARE.test(word)) return word;
  if (!word.includes("'")) return `'${word}'`;
  if (!/["$`\\!]/.test(word)) return `"${word}"`;
  return `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

export function quoteArgv(argv: readonly string[]): string {
  const words = argv.map(quote);
  const first = words[0] ?? "";
  // Bare, a first word with `=` would be an assignment.
  if (first === argv[0] && first.includes("=")) words[0] = `'${first}'`;
  return words.join(" ");
}

/** More than any terminal shows, and little enough to measure. */
const INPUT_SHOWN_BYTES = 512;

/** A job without a command of its own is its input, for the handler of whoever runs it. */
export function commandText(job: Pick<Job, "argv" | "input">): string {
  if (job.argv.length > 0) return quoteArgv(job.argv);
  return job.input === null ? "" : `< ${inputText(job.input)}`;
}

/** The beginning of an input as one line. */
export function inputText(input: Uint8Array): string {
  const text = visible(new TextDecoder().decode(input.subarray(0, INPUT_SHOWN_BYTES)).trimEnd());
  return input.length > INPUT_SHOWN_BYTES ? `${text}…` : text;
}
