/**
 * Lines out of the pieces of a log: each stream has its own, a carriage return begins a line anew as on a terminal, colours
 * go on from line to line. Bounded: a line of a megabyte is shown by its beginning, and of very many the newest are kept.
 */

import { PLAIN, spansOf, type Span, type Style } from "./ansi.ts";
import type { LogPiece } from "./types.ts";

export interface LogLine {
  stream: "stdout" | "stderr";
  at: string;
  spans: readonly Span[];
  /** How many characters of it are not shown. */
  hidden: number;
}

/** Lines that are rendered together, and not again until one is added. */
export interface LogBlock {
  id: number;
  lines: readonly LogLine[];
}

const LINE_CHARACTERS = 4_000;
const BLOCK_LINES = 100;
const MOST_BLOCKS = 60;

interface Open {
  text: string;
  at: string;
  /** Characters beyond what is kept of it. */
  hidden: number;
}

export class LogLines {
  blocks: readonly LogBlock[] = [];
  /** Position up to which it has been read, and from which on it is shown. */
  next = 0;
  start = 0;
  readonly #decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  readonly #styles: Record<LogPiece["stream"], Style> = { stdout: PLAIN, stderr: PLAIN };
  readonly #open: Record<LogPiece["stream"], Open | null> = { stdout: null, stderr: null };
  #blocks = 0;
  /** Older lines have been dropped. */
  dropped = false;

  add(pieces: readonly LogPiece[], start: number, next: number): void {
    if (this.blocks.length === 0 && this.next === 0) this.start = start;
    else if (start > this.next) this.#note(`… ${start - this.next} bytes were not kept …`);
    const lines: LogLine[] = [];
    for (const { stream, at, start: from, data } of pieces) {
      // What came again after the connection was lost.
      if (from < this.next) continue;
      const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
      this.#text(stream, at, this.#decoders[stream].decode(bytes, { stream: true }), lines);
    }
    this.next = Math.max(this.next, next);
    this.#append(lines);
  }

  /** What is not ended yet, as it is now. */
  get unfinished(): LogLine[] {
    return (["stdout", "stderr"] as const).flatMap((stream) => {
      const open = this.#open[stream];
      if (open === null || (open.text === "" && open.hidden === 0)) return [];
      return [this.#lineOf(stream, open).line];
    });
  }

  #text(stream: LogPiece["stream"], at: string, text: string, lines: LogLine[]): void {
    const parts = text.split("\n");
    const last = parts.length - 1;
    for (const [index, part] of parts.entries()) {
      const open = this.#open[stream] ?? { text: "", at, hidden: 0 };
      const whole = open.text + part;
      // A line that is written again and again shows what it was last.
      const again = whole.lastIndexOf("\r", whole.length - 2);
      const joined = whole.slice(again + 1);
      const kept = joined.slice(0, LINE_CHARACTERS);
      const now = { text: kept, at: open.at, hidden: (again < 0 ? open.hidden : 0) + joined.length - kept.length };
      this.#open[stream] = now;
      if (index === last) break;
      const { line, after } = this.#lineOf(stream, now);
      lines.push(line);
      this.#styles[stream] = after;
      this.#open[stream] = null;
    }
    const open = this.#open[stream];
    if (open !== null && open.text === "" && open.hidden === 0) this.#open[stream] = null;
  }

  #lineOf(stream: LogPiece["stream"], { text, at, hidden }: Open): { line: LogLine; after: Style } {
    const shown = text.replace(/\r+$/, "");
    const { spans, after } = spansOf(shown.slice(shown.lastIndexOf("\r") + 1), this.#styles[stream]);
    return { line: { stream, at, spans, hidden }, after };
  }

  #note(text: string): void {
    this.#append([{ stream: "stderr", at: "", spans: [{ text, style: "dim" }], hidden: 0 }]);
  }

  #append(lines: readonly LogLine[]): void {
    if (lines.length === 0) return;
    const blocks = [...this.blocks];
    const last = blocks.at(-1);
    const rest = [...lines];
    if (last !== undefined && last.lines.length < BLOCK_LINES) {
      blocks.pop();
      blocks.push({ id: last.id, lines: [...last.lines, ...rest.splice(0, BLOCK_LINES - last.lines.length)] });
    }
    while (rest.length > 0) blocks.push({ id: this.#blocks++, lines: rest.splice(0, BLOCK_LINES) });
    this.dropped ||= blocks.length > MOST_BLOCKS;
    this.blocks = blocks.slice(-MOST_BLOCKS);
  }
}
