/**
 * What a person sees of a worker: at a terminal what it serves, a line per job that runs and how far it is, redrawn in
 * place, with log lines and what jobs print above it; elsewhere, of one that runs until its queues are empty, a line now
 * and then. In the end what it came to.
 */

import type { Report } from "../core/report.ts";
import type { Store } from "../store/store.ts";
import { around } from "../lookup/why_waiting.ts";
import { workerPicture, type ShownJob } from "../view/live_worker.ts";
import { progressLine, progressSummary, type WorkProgress } from "../view/progress.ts";
import { ansi, plain, type Paint } from "../view/style.ts";
import { commandText, quote } from "../view/text.ts";
import type { WorkerPool } from "../worker/pool.ts";
import { LiveLines } from "./live_lines.ts";

interface Watched {
  store: Store;
  queues: readonly string[] | null;
  task: string | null;
  commands_only: boolean;
  color: boolean;
  /** Whether it ends by itself: then there is an end to be told about. */
  until_empty: boolean;
  /** Ends after so many; null: it does not count. */
  max_jobs: number | null;
  /** Stderr is a terminal, and what is drawn there goes with the log. */
  live: boolean;
  /** Nothing is drawn and no summary printed: programs read it, or nobody wants to. */
  silent: boolean;
  stderr: (text: string) => void;
}

const REDRAW_MS = 250;
const PLAIN_EVERY_MS = 10_000;
/** How often it is asked whether the work that is left is paused. */
const LOOK_EVERY_MS = 1_000;

export class WorkerDisplay {
  readonly #watched: Watched;
  readonly #paint: Paint;
  readonly #lines: LiveLines | null;
  readonly #started_ms = performance.now();
  #report: Report = () => {};
  #pool: WorkerPool | null = null;
  #stops: (() => void)[] = [];
  #drawing = false;
  /** What was said last about paused queues. */
  #said = "";
  /** Limits and needs that were told of; once is enough, they come and go. */
  readonly #told = new Set<string>();

  constructor(watched: Watched) {
    this.#watched = watched;
    this.#paint = watched.color ? ansi : plain;
    this.#lines = watched.live ? new LiveLines() : null;
  }

  /** For whoever writes to the terminal meanwhile; null where there is none. */
  get above(): ((text: string) => void) | null {
    const lines = this.#lines;
    return lines === null ? null : (text) => lines.above(text);
  }

  start(pool: WorkerPool, report: Report): void {
    this.#pool = pool;
    this.#report = report;
    const { until_empty, silent } = this.#watched;
    if (until_empty) this.#repeat(LOOK_EVERY_MS, () => this.#tellPaused());
    if (silent) return;
    if (this.#lines !== null) {
      this.#lines.above(`${this.#paint.bold("lease worker")} ${this.#servedText()}\n`);
      this.#repeat(REDRAW_MS, () => this.#draw(this.#lines));
    } else if (until_empty) {
      this.#repeat(PLAIN_EVERY_MS, async () => this.#say(progressLine(await this.#progress(), null, plain)));
    }
  }

  async stop(): Promise<void> {
    for (const stop of this.#stops) stop();
    this.#lines?.erase();
    const { completed = 0, failed = 0 } = this.#pool?.statistics() ?? {};
    if (completed + failed === 0) return;
    const summary = progressSummary(await this.#progress());
    const { until_empty, silent, live } = this.#watched;
    if (!silent && (live || until_empty)) this.#say(summary);
    else if (until_empty) this.#report("info", summary);
  }

  #say(line: string): void {
    this.#watched.stderr(`${line}\n`);
  }

  #repeat(every_ms: number, look: () => Promise<void>): void {
    // What can't be read now is read again next time.
    const timer = setInterval(() => void look().catch(() => {}), every_ms);
    this.#stops.push(() => clearInterval(timer));
  }

  #servedText(): string {
    const { queues, task } = this.#watched;
    const some = queues === null ? "all queues" : `queue${queues.length === 1 ? "" : "s"} ${queues.join(", ")}`;
    const { processing = 0, idle = 0 } = this.#pool?.statistics().slots ?? {};
    const slots = processing + idle;
    const only = task === null ? "" : `, task ${task}`;
    return `serves ${some}${only} with ${slots === 1 ? "1 slot" : `${slots} slots`}, ${this.#howLong()}`;
  }

  #howLong(): string {
    const { until_empty, max_jobs } = this.#watched;
    if (max_jobs !== null) return max_jobs === 1 ? "for one job" : `for ${max_jobs} jobs`;
    return until_empty ? "until nothing is left" : "until Ctrl-C";
  }

  async #draw(lines: LiveLines | null): Promise<void> {
    // One that takes longer than the next is due must not pile up.
    if (this.#drawing || lines === null) return;
    this.#drawing = true;
    try {
      const [jobs, progress] = [await this.#jobs(), await this.#progress()];
      lines.draw(workerPicture(jobs, progress, lines.size, this.#paint));
    } finally {
      this.#drawing = false;
    }
  }

  async #jobs(): Promise<ShownJob[]> {
    const { store } = this.#watched;
    const current = this.#pool?.statistics().current ?? [];
    if (current.length === 0) return [];
    const [jobs, now_ms] = [await store.jobs(current.map(({ job }) => job)), await store.now()];
    const shown = current.flatMap(({ last_line, lease_ms, stopping, last_beat_ms_ago }, index) => {
      const job = jobs[index];
      if (!job) return [];
      const { id, progress, message, started_at_ms } = job;
      const elapsed_ms = Math.max(0, now_ms - (started_at_ms ?? now_ms));
      const silent_ms = Math.min(last_beat_ms_ago, elapsed_ms);
      return [
        { id, command: commandText(job), elapsed_ms, progress, message, last_line, silent_ms, lease_ms, stopping },
      ];
    });
    return shown.toSorted((a, b) => b.elapsed_ms - a.elapsed_ms || a.id - b.id);
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
      this.#report("warn", `${jobs} left in paused queues and nothing runs: \`lease resume ${paused}\` lets it go on`);
    }
    const bound = paused === "" && running === 0 && left > 0 ? await this.#whatBounds() : "";
    if (bound !== "" && !this.#told.has(bound)) this.#report("warn", `nothing runs: ${bound}`);
    this.#told.add(bound);
    this.#said = paused;
  }

  /** The limit or need that the next job waits for, in words; empty: none. */
  async #whatBounds(): Promise<string> {
    const { store, queues, task } = this.#watched;
    const only = { ...(queues === null ? {} : { queues }), ...(task === null ? {} : { task }) };
    const [job] = await store.list({ ...only, states: ["pending"], limit: 1, newest_first: false });
    if (job === undefined || (job.limits.length === 0 && Object.keys(job.needs).length === 0)) return "";
    const now_ms = await store.now();
    const { reason } = await around(store, [job], now_ms);
    // When it goes on by itself changes from look to look.
    return `jobs wait, ${reason(job, now_ms)?.replace(/, next .*/, "")}`;
  }

  async #progress(): Promise<WorkProgress> {
    const { completed = 0, failed = 0, slots } = this.#pool?.statistics() ?? {};
    const { pending, retrying } = await this.#watched.store.backlog(this.#watched);
    const running = (slots?.processing ?? 0) + (slots?.draining ?? 0);
    return { completed, failed, running, left: pending + retrying, elapsed_ms: performance.now() - this.#started_ms };
  }
}
