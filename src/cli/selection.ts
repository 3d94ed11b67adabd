/**
 * What a command is about, and doing it to all of that: jobs by ids and ranges or by what a task, a queue or a state has
 * (cancel, retry, wait), or queues by name (pause, resume).
 */

import { checkName } from "../core/check_job.ts";
import { LeaseError } from "../core/errors.ts";
import { isFinished, type Job, type ShownState } from "../core/job.ts";
import { QUEUE, readIds, TASK } from "../core/values.ts";
import { queueRemarks } from "../lookup/queues.ts";
import { defined, idPages } from "../lookup/selected.ts";
import type { CancelAnswer, JobOutline, RetryAnswer, Selection } from "../store/queries.ts";
import type { Store } from "../store/store.ts";
import { jsonLine } from "../view/json.ts";
import { quote, visible } from "../view/text.ts";
import { command, type FlagValues } from "./command.ts";
import { valueFlag } from "./flags.ts";
import { isTerminal, withStore, type ColorChoice, type Io, type StoreArgs } from "./io.ts";
import { showProgress } from "./progress.ts";
import { ExitRequest } from "./signals.ts";
import { repeat } from "./waiting.ts";

export const SELECTION_FLAGS = {
  task: valueFlag(TASK, "All jobs with this label", { alias: "t" }),
  queue: valueFlag(QUEUE, "All jobs of this queue", { alias: "q" }),
} as const;

type Flags = FlagValues<typeof SELECTION_FLAGS, never>;

/** Never everything by accident: without a word or a flag there is no selection. */
export function selectionOf(
  verb: string,
  words: readonly string[],
  { task, queue }: Flags,
  statuses: readonly ShownState[] = [],
): Selection {
  const by_flag = task !== undefined || queue !== undefined || statuses.length > 0;
  if (words.length > 0) {
    if (by_flag)
      throw new LeaseError("usage", `${verb.replace(/ .*/, "")} takes ids, or flags that select jobs, not both`);
    return { ids: idsOf(words, verb.replace(/ .*/, "")) };
  }
  if (!by_flag) throw new LeaseError("usage", `${verb} what? Name ids (7 9-12), --task or --queue`);
  return defined({ task, queues: queue === undefined ? undefined : [queue] });
}

/** One word that is no id is probably the name of what has several. */
function idsOf(words: readonly string[], verb: string): number[] {
  const [word = "", ...more] = words;
  if (more.length > 0 || !/^\p{L}/u.test(word)) return readIds(words, verb);
  const refused = `${verb} ${JSON.stringify(word)} is not a job id: write 7, or 9-12 for a range`;
  throw new LeaseError("usage", `${refused}; by label it is --task ${quote(word)}, by queue --queue ${quote(word)}`);
}

/** One line per gap, not per job: a range may be much larger than the store. */
export function noSuchJobs(ids: readonly number[]): string[] {
  const gaps: [from: number, to: number][] = [];
  for (const id of ids) {
    const last = gaps.at(-1);
    if (last?.[1] === id - 1) last[1] = id;
    else gaps.push([id, id]);
  }
  return gaps.map(([from, to]) => (from === to ? `there is no job ${from}` : `there are no jobs ${from}-${to}`));
}

/** What became of a job that should be cancelled, or run again, and why where nothing did. */
export function cancelText({ id, status, state }: CancelAnswer): string {
  if (status === "unknown") return `there is no job ${id}`;
  if (status !== "finished") return `job ${id} ${status}`;
  return `job ${id} is ${state} already: there is nothing to cancel`;
}

export function retryText({ id, status, state }: RetryAnswer): string {
  if (status === "unknown") return `there is no job ${id}`;
  if (status === "key_taken") return `job ${id} can't run again while another job with its key is live`;
  if (status === "not_finished") return `job ${id} is ${state}: only finished jobs can be retried`;
  return `job ${id} ${status}`;
}

interface Context {
  args: Flags & StoreArgs & { json: boolean; color: ColorChoice };
  lists: { status: ShownState[] };
  rest: readonly string[];
  io: Io;
}

interface Change<A extends { status: string }> {
  verb: string;
  /** Those that flags select when none are named. */
  states: readonly ShownState[];
  /** Of those, if only some. */
  fits?: (job: JobOutline) => boolean;
  change: (store: Store, ids: readonly number[]) => Promise<A[]>;
  /** What a job answers that it was done to. */
  done: readonly A["status"][];
  complaint: (answer: A) => string;
  /** Tell of those that this answers only when they have ended. */
  awaited?: A["status"];
}

/** At a terminal nobody reads more lines than this: there it is how far it is, and how many in the end. */
const MOST_LINES = 1_000;

/** Cancels or retries what words and flags select, tells of each job, and answers 1 when one of them refused. */
export async function changeJobs<A extends CancelAnswer | RetryAnswer>(
  { args, lists, rest, io }: Context,
  asked: Change<A>,
): Promise<number> {
  const { verb, states, fits, change, awaited } = asked;
  const selection = selectionOf(verb, rest, args, lists.status);
  return withStore(args, io, { create: false }, async ({ store }) => {
    const [some, fitting] = lists.status.length === 0 ? [states, fits] : [lists.status, undefined];
    const attended = isTerminal(2) && selection.ids === undefined;
    const total = attended ? await countOf(store, selection, some) : (selection.ids?.length ?? 0);
    const answers = new Answers(asked, args.json, io, io.is_tty && !args.json && total > MOST_LINES);
    const hide = attended && total > MOST_LINES ? showProgress(() => answers.told, total, args.color, io) : () => {};
    const waiting: number[] = [];
    try {
      const paging = { changing: true, ...(fitting === undefined ? {} : { fits: fitting }) };
      for await (const ids of idPages(store, verb, selection, some, paging)) {
        const page = await change(store, ids);
        for (const { id, status } of page) if (status === awaited) waiting.push(id);
        answers.tell(page.filter(({ status }) => status !== awaited));
      }
    } finally {
      hide();
    }
    answers.end();
    if (waiting.length === 0) return answers.all ? 0 : 1;
    return untilEnded(store, waiting, (job) => {
      const { id, state } = job;
      answers.all &&= state.name === "cancelled";
      io.stdout(args.json ? jsonLine({ id, status: state.name, state: state.name }) : `${id} ${state.name}\n`);
    }).then((code) => code ?? (answers.all ? 0 : 1));
  });
}

/** What is told of each job; one write for each page of them. */
class Answers<A extends CancelAnswer | RetryAnswer> {
  /** None of them refused. */
  all = true;
  told = 0;
  readonly #asked: Change<A>;
  readonly #json: boolean;
  readonly #io: Io;
  readonly #sums_only: boolean;
  readonly #sums = new Map<string, number>();
  readonly #unknown: number[] = [];

  constructor(asked: Change<A>, json: boolean, io: Io, sums_only: boolean) {
    this.#asked = asked;
    this.#json = json;
    this.#io = io;
    this.#sums_only = sums_only;
  }

  tell(page: readonly A[]): void {
    const lines: string[] = [];
    for (const answer of page) {
      const { id, status, state } = answer;
      const is_done = this.#asked.done.includes(status);
      this.all &&= is_done;
      this.told += 1;
      if (this.#json) lines.push(jsonLine({ ...answer, state: is_done ? status : state }));
      else if (is_done && this.#sums_only) this.#sums.set(status, (this.#sums.get(status) ?? 0) + 1);
      else if (is_done) lines.push(`${id} ${status}\n`);
      else if (status === "unknown") this.#unknown.push(id);
      else this.#io.stderr(`lease: ${visible(this.#asked.complaint(answer))}\n`);
    }
    if (lines.length > 0) this.#io.stdout(lines.join(""));
  }

  end(): void {
    for (const [status, count] of this.#sums) this.#io.stdout(`${count} jobs ${status}\n`);
    for (const line of noSuchJobs(this.#unknown)) this.#io.stderr(`lease: ${line}\n`);
  }
}

/** As shown, `retrying` and `cancelling` are parts of others: what is shown of them is about right. */
async function countOf(store: Store, selection: Selection, states: readonly ShownState[]): Promise<number> {
  const counts = await store.counts(selection);
  return counts.reduce((sum, { state, count }) => sum + (states.includes(state) ? count : 0), 0);
}

const PACE = { every_ms: 1_000, pause_ms: 50 } as const;

/** Tells of each as it ends. Null: all have; else the code of what ended the waiting before. */
async function untilEnded(store: Store, ids: readonly number[], tell: (job: Job) => void): Promise<number | null> {
  const left = new Set(ids);
  const look = async () => {
    for (const job of await store.jobs([...left])) {
      if (job === null || !isFinished(job.state)) continue;
      left.delete(job.id);
      tell(job);
    }
    return left.size === 0 ? 0 : null;
  };
  const exit = new ExitRequest();
  try {
    return (await repeat(store, exit.code, PACE, look)) || null;
  } finally {
    exit.release();
  }
}

/** As a worker's -q takes them: several with commas between too, because none has one in its name. */
function queuesNamed(verb: string, words: readonly string[]): string[] {
  const queues = [...new Set(words.flatMap((word) => word.split(",")))];
  if (queues.length === 0) throw new LeaseError("usage", `${verb} which queue? Name one`);
  for (const queue of queues) checkName("queue", queue);
  if (queues.includes("*"))
    throw new LeaseError("usage", `${verb} takes no *: name each queue; lease inspect queues lists them`);
  return queues;
}

/** Pause and resume: the same to the queues that are named, in two directions. */
export function pauseOrResume(verb: "pause" | "resume", description: string, example: string) {
  return command({
    meta: { name: verb, description },
    args: {},
    rest: "words",
    operands: "QUEUE…",
    operand_values: { completer: "queues" },
    examples: [[`lease ${verb} mail`, example]],
    run: async ({ args, rest, io }) => {
      const queues = queuesNamed(verb, rest);
      return withStore(args, io, { create: false }, async ({ store }) => {
        for (const remark of await queueRemarks(store, queues)) {
          if (remark !== null) io.stderr(`lease: ${visible(remark)}\n`);
        }
        await store.setPaused(queues, verb === "pause");
        for (const queue of queues) io.stdout(`${visible(queue)} ${verb}d\n`);
        return 0;
      });
    },
  });
}
