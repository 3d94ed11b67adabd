/** `lease wait`: until jobs have ended; the exit code is theirs. */

import { formatDuration } from "../core/duration.ts";
import { DURATION } from "../core/values.ts";
import { EXIT_CODES, LeaseError } from "../core/errors.ts";
import type { Selection } from "../store/queries.ts";
import type { Store } from "../store/store.ts";
import { jobJson, jsonLine } from "../view/json.ts";
import { shownState } from "../core/job.ts";
import type { JobProgress, WorkProgress } from "../view/progress.ts";
import { NO_FACTS, reasonOf } from "../view/reason.ts";
import { commandText, visible } from "../view/text.ts";
import { command } from "../cli/command.ts";
import { JSON_FLAG, valueFlag } from "../cli/flags.ts";
import { isTerminal, wantsColor, withStore, type Io } from "../cli/io.ts";
import { exitCodeOf, repeat, whyWaiting } from "../cli/waiting.ts";
import { SELECTION_FLAGS, selectionOf } from "../cli/selection.ts";
import { FINISHED_STATES, idPages, nothingMatched } from "../lookup/selected.ts";
import { ProgressLine } from "../cli/progress.ts";
import { ExitRequest } from "../cli/signals.ts";

const PACE = { every_ms: 1_000, pause_ms: 10 } as const;
const TIMED_OUT = EXIT_CODES.timed_out;
const WAITING = ["pending", "blocked", "scheduled", "retrying"] as const;
const UNFINISHED = ["blocked", "scheduled", "retrying", "pending", "running", "cancelling"] as const;
const BAD = ["failed", "cancelled"] as const;
const FAILURES_TOLD = 10;

export default command({
  meta: { name: "wait", description: "Wait until jobs have ended" },
  args: {
    ...SELECTION_FLAGS,
    any: { type: "boolean", description: "Until one of them has ended" },
    timeout: valueFlag(DURATION, "No longer than this", { fallback: "forever" }),
    json: { ...JSON_FLAG, description: "Print the jobs when it is over, one object per line" },
  },
  rest: "words",
  operands: "[ID…]",
  operand_values: { completer: "live_ids" },
  examples: [
    ["lease wait 7 && ./deploy.sh", "ends with the job's own exit code"],
    ["lease wait 7 9-12 --timeout 10m", "all of them, but not forever"],
    ["lease wait --task release-1.4", "all that the task has, and what is added to it meanwhile"],
    ["lease wait --any 7 8 --json", "the first that has ended"],
  ],
  notes: ["A job that is going to be retried has not ended. Ctrl-C ends the waiting; the jobs go on."],
  exit_codes: [
    ["0", "all have completed; with --any, the first that ended has"],
    ["1", "there is no such job, nothing matched, or a job failed without a code of its own or was cancelled"],
    ["124", "--timeout is over, or the job's own was"],
    ["other", "the code of the job, or of the first by id that did not complete; 128+n for signal n"],
  ],
  run: async ({ args, rest, io }) => {
    const only = selectionOf("wait for", rest, args);
    const { timeout: timeout_ms = null } = args;
    return withStore(args, io, { create: false }, async ({ store }) => {
      await mustBeThere(store, only);
      const line = new ProgressLine(wantsColor(args.color, { env: io.env, is_tty: isTerminal(2) }));
      const say = (text: string) => {
        line.erase();
        io.stderr(`lease: ${visible(text)}\n`);
      };
      const code = await waitFor(store, only, { any: args.any, timeout_ms, line, say });
      if (code !== null && code !== TIMED_OUT) {
        io.stderr("lease: no longer waiting; the jobs go on\n");
        return code;
      }
      if (code === TIMED_OUT) io.stderr(`lease: ${await whatIsLeft(store, only, timeout_ms ?? 0)}\n`);
      const first = { ...only, states: FINISHED_STATES, sort: "finished", limit: 1, newest_first: false } as const;
      const [told] = code === null && args.any ? await store.list(first) : [];
      const ended = told === undefined ? only : { ids: [told.id] };
      if (args.json) await printJson(store, ended, io);
      if (code === TIMED_OUT) return TIMED_OUT;
      return outcome(store, ended, io);
    });
  },
});

async function mustBeThere(store: Store, only: Selection): Promise<void> {
  if (only.ids === undefined) {
    const found = await store.list({ ...only, limit: 1, newest_first: true });
    if (found.length > 0) return;
    throw await nothingMatched(store, "wait for", only);
  }
  for await (const ids of idPages(store, "wait for", only, [])) {
    const found = await store.jobs(ids);
    const missing = ids.find((_, index) => found[index] === null);
    if (missing !== undefined) throw new LeaseError("no_such_job", `there is no job ${missing}`);
  }
}

/** Null: it is over. Else the code of what ended the waiting before. */
async function waitFor(
  store: Store,
  only: Selection,
  { any, timeout_ms, line, say }: { any: boolean; timeout_ms: number | null; line: ProgressLine; say: Say },
): Promise<number | null> {
  const isOver = async () => {
    const states = any ? FINISHED_STATES : UNFINISHED;
    const found = await store.list({ ...only, states, limit: 1, newest_first: false });
    return any === found.length > 0;
  };
  if (await isOver()) return null;
  const exit = new ExitRequest();
  const timer = timeout_ms === null ? null : setTimeout(() => exit.end(TIMED_OUT), timeout_ms);
  const stopShowing = line.keepShowing(progressOf(store, only));
  const stopTelling = tellStandstill(store, only, say);
  try {
    const code = await repeat(store, exit.code, PACE, async () => ((await isOver()) ? 0 : null));
    return code === 0 ? null : code;
  } finally {
    if (timer !== null) clearTimeout(timer);
    stopShowing();
    stopTelling();
    exit.release();
    line.erase();
  }
}

type Say = (text: string) => void;

const LOOK_FOR_STANDSTILL_MS = 1_000;

/** Says why nothing moves, and again when the reason is another one: who waits must not think that it takes long. */
function tellStandstill(store: Store, only: Selection, say: Say): () => void {
  let said: string | null = null;
  const look = async () => {
    const counts = await store.counts(only);
    const moving = counts.some(({ state, count }) => count > 0 && state === "running");
    const [next] = moving ? [] : await store.list({ ...only, states: WAITING, limit: 1, newest_first: false });
    const why = next === undefined ? null : await whyWaiting(store, next);
    const told = why?.stands_still ? why.text : null;
    if (told !== null && told !== said) say(told);
    said = told;
  };
  const timer = setInterval(() => void look().catch(() => {}), LOOK_FOR_STANDSTILL_MS);
  return () => clearInterval(timer);
}

/** What a job tells about itself; null unless it is just one that is awaited. */
async function onlyJob(store: Store, { ids }: Selection): Promise<JobProgress | null> {
  const [job] = ids?.length === 1 ? await store.jobs(ids) : [];
  if (!job) return null;
  const { id, progress, message } = job;
  return { id, progress, message, command: commandText(job), state: shownState(job) };
}

function progressOf(store: Store, only: Selection): () => Promise<WorkProgress> {
  const started_ms = performance.now();
  let before: number | null = null;
  return async () => {
    const totals = { blocked: 0, scheduled: 0, pending: 0, running: 0, completed: 0, failed: 0, cancelled: 0 };
    for (const { state, count } of await store.counts(only)) totals[state] += count;
    const { blocked, scheduled, pending, ...rest } = totals;
    before ??= rest.completed + rest.failed + rest.cancelled;
    const elapsed_ms = performance.now() - started_ms;
    return { ...rest, left: blocked + scheduled + pending, before, elapsed_ms, job: await onlyJob(store, only) };
  };
}

async function whatIsLeft(store: Store, only: Selection, timeout_ms: number): Promise<string> {
  const counts = await store.counts(only);
  const total = counts.reduce((sum, { count }) => sum + count, 0);
  const ended = counts.filter(({ state }) => FINISHED_STATES.some((name) => name === state));
  const left = total - ended.reduce((sum, { count }) => sum + count, 0);
  return `after ${formatDuration(timeout_ms)} ${left} of ${total} ${total === 1 ? "job has" : "jobs have"} not ended`;
}

/** Tells what did not complete, and answers the code of the first of them. */
async function outcome(store: Store, only: Selection, io: Io): Promise<number> {
  const bad = await store.list({ ...only, states: BAD, limit: FAILURES_TOLD + 1, newest_first: false });
  const now_ms = await store.now();
  for (const job of bad.slice(0, FAILURES_TOLD)) {
    const reason = reasonOf(job, NO_FACTS, now_ms);
    io.stderr(`lease: ${visible(`job ${job.id} ${job.state.name}${reason === null ? "" : `: ${reason}`}`)}\n`);
  }
  if (bad.length > FAILURES_TOLD) io.stderr("lease: and more: lease inspect jobs --status failed,cancelled\n");
  const [first] = bad;
  return first === undefined ? 0 : exitCodeOf(store, first);
}

async function printJson(store: Store, only: Selection, io: Io): Promise<void> {
  const now_ms = await store.now();
  for await (const ids of idPages(store, "wait for", only, [...UNFINISHED, ...FINISHED_STATES])) {
    for (const job of await store.jobs(ids)) {
      if (job !== null) io.stdout(jsonLine(jobJson(job, reasonOf(job, NO_FACTS, now_ms))));
    }
  }
}
