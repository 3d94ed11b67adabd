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
import type { Selection } from "../store/queries.ts";
import type { Store } from "../store/store.ts";
import type { CancelAnswer } from "../store/queries.ts";
import type { RetryAnswer } from "../store/queries.ts";
import { jsonLine } from "../view/json.ts";
import { visible } from "../view/text.ts";
import { command, type FlagValues } from "./command.ts";
import { valueFlag } from "./flags.ts";
import { withStore, type Io, type StoreArgs } from "./io.ts";
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
    if (by_flag) throw new LeaseError("usage", `${verb} takes ids, or flags that select jobs, not both`);
    return { ids: readIds(words, verb.replace(/ .*/, "")) };
  }
  if (!by_flag) throw new LeaseError("usage", `${verb} what? Name ids (7 9-12), --task or --queue`);
  return defined({ task, queues: queue === undefined ? undefined : [queue] });
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

interface Context {
  args: Flags & StoreArgs & { json: boolean };
  lists: { status: ShownState[] };
  rest: readonly string[];
  io: Io;
}

interface Change<A extends { status: string }> {
  verb: string;
  /** Those that flags select when none are named. */
  states: readonly ShownState[];
  /** Of those, if only some. */
  fits?: (job: Job) => boolean;
  change: (store: Store, ids: readonly number[]) => Promise<A[]>;
  /** What a job answers that it was done to. */
  done: readonly A["status"][];
  complaint: (answer: A) => string;
  /** Tell of those that this answers only when they have ended. */
  awaited?: A["status"];
}

/** Cancels or retries what words and flags select, tells of each job, and answers 1 when one of them refused. */
export async function changeJobs<A extends CancelAnswer | RetryAnswer>(
  { args, lists, rest, io }: Context,
  { verb, states, fits, change, done, complaint, awaited }: Change<A>,
): Promise<number> {
  const selection = selectionOf(verb, rest, args, lists.status);
  return withStore(args, io, { create: false }, async ({ store }) => {
    let all = true;
    const unknown: number[] = [];
    const waiting: number[] = [];
    const [some, fitting] = lists.status.length === 0 ? [states, fits] : [lists.status, undefined];
    for await (const ids of idPages(store, verb, selection, some, fitting)) {
      for (const answer of await change(store, ids)) {
        const { id, status, state } = answer;
        if (status === awaited) {
          waiting.push(id);
          continue;
        }
        const is_done = done.includes(status);
        all &&= is_done;
        if (args.json) io.stdout(jsonLine({ ...answer, state: is_done ? status : state }));
        else if (is_done) io.stdout(`${id} ${status}\n`);
        else if (status === "unknown") unknown.push(id);
        else io.stderr(`lease: ${visible(complaint(answer))}\n`);
      }
    }
    for (const line of noSuchJobs(unknown)) io.stderr(`lease: ${line}\n`);
    if (waiting.length === 0) return all ? 0 : 1;
    return untilEnded(store, waiting, (job) => {
      const { id, state } = job;
      all &&= state.name === "cancelled";
      io.stdout(args.json ? jsonLine({ id, status: state.name, state: state.name }) : `${id} ${state.name}\n`);
    }).then((code) => code ?? (all ? 0 : 1));
  });
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
      if (rest.length === 0) throw new LeaseError("usage", `${verb} which queue? Name one`);
      for (const queue of rest) checkName("queue", queue);
      return withStore(args, io, { create: false }, async ({ store }) => {
        for (const remark of await queueRemarks(store, rest)) {
          if (remark !== null) io.stderr(`lease: ${visible(remark)}\n`);
        }
        await store.setPaused(rest, verb === "pause");
        return 0;
      });
    },
  });
}
