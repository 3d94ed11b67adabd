/**
 * How far something is, on one line of stderr: redrawn in place on a terminal, printed now and then elsewhere. Of a
 * worker that runs until its queues are empty log lines go above it.
 */

import { around } from "../lookup/why_waiting.ts";
import { isTerminal } from "./io.ts";
import { logStream } from "./log_stream.ts";
import process from "node:process";
import type { WorkerPool } from "../worker/pool.ts";
import type { Report } from "../core/report.ts";
import type { Store } from "../store/store.ts";
import { progressLine, progressSummary, type WorkProgress } from "../view/progress.ts";
import { ansi, plain } from "../view/style.ts";
import { quote, truncatePainted } from "../view/text.ts";

const REDRAW_MS = 250;
const PLAIN_EVERY_MS = 10_000;
/** Of a terminal that does not tell. */
const USUAL_COLUMNS = 80;
const ERASE_LINE = "\r\u001b[2K";

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
    const columns = this.#live ? process.stderr.columns || USUAL_COLUMNS : null;
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

interface Watched {
  store: Store;
  queues: readonly string[] | null;
  task: string | null;
  commands_only: boolean;
  color: boolean;
  /** Else only events are told, by the report: what is drawn would not go with a log for programs. */
  drawn: boolean;
  report: Report;
  /** Details are shown too. */
  verbose: boolean;
}

/** How often it is asked whether the work that is left is paused. */
const LOOK_EVERY_MS = 1_000;

export class ProgressDisplay {
  readonly #watched: Watched;
  readonly #line: ProgressLine;
  readonly #started_ms = performance.now();
  #pool: WorkerPool | null = null;
  #stops: (() => void)[] = [];
  /** What was said last about paused queues. */
  #said = "";

  constructor(watched: Watched) {
    this.#watched = watched;
    this.#line = new ProgressLine(watched.color);
  }

  start(pool: WorkerPool): void {
    this.#pool = pool;
    const looking = setInterval(() => void this.#tellPaused().catch(() => {}), LOOK_EVERY_MS);
    this.#stops.push(() => clearInterval(looking));
    if (this.#watched.drawn) this.#stops.push(this.#line.keepShowing(() => this.#progress()));
  }

  /** Its report, with the line out of the way. */
  readonly report: Report = (level, text, about) => {
    if (level !== "debug" || this.#watched.verbose) this.#line.erase();
    this.#watched.report(level, text, about);
  };

  async stop(): Promise<void> {
    for (const stop of this.#stops) stop();
    this.#line.erase();
    const { completed = 0, failed = 0 } = this.#pool?.statistics() ?? {};
    if (completed + failed === 0) return;
    const summary = progressSummary(await this.#progress());
    if (this.#watched.drawn) logStream().write(`${summary}\n`);
    else this.#watched.report("info", summary);
  }

  /** It waits for as long as they are paused, which must not look like a worker that hangs. */
  async #tellPaused(): Promise<void> {
    const { running, left } = await this.#progress();
    const { store, queues } = this.#watched;
    const all = running === 0 && left > 0 ? await store.pausedQueues() : [];
    const served = all.filter((queue) => queues === null || queues.includes(queue));
    // Only what is nowhere else keeps it.
    const { pending } = await store.backlog({ ...this.#watched, queues: served });
    const paused = pending > 0 && pending === left ? served.map(quote).join(" ") : "";
    if (paused !== "" && paused !== this.#said) {
      const jobs = left === 1 ? "1 job is" : `${left} jobs are`;
      this.report("warn", `${jobs} left in paused queues and nothing runs: \`lease resume ${paused}\` lets it go on`);
    }
    const bound = paused === "" && running === 0 && left > 0 ? await this.#whatBounds() : "";
    if (bound !== "" && bound !== this.#said) this.report("warn", `nothing runs: ${bound}`);
    this.#said = paused + bound;
  }

  /** The limit or need that the next job waits for, in words; empty: none. */
  async #whatBounds(): Promise<string> {
    const { store, queues, task } = this.#watched;
    const only = { ...(queues === null ? {} : { queues }), ...(task === null ? {} : { task }) };
    const [job] = await store.list({ ...only, states: ["pending"], limit: 1, newest_first: false });
    if (job === undefined || (job.limits.length === 0 && Object.keys(job.needs).length === 0)) return "";
    const now_ms = await store.now();
    const { reason } = await around(store, [job], now_ms);
    return `job ${job.id} waits, ${reason(job, now_ms)}`;
  }

  async #progress() {
    const { completed = 0, failed = 0, slots } = this.#pool?.statistics() ?? {};
    const { pending, retrying } = await this.#watched.store.backlog(this.#watched);
    const running = (slots?.processing ?? 0) + (slots?.draining ?? 0);
    return { completed, failed, running, left: pending + retrying, elapsed_ms: performance.now() - this.#started_ms };
  }
}
