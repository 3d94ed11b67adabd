/** A few lines at the bottom of a terminal that change in place; what is printed meanwhile goes above them. */

import process from "node:process";
import { truncatePainted, USUAL_SIZE, type Size } from "../view/text.ts";
import { logStream } from "./log_stream.ts";

const CSI = "\u001b[";
const REST_OF_LINE = `${CSI}K`;
const REST_OF_SCREEN = `${CSI}J`;
/** The terminal shows what is between these two at once, where it can. */
const TOGETHER = `${CSI}?2026h`;
const SHOW = `${CSI}?2026l`;

export class LiveLines {
  #lines: readonly string[] = [];

  get size(): Size {
    const { columns, rows } = process.stderr;
    return { columns: columns || USUAL_SIZE.columns, rows: rows || USUAL_SIZE.rows };
  }

  draw(lines: readonly string[]): void {
    // What does not get through must not be drawn over later.
    if (logStream().write(TOGETHER + this.#home() + this.#picture(lines) + SHOW, "drawn")) this.#lines = lines;
  }

  /** `text` ends its last line. */
  above(text: string): void {
    if (this.#lines.length === 0) logStream().write(text);
    else logStream().write(TOGETHER + this.#home() + REST_OF_SCREEN + text + this.#picture(this.#lines) + SHOW);
  }

  erase(): void {
    if (this.#lines.length > 0) logStream().write(this.#home() + REST_OF_SCREEN, "drawn");
    this.#lines = [];
  }

  /** Where the picture begins. */
  #home(): string {
    const up = this.#lines.length - 1;
    if (up < 0) return "";
    return up === 0 ? "\r" : `\r${CSI}${up}A`;
  }

  #picture(lines: readonly string[]): string {
    // A line that wraps would take two rows, and the next picture would begin in the wrong one.
    const cut = lines.map((line) => truncatePainted(line, this.size.columns - 1) + REST_OF_LINE);
    return cut.length === 0 ? "" : cut.join("\r\n") + REST_OF_SCREEN;
  }
}
