/** Shows how far a worker is that runs until its queues are empty. Log lines go above it. */

import process from "node:process";
import type { WorkerPool } from "../roles/pool.ts";
import type { Report } from "../roles/report.ts";
import type { Store } from "../store/store.ts";
import { progressSummary } from "../view/progress.ts";
import { ProgressLine } from "./progress_line.ts";

interface Watched {
  store: Store;
  queues: readonly string[] | null;
  task: string | null;
  color: boolean;
}

export class ProgressDisplay {
  readonly #watched: Watched;
  readonly #line: ProgressLine;
  readonly #started_ms = performance.now();
  #pool: WorkerPool | null = null;
  #timer: ReturnType<typeof setInterval> | null = null;

  constructor(watched: Watched) {
    this.#watched = watched;
    this.#line = new ProgressLine(watched.color);
  }

  start(pool: WorkerPool): void {
    this.#pool = pool;
    this.#timer = setInterval(() => void this.#show().catch(() => {}), this.#line.every_ms);
  }

  /** The same report, with the line out of its way. */
  above(report: Report): Report {
    return (level, text) => {
      this.#line.erase();
      report(level, text);
    };
  }

  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#line.erase();
    const { completed, failed } = this.#pool?.statistics() ?? { completed: 0, failed: 0 };
    if (completed + failed === 0) return;
    process.stderr.write(`${progressSummary(await this.#progress())}\n`);
  }

  async #show(): Promise<void> {
    this.#line.show(await this.#progress());
  }

  async #progress() {
    const { completed = 0, failed = 0, slots } = this.#pool?.statistics() ?? {};
    const { pending, retrying } = await this.#watched.store.backlog(this.#watched);
    const elapsed_ms = performance.now() - this.#started_ms;
    return { completed, failed, running: slots?.processing ?? 0, left: pending + retrying, elapsed_ms };
  }
}
