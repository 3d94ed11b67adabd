/** One line on stderr about how far something is: redrawn in place on a terminal, printed now and then elsewhere. */

import process from "node:process";
import { progressLine, type WorkProgress } from "../view/progress.ts";
import { ansi, plain } from "../view/style.ts";
import { truncatePainted } from "../view/text.ts";

const REDRAW_MS = 250;
const PLAIN_EVERY_MS = 10_000;
/** Of a terminal that does not tell. */
const USUAL_COLUMNS = 80;
const ERASE_LINE = "\r\u001b[2K";

export class ProgressLine {
  readonly #live = process.stderr.isTTY && process.env["TERM"] !== "dumb";
  readonly #color: boolean;
  #drawn = false;

  constructor(color: boolean) {
    this.#color = color;
  }

  /** Between two lines. */
  get every_ms(): number {
    return this.#live ? REDRAW_MS : PLAIN_EVERY_MS;
  }

  show(progress: WorkProgress): void {
    const paint = this.#color && this.#live ? ansi : plain;
    const columns = this.#live ? process.stderr.columns || USUAL_COLUMNS : null;
    const line = progressLine(progress, columns, paint);
    this.erase();
    // A line that wraps could not be erased again.
    process.stderr.write(columns === null ? `${line}\n` : truncatePainted(line, columns - 1));
    this.#drawn = this.#live;
  }

  erase(): void {
    if (this.#drawn) process.stderr.write(ERASE_LINE);
    this.#drawn = false;
  }
}
