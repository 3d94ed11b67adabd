/** How far something is, on one line of stderr: redrawn in place on a terminal, printed now and then elsewhere. */

import { isTerminal, wantsColor, type ColorChoice, type Io } from "./io.ts";
import { logStream } from "./log_stream.ts";
import process from "node:process";
import { progressLine, type WorkProgress } from "../view/progress.ts";
import { ansi, plain } from "../view/style.ts";
import { truncatePainted, USUAL_SIZE } from "../view/text.ts";

const REDRAW_MS = 250;
const PLAIN_EVERY_MS = 10_000;
export const ERASE_LINE = "\r\u001b[2K";

export class ProgressLine {
  readonly #live = isTerminal(2) && process.env["TERM"] !== "dumb";
  readonly #color: boolean;
  #drawn = false;

  constructor(color: boolean) {
    this.#color = color;
  }

  /** Again and again, until the returned function is called; what can't be read now is read again next time. */
  keepShowing(progress: () => Promise<WorkProgress>): () => void {
    const show = () => progress().then((now) => this.#show(now));
    const timer = setInterval(() => void show().catch(() => {}), this.#live ? REDRAW_MS : PLAIN_EVERY_MS);
    return () => clearInterval(timer);
  }

  #show(progress: WorkProgress): void {
    const paint = this.#color && this.#live ? ansi : plain;
    const columns = this.#live ? process.stderr.columns || USUAL_SIZE.columns : null;
    const line = progressLine(progress, columns, paint);
    this.erase();
    // A line that wraps could not be erased again.
    logStream().write(columns === null ? `${line}\n` : truncatePainted(line, columns - 1));
    this.#drawn = this.#live;
  }

  erase(): void {
    if (this.#drawn) logStream().write(ERASE_LINE);
    this.#drawn = false;
  }
}

/** Of a command that goes through `total` jobs, until the returned function is called. */
export function showProgress(done: () => number, total: number, color: ColorChoice, io: Io): () => void {
  const line = new ProgressLine(wantsColor(color, { env: io.env, is_tty: isTerminal(2) }));
  const begun_ms = performance.now();
  const stop = line.keepShowing(async () => {
    const left = Math.max(0, total - done());
    return { completed: done(), failed: 0, running: 0, left, elapsed_ms: performance.now() - begun_ms };
  });
  return () => {
    stop();
    line.erase();
  };
}
