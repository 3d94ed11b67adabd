/** `lease top`: jobs as they go, with keys to follow a log, cancel, retry, pause and raise; plain where nobody can press any. */

import { isFinished, type Job, type ShownState } from "../core/job.ts";
import { findJobs } from "../lookup/job_search.ts";
import { overviewNow } from "../lookup/overview.ts";
import { around } from "../lookup/why_waiting.ts";
import { workersNow } from "../lookup/workers.ts";
import { Tail } from "../runner/log/tail.ts";
import type { Store } from "../store/store.ts";
import { overviewText } from "../view/overview.ts";
import { drawLines, truncatePainted, type Size } from "../view/text.ts";
import { topLines, topLogLines, type TopFacts, type TopRow } from "../view/top.ts";
import { workerState } from "../view/workers.ts";
import { command } from "../cli/command.ts";
import { screenOf, withStore, type Io } from "../cli/io.ts";
import { LiveTerminal } from "../cli/live_terminal.ts";
import { cancelText, retryText } from "../cli/selection.ts";
import { ExitRequest } from "../cli/signals.ts";
import { repeat } from "../cli/waiting.ts";

const PACE = { every_ms: 1_000, pause_ms: 100 } as const;

const LIVE: readonly ShownState[] = ["running", "cancelling", "pending", "scheduled", "retrying", "blocked"];
const TABS: readonly (readonly [name: string, states: readonly ShownState[]])[] = [
  ["live", LIVE],
  ["running", ["running", "cancelling"]],
  ["waiting", ["pending", "scheduled", "retrying", "blocked"]],
  ["failed", ["failed"]],
  ["done", ["completed", "cancelled"]],
  ["all", []],
];
const SORTS = ["state", "newest", "oldest", "priority"] as const;
const MOST_ROWS = 200;
const LOG_CHUNKS = 16;

export default command({
  meta: { name: "top", description: "Watch jobs live, with keys to act on them" },
  args: {},
  rest: "none",
  examples: [["lease top", "what runs and waits; enter follows a log, q quits"]],
  notes: [
    {
      title: "Keys",
      rows: [
        ["↑ ↓ j k", "choose a job"],
        ["enter", "follow its log; esc goes back"],
        ["c, r", "cancel it, run it again; asks first"],
        ["p", "pause its queue, or resume it"],
        ["+ -", "raise or lower its priority by 10, while it waits"],
        ["/", "filter by a part of command, key, task or error; enter ends it, esc forgets it"],
        ["tab, 1-6", "live, running, waiting, failed, done, all"],
        ["s", "sort"],
        ["q", "quit"],
      ],
    },
    "Where stdout is no terminal it prints what lease inspect does, once.",
  ],
  run: async ({ args, io }) =>
    withStore(args, io, { create: false }, async ({ store }) => {
      if (!io.is_tty || !process.stdin.isTTY) {
        const now_ms = await store.now();
        io.stdout(overviewText(await overviewNow(store, now_ms), screenOf(args.color, io, now_ms)));
        return 0;
      }
      return new Top(store, io, args.color).run();
    }),
});

/** What a key press leads to when it is confirmed. */
interface Question {
  text: string;
  act: () => Promise<string>;
}

class Top {
  readonly #store: Store;
  readonly #io: Io;
  readonly #color: Parameters<typeof screenOf>[0];
  readonly #exit = new ExitRequest();
  readonly #terminal: LiveTerminal;
  #tab = 0;
  #sort = 0;
  #filter = "";
  #typing = false;
  #chosen_id: number | null = null;
  #rows: TopRow[] = [];
  #counts: TopFacts["counts"] = {};
  #workers = 0;
  #now_ms = 0;
  #log: { job: Job; lines: string[] } | null = null;
  #question: Question | null = null;
  #message: string | null = null;

  constructor(store: Store, io: Io, color: Parameters<typeof screenOf>[0]) {
    this.#store = store;
    this.#io = io;
    this.#color = color;
    this.#terminal = new LiveTerminal(
      io.stdout,
      this.#exit,
      () => this.#draw(),
      (key) => this.#pressed(key),
    );
  }

  async run(): Promise<number> {
    await this.#look();
    this.#terminal.open();
    try {
      return await repeat(this.#store, this.#exit.code, PACE, async () => {
        await this.#look();
        this.#draw();
        return null;
      });
    } finally {
      this.#terminal.close();
      this.#exit.release();
    }
  }

  get #chosen(): number {
    const index = this.#rows.findIndex(({ job }) => job.id === this.#chosen_id);
    return index === -1 ? 0 : index;
  }

  get #job(): Job | null {
    return this.#log?.job ?? this.#rows[this.#chosen]?.job ?? null;
  }

  async #look(): Promise<void> {
    const store = this.#store;
    this.#now_ms = await store.now();
    if (this.#log !== null) return this.#lookAtLog(this.#log.job.id);
    const [, states = []] = TABS[this.#tab] ?? [];
    const limit = MOST_ROWS;
    const filter = { text: this.#filter, states, queue: null, task: null, behind_id: null, limit };
    const found = this.#filter === "" ? await this.#list(states) : (await findJobs(store, filter)).jobs;
    const [counts, workers, surroundings] = await Promise.all([
      store.counts(),
      workersNow(store),
      around(store, found, this.#now_ms),
    ]);
    this.#counts = totals(counts);
    this.#workers = workers.filter((worker) => workerState(worker, this.#now_ms) === "live").length;
    const rows = found.map(async (job) => ({ job, note: await this.#noteOf(job, surroundings.reason) }));
    this.#rows = this.#sorted(await Promise.all(rows));
  }

  /** What runs first, then what is next, each within its bound: a store may hold millions. */
  async #list(states: readonly ShownState[]): Promise<Job[]> {
    const query = { limit: MOST_ROWS, newest_first: true } as const;
    if (states !== LIVE) return this.#store.list(states.length === 0 ? query : { ...query, states });
    const running = await this.#store.list({ ...query, states: ["running", "cancelling"] });
    const waiting = ["pending", "scheduled", "retrying", "blocked"] as const;
    return [...running, ...(await this.#store.list({ ...query, states: waiting }))];
  }

  #sorted(rows: readonly TopRow[]): TopRow[] {
    const rank = ({ job }: TopRow) => LIVE.indexOf(job.state.name) >>> 0;
    switch (SORTS[this.#sort]) {
      case "newest":
        return rows.toSorted((a, b) => b.job.id - a.job.id);
      case "oldest":
        return rows.toSorted((a, b) => a.job.id - b.job.id);
      case "priority":
        return rows.toSorted((a, b) => b.job.priority - a.job.priority || a.job.id - b.job.id);
      default:
        return rows.toSorted((a, b) => rank(a) - rank(b) || b.job.id - a.job.id);
    }
  }

  async #noteOf(job: Job, reason: (job: Job, now_ms: number) => string | null): Promise<string | null> {
    if (job.state.name !== "running" || job.progress !== null || job.message !== null) return reason(job, this.#now_ms);
    return (await this.#lastLines(job, 1)).at(-1) ?? reason(job, this.#now_ms);
  }

  async #lastLines({ id: job, token: attempt }: Job, chunks: number): Promise<string[]> {
    const before = Number.MAX_SAFE_INTEGER;
    const found = await this.#store.logs({ job, attempt, from: 0, before, limit: chunks });
    const tail = new Tail();
    for (const chunk of found) tail.addChunk(chunk);
    return tail.lines(MOST_ROWS);
  }

  async #lookAtLog(id: number): Promise<void> {
    const [job] = await this.#store.jobs([id]);
    if (!job) this.#log = null;
    else if (this.#log !== null) this.#log = { job, lines: await this.#lastLines(job, LOG_CHUNKS) };
  }

  #draw(): void {
    const { size } = this.#terminal;
    const lines = this.#lines(size).slice(0, size.rows);
    this.#terminal.draw(
      drawLines(
        lines.map((line) => truncatePainted(line, size.columns)),
        size,
      ),
    );
  }

  #lines(size: Size): string[] {
    const screen = { ...screenOf(this.#color, this.#io, this.#now_ms), width: size.columns };
    const asked = this.#question === null ? this.#message : `${this.#question.text} y/n`;
    if (this.#log !== null) {
      const lines = topLogLines(this.#log.job, this.#log.lines, size, screen);
      return asked === null ? lines : [...lines.slice(0, -1), screen.paint.yellow(asked)];
    }
    return topLines(
      {
        counts: this.#counts,
        workers: this.#workers,
        tabs: TABS.map(([name]) => name),
        tab: this.#tab,
        sort: SORTS[this.#sort] ?? "",
        filter: this.#filter,
        rows: this.#rows,
        chosen: this.#chosen,
        message: this.#typing ? `filter: ${this.#filter}▏` : asked,
      },
      size,
      screen,
    );
  }

  #pressed(key: string): boolean {
    if (this.#typing) return this.#typed(key);
    if (this.#question !== null) return this.#answered(key);
    this.#message = null;
    if (this.#log !== null && (key === ESCAPE || key === BACKSPACE || key === "h")) {
      this.#log = null;
      return this.#again();
    }
    const act = this.#actions()[key];
    if (act === undefined) return /^[1-6]$/.test(key) && this.#turnTo(Number(key) - 1);
    act();
    return true;
  }

  #actions(): Readonly<Record<string, () => void>> {
    const job = this.#job;
    const move = (by: number) => () => {
      const next = Math.max(0, Math.min(this.#rows.length - 1, this.#chosen + by));
      this.#chosen_id = this.#rows[next]?.job.id ?? null;
    };
    return {
      [`${ESCAPE}[A`]: move(-1),
      [`${ESCAPE}[B`]: move(1),
      [`${ESCAPE}[5~`]: move(-10),
      [`${ESCAPE}[6~`]: move(10),
      k: move(-1),
      j: move(1),
      "\t": () => void this.#turnTo((this.#tab + 1) % TABS.length),
      s: () => {
        this.#sort = (this.#sort + 1) % SORTS.length;
        this.#again();
      },
      "/": () => (this.#typing = true),
      ...(job === null ? {} : this.#jobActions(job)),
    };
  }

  #jobActions(job: Job): Record<string, () => void> {
    const store = this.#store;
    const { id, queue, priority } = job;
    const raise = (by: number) => () =>
      this.#do(async () => {
        const [answer] = await store.edit([id], { priority: priority + by });
        return answer?.status === "changed"
          ? `job ${id} has priority ${priority + by}`
          : `job ${id} does not wait any more`;
      });
    const follow = () => {
      this.#log = { job, lines: [] };
      this.#again();
    };
    return {
      "\r": follow,
      l: follow,
      c: () =>
        isFinished(job.state)
          ? void (this.#message = `job ${id} has ended: there is nothing to cancel`)
          : this.#ask(`cancel job ${id}?`, async () => (await store.cancel([id], null)).map(cancelText).join()),
      r: () =>
        isFinished(job.state)
          ? this.#ask(`run job ${id} again?`, async () => (await store.retry([id])).map(retryText).join())
          : void (this.#message = `job ${id} has not ended: there is nothing to run again`),
      p: () =>
        this.#do(async () => {
          const paused = (await store.pausedQueues()).includes(queue);
          await store.setPaused([queue], !paused);
          return `queue ${queue} is ${paused ? "resumed" : "paused"}`;
        }),
      "+": raise(10),
      "-": raise(-10),
    };
  }

  #typed(key: string): boolean {
    if (key === "\r" || key === ESCAPE) {
      this.#typing = false;
      if (key === ESCAPE) this.#filter = "";
    } else if (key === BACKSPACE) this.#filter = this.#filter.slice(0, -1);
    else this.#filter += key.replaceAll(/\p{Cc}/gu, "");
    return this.#again();
  }

  #answered(key: string): boolean {
    const question = this.#question;
    this.#question = null;
    if (question !== null && /^y/i.test(key)) this.#do(question.act);
    return true;
  }

  #ask(text: string, act: Question["act"]): void {
    this.#question = { text, act };
  }

  /** What came of it is told in the last line. */
  #do(act: () => Promise<string>): void {
    const told = act().catch((error: unknown) => (error instanceof Error ? error.message : String(error)));
    void told.then((message) => {
      this.#message = message;
      this.#again();
    });
  }

  #turnTo(tab: number): boolean {
    this.#tab = tab;
    this.#chosen_id = null;
    return this.#again();
  }

  #again(): true {
    void this.#look()
      .then(() => this.#draw())
      .catch(() => {});
    return true;
  }
}

const ESCAPE = "\u001b";
const BACKSPACE = "\u007f";

function totals(counts: Awaited<ReturnType<Store["counts"]>>): TopFacts["counts"] {
  const all: Partial<Record<ShownState, number>> = {};
  for (const { state, count } of counts) all[state] = (all[state] ?? 0) + count;
  return all;
}
