/**
 * Shows how far a worker is that runs until its queues are empty: on a terminal a line that is redrawn, elsewhere a
 * plain line now and then. Log lines go above it.
 */

import process from "node:process";
import type { WorkerPool } from "../roles/pool.ts";
import type { Report } from "../roles/report.ts";
import type { Store } from "../store/store.ts";
import { progressLine, progressSummary } from "../view/progress.ts";
import { ansi, plain } from "../view/style.ts";

const REDRAW_MS = 250;
const PLAIN_EVERY_MS = 10_000;
const ERASE_LINE = "\r\u001b[2K";

interface Watched {
  store: Store;
  queues: readonly string[] | null;
  task: string | null;
  color: boolean;
}

export class ProgressDisplay {
  readonly #watched: Watched;
  readonly #live = process.stderr.isTTY && process.env["TERM"] !== "dumb";
  readonly #started_ms = performance.now();
  #pool: WorkerPool | null = null;
  #timer: ReturnType<typeof setInterval> | null = null;
  #drawn = false;

  constructor(watched: Watched) {
    this.#watched = watched;
  }

  start(pool: WorkerPool): void {
    this.#pool = pool;
    this.#timer = setInterval(() => void this.#show().catch(() => {}), this.#live ? REDRAW_MS : PLAIN_EVERY_MS);
  }

  /** The same report, with the line out of its way. */
  above(report: Report): Report {
    return (level, text) => {
      this.#erase();
      report(level, text);
    };
  }

  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#erase();
    const { completed, failed } = this.#pool?.statistics() ?? { completed: 0, failed: 0 };
    if (completed + failed === 0) return;
    process.stderr.write(`${progressSummary(await this.#progress())}\n`);
  }

  async #show(): Promise<void> {
    const line = progressLine(await this.#progress(), this.#live ? process.stderr.columns : null, this.#paint);
    this.#erase();
    process.stderr.write(this.#live ? line : `${line}\n`);
    this.#drawn = this.#live;
  }

  async #progress() {
    const { completed = 0, failed = 0, slots } = this.#pool?.statistics() ?? {};
    const { pending, retrying } = await this.#watched.store.backlog(this.#watched);
    const elapsed_ms = performance.now() - this.#started_ms;
    return { completed, failed, running: slots?.processing ?? 0, left: pending + retrying, elapsed_ms };
  }

  get #paint() {
    return this.#watched.color && this.#live ? ansi : plain;
  }

  #erase(): void {
    if (this.#drawn) process.stderr.write(ERASE_LINE);
    this.#drawn = false;
  }
}
