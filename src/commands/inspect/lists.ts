/** The lists of inspect: its flags, which of them each list understands, and from them the questions to the store. */

import { LeaseError } from "../../core/errors.ts";
import { formatDuration } from "../../core/duration.ts";
import type { Job } from "../../core/job.ts";
import { ID, integer, KEY, QUEUE, readIds, SINCE, TASK, TEXT } from "../../core/values.ts";
import { lastWords } from "../../lookup/failures.ts";
import {
  countListed,
  LIST_ORDERS,
  listedJobs,
  MOST_MATCHED,
  SearchTime,
  type JobListQuery,
} from "../../lookup/job_list.ts";
import { queuesNow } from "../../lookup/queues.ts";
import { around } from "../../lookup/why_waiting.ts";
import { leasesByEnd, withHeldJobs, workersNow } from "../../lookup/workers.ts";
import type { Store } from "../../store/store.ts";
import { checkpointsText, jobsText, leasesText } from "../../view/lists.ts";
import { checkpointJson, jobJson, jobTsv, leaseJson, queueJson, TSV_NAMES, workerJson } from "../../view/json.ts";
import { QUEUE_STATES, queuesText, type QueueSummary } from "../../view/queues.ts";
import type { Screen } from "../../view/style.ts";
import { isEndedRun, WORKER_STATES, workersText, workerState, type WorkerRow } from "../../view/workers.ts";
import type { FlagValues } from "../../cli/command.ts";
import { flagName, JSON_FLAG, section, statesFlag, valueFlag } from "../../cli/flags.ts";
import { defined } from "../../lookup/selected.ts";

/**
 * What every view of inspect is: a look at the store that can then be drawn for any moment and width, as text, as JSON
 * or as TSV. Looking and drawing are apart so that a watch can tell whether anything but the time has changed.
 */
export interface View {
  /** As the user named it, for the head of a watch. */
  title: string;
  /** Columns of the TSV; null: it has none. */
  tsv: string | null;
  /** It shows only a part of what there is: then nothing to show is an answer, and a no. */
  narrowed: boolean;
  /** In pages of bounded size, or `whole`: as one. */
  look: (store: Store, now_ms: number, whole: boolean) => AsyncIterable<Seen>;
}

export interface Seen {
  text: (screen: Screen) => string;
  /** For JSON, and for TSV where `rows` is not there. */
  objects: (now_ms: number) => object[];
  rows?: (now_ms: number) => object[];
  /** Jobs that were asked for and are not there. */
  missing?: readonly number[];
  /** How many there are beside those that it shows, where that is known. */
  unseen?: number;
}

/** Jobs of a long list are read and printed in pages of this size. */
const PAGE = 1_000;
const DEFAULT_LIMIT = 50;
const MOST_LISTED = 1_000_000;
/** Nobody looks at an empty screen for longer to see jobs that --match finds. */
const SEARCH_MS = 1_000;

type Order<Row> = (a: Row, b: Row) => number;

const WORKER_ORDERS = {
  // Live ones first, as the store has them.
  started: () => 0,
  seen: (a, b) => b.worker.seen_at_ms - a.worker.seen_at_ms,
  completed: (a, b) => b.worker.completed - a.worker.completed,
  failed: (a, b) => b.worker.failed - a.worker.failed,
} satisfies Record<string, Order<WorkerRow>>;

const expiry = ({ state }: Job) => (state.name === "running" ? state.expires_at_ms : 0);

const LEASE_ORDERS = {
  expires: (a, b) => expiry(a) - expiry(b) || a.id - b.id,
  beat: (a, b) => (a.last_beat_at_ms ?? 0) - (b.last_beat_at_ms ?? 0),
  started: (a, b) => (a.started_at_ms ?? 0) - (b.started_at_ms ?? 0),
  id: (a, b) => a.id - b.id,
} satisfies Record<string, Order<Job>>;

/** What each list can be sorted by; the first is how it comes. */
export const LIST_SORTS = {
  jobs: LIST_ORDERS,
  queues: ["queue", ...QUEUE_STATES],
  workers: Object.keys(WORKER_ORDERS) as (keyof typeof WORKER_ORDERS)[],
  leases: Object.keys(LEASE_ORDERS) as (keyof typeof LEASE_ORDERS)[],
  checkpoints: ["id"],
} as const;

export type ListName = keyof typeof LIST_SORTS;
export const LIST_NAMES = Object.keys(LIST_SORTS) as ListName[];
const ALL_SORTS = [...new Set(Object.values(LIST_SORTS).flat())];

export const INSPECT_FLAGS = {
  watch: { type: "boolean", alias: "w", description: "Keep it live: redrawn every second and on changes, q quits" },
  json: JSON_FLAG,
  tsv: { type: "boolean", description: "Print a list as tab-separated values with a header" },
  show_env: { type: "boolean", description: "Of a job: show the values of its --env, not only their names" },
  ...section("Of a list", {
    status: statesFlag([...QUEUE_STATES, ...WORKER_STATES], "Jobs, or workers, in these states; a list by commas"),
    queue: valueFlag(QUEUE, "Of this queue", { alias: "q" }),
    task: valueFlag(TASK, "With this label", { alias: "t" }),
    key: valueFlag(KEY, "Jobs with this key", { alias: "k" }),
    match: valueFlag(TEXT, "Jobs with this in their command, in capitals or not"),
    job: valueFlag(ID, "Checkpoints of this job"),
    kind: { type: "enum", options: ["error", "progress"], description: "Checkpoints of this kind" },
    stale: { type: "boolean", description: "Leases that are over and not recovered" },
    since: valueFlag(SINCE, "Something happened to it since then: 2h (ago), or 2026-03-01T09:30:00Z"),
    limit: valueFlag(integer({ min: 1, max: MOST_LISTED }), "At most so many", { fallback: String(DEFAULT_LIMIT) }),
    sort: { type: "enum", options: ALL_SORTS, valueHint: "BY", description: "See below" },
    reverse: { type: "boolean", alias: "r", description: "In the opposite order" },
  }),
} as const;

/** Without `status`, which can be repeated. */
export type InspectArgs = FlagValues<typeof INSPECT_FLAGS, "status">;

const COMMON = ["limit", "sort", "reverse"] as const;

const UNDERSTOOD: Readonly<Record<ListName, readonly (keyof typeof INSPECT_FLAGS)[]>> = {
  jobs: ["status", "queue", "task", "key", "match", "since", ...COMMON],
  queues: ["queue", ...COMMON],
  workers: ["status", "queue", "since", ...COMMON],
  leases: ["queue", "task", "stale", ...COMMON],
  checkpoints: ["job", "task", "kind", "since", ...COMMON],
};

const OF_LISTS = new Set<string>(Object.values(UNDERSTOOD).flat());

/** `list` null: the overview, or the pages of jobs. */
export function checkFlags(list: ListName | null, given: ReadonlyMap<string, string>): void {
  const understood: readonly string[] = list === null ? [] : UNDERSTOOD[list];
  const wrong = [...given.keys()].find((name) => OF_LISTS.has(name) && !understood.includes(name));
  if (wrong !== undefined) {
    const flag = `--${flagName(wrong)}`;
    const where = LIST_NAMES.filter((name) => (UNDERSTOOD[name] as readonly string[]).includes(wrong));
    const whose = list === null ? "inspect without a list" : `inspect ${list}`;
    throw new LeaseError("usage", `${whose} has no ${flag}; write lease inspect ${where.join("|")} ${flag} …`);
  }
  if (list === null && given.has("tsv")) {
    throw new LeaseError("usage", `--tsv is for lists: lease inspect ${LIST_NAMES.join("|")} --tsv`);
  }
  if (given.has("json") && given.has("tsv")) throw new LeaseError("usage", "--json or --tsv, not both");
  if (given.has("show_env") && list !== null) throw new LeaseError("usage", "--show-env is for jobs by id");
}

interface Asked {
  list: ListName;
  args: InspectArgs;
  statuses: readonly string[];
  ids: readonly number[];
  limit: number;
  narrowed: boolean;
}

/** Everything that can be wrong with the flags is found here, before a store is opened. */
export function listView(
  list: ListName,
  args: InspectArgs,
  statuses: readonly string[],
  words: readonly string[],
): View {
  const { queue, task, key, match, job, kind, since, stale, limit = DEFAULT_LIMIT } = args;
  const ids = readIds(words, `inspect ${list}`);
  const given = [queue, task, key, match, job, kind, since].some((value) => value !== undefined);
  const narrowed = given || stale || statuses.length + ids.length > 0;
  const look = { jobs, queues, workers, leases, checkpoints }[list]({ list, args, statuses, ids, limit, narrowed });
  return { title: [list, ...words].join(" "), tsv: TSV_NAMES[list], narrowed, look };
}

/** `value` if it is one of those that this list knows. */
function oneOf<const T extends string>(list: ListName, flag: string, value: string, options: readonly T[]): T {
  const found = options.find((option) => option === value);
  if (found !== undefined) return found;
  throw new LeaseError("usage", `${flag} ${value} does not go with inspect ${list}; use ${options.join(", ")}`);
}

function sortOf<L extends ListName>(list: L, { sort }: InspectArgs): (typeof LIST_SORTS)[L][number] {
  const sorts: readonly (typeof LIST_SORTS)[L][number][] = LIST_SORTS[list];
  return oneOf(list, "--sort", sort ?? String(sorts[0]), sorts);
}

function jobs({ args, statuses, ids, limit }: Asked): View["look"] {
  // Programs get them by id, which is an order that does not change under their hands.
  const sort = args.sort === undefined && (args.json || args.tsv) ? "id" : sortOf("jobs", args);
  const states = statuses.map((status) => oneOf("jobs", "--status", status, QUEUE_STATES));
  const { queue, task, key, match } = args;
  if (match !== undefined) checkMatch(sort, args, ids);
  const filters = defined({
    queues: queue === undefined ? undefined : [queue],
    task,
    key,
    match,
    states: states.length === 0 ? undefined : states,
    ids: ids.length === 0 ? undefined : ids,
  });
  // What comes next is due soonest; everything else is asked for to see the newest, the highest, the most.
  const order = { sort, newest_first: (sort === "due") === args.reverse };
  return async function* (store, now_ms, whole) {
    const query: JobListQuery = { ...filters, ...defined({ since_ms: args.since?.(now_ms) }), ...order, limit };
    const missing = await unknownOf(store, ids);
    if (whole) return yield { ...(await wholeList(store, query, now_ms)), missing };
    for await (const found of listedJobs(store, query, PAGE)) yield await seenJobs(store, found, now_ms);
    yield { text: () => "", objects: () => [], missing };
  };
}

async function unknownOf(store: Store, ids: readonly number[]): Promise<number[]> {
  const unknown: number[] = [];
  for (let from = 0; from < ids.length; from += PAGE) {
    const asked = ids.slice(from, from + PAGE);
    const found = await store.jobs(asked);
    unknown.push(...asked.filter((_, index) => found[index] === null));
  }
  return unknown;
}

function checkMatch(sort: string, { match, reverse }: InspectArgs, ids: readonly number[]): void {
  if (match === "") throw new LeaseError("usage", "--match is empty: write a part of the command");
  const order = sort !== "live" && sort !== "id" ? `--sort ${sort}` : reverse ? "--reverse" : null;
  if (order !== null) throw new LeaseError("usage", `--match finds the newest first, and does not go with ${order}`);
  if (ids.length > 0) throw new LeaseError("usage", "--match looks for jobs, and does not go with ids");
}

/** As one table, which says how many more there are. */
async function wholeList(store: Store, query: JobListQuery, now_ms: number) {
  const search_time = new SearchTime(SEARCH_MS);
  const pages = await Array.fromAsync(listedJobs(store, { ...query, search_time, limit: query.limit + 1 }, PAGE));
  const found = pages.flat();
  const seen = await seenJobs(store, found.slice(0, query.limit), now_ms);
  const all = found.length > query.limit ? await countListed(store, query) : null;
  const unseen = all === null ? 0 : Math.max(1, all - query.limit);
  const foot = found.length > query.limit ? moreText(query, unseen) : await unlookedText(store, query, search_time);
  if (foot === null) return seen;
  return { ...seen, unseen, text: (screen: Screen) => seen.text(screen) + footLine(foot, screen) };
}

const inThousands = (count: number) => count.toLocaleString("en");
const footLine = (text: string, { paint }: Screen) => `${paint.dim(text)}\n`;

function moreText({ limit }: JobListQuery, unseen: number): string {
  return `… and ${unseen === 0 ? "" : `${inThousands(unseen)} `}more: --limit ${Math.min(MOST_LISTED, 10 * limit)}`;
}

async function unlookedText(store: Store, { match }: JobListQuery, { ran_out }: SearchTime): Promise<string | null> {
  if (match === undefined) return null;
  if (ran_out) return `looked for ${formatDuration(SEARCH_MS)} and stopped: older jobs may match too; --json looks on`;
  const all = (await store.counts()).reduce((sum, { count }) => sum + count, 0);
  return all <= MOST_MATCHED ? null : `only the newest ${inThousands(MOST_MATCHED)} jobs were looked through`;
}

async function seenJobs(store: Store, found: readonly Job[], now_ms: number) {
  const [{ reason }, failed] = await Promise.all([
    around(store, found, now_ms),
    lastWords(
      store,
      found.filter(({ state }) => state.name === "failed"),
    ),
  ]);
  const said = new Map(failed.map(({ job, last_line }) => [job.id, last_line]));
  const rows = (at_ms: number) =>
    found.map((job) => ({ job, reason: reason(job, at_ms), last_line: said.get(job.id) ?? null }));
  return {
    text: (screen: Screen) => jobsText(rows(screen.now_ms), screen),
    objects: (at_ms: number) => rows(at_ms).map((row) => jobJson(row.job, row.reason)),
    rows: (at_ms: number) => rows(at_ms).map((row) => jobTsv(row, at_ms)),
  };
}

function queues(asked: Asked): View["look"] {
  const { args } = asked;
  const sort = sortOf("queues", args);
  const order: Order<QueueSummary> = (a, b) => (sort === "queue" ? 0 : b.counts[sort] - a.counts[sort]);
  return async function* (store, now_ms) {
    const all = await queuesNow(store, now_ms);
    const wanted = all.filter(({ queue }) => args.queue === undefined || queue === args.queue);
    yield seenRows(asked, inOrder(asked, wanted, order), queuesText, queueJson);
  };
}

function workers(asked: Asked): View["look"] {
  const { args, statuses } = asked;
  const order = WORKER_ORDERS[sortOf("workers", args)];
  const states = statuses.map((status) => oneOf("workers", "--status", status, WORKER_STATES));
  // They are over within a moment, and would soon be most of the list.
  const with_runs = states.some((state) => state === "stopped" || state === "dead");
  return async function* (store, now_ms) {
    const since_ms = args.since?.(now_ms) ?? Number.NEGATIVE_INFINITY;
    const asked_for = (await workersNow(store)).filter(
      (worker) =>
        (states.length === 0 || states.includes(workerState(worker, now_ms))) &&
        (args.queue === undefined || worker.queues === null || worker.queues.includes(args.queue)) &&
        worker.seen_at_ms >= since_ms,
    );
    const wanted = asked_for.filter((worker) => with_runs || !isEndedRun(worker));
    const rows = await withHeldJobs(store, wanted, await leasesByEnd(store, { most: PAGE }));
    const seen = seenRows(asked, inOrder(asked, rows, order), workersText, workerJson);
    const runs = asked_for.length - wanted.length;
    const ended = runs === 1 ? "1 lease run that has" : `${inThousands(runs)} lease runs that have`;
    const foot = `… and ${ended} ended: --status stopped,dead`;
    yield runs === 0 ? seen : { ...seen, text: (screen) => seen.text(screen) + footLine(foot, screen) };
  };
}

function leases(asked: Asked): View["look"] {
  const { args, limit } = asked;
  const sort = sortOf("leases", args);
  const wanted = ({ queue, task }: Job) =>
    (args.queue === undefined || queue === args.queue) && (args.task === undefined || task === args.task);
  // In the order of their ends they come from the store; any other order needs them all, or a good part.
  const most = sort === "expires" && !args.reverse ? limit : Math.max(PAGE, limit);
  return async function* (store) {
    const found = await leasesByEnd(store, { most, wanted, ...(args.stale ? { ends_within_ms: 0 } : {}) });
    yield seenRows(asked, inOrder(asked, found.jobs, LEASE_ORDERS[sort]), leasesText, leaseJson);
  };
}

function checkpoints(asked: Asked): View["look"] {
  const { args, limit } = asked;
  const { job, task, kind } = args;
  sortOf("checkpoints", args);
  return async function* (store, now_ms) {
    const since_ms = args.since?.(now_ms) ?? Number.NEGATIVE_INFINITY;
    const newest = await store.checkpoints({ ...defined({ job, task, kind }), limit });
    const wanted = newest.filter(({ at_ms }) => at_ms >= since_ms);
    const shown = args.reverse ? wanted.toReversed() : wanted;
    const unknown = job !== undefined && shown.length === 0 && (await store.jobs([job]))[0] === null;
    yield { ...seenRows(asked, shown, checkpointsText, checkpointJson), missing: unknown ? [job] : [] };
  };
}

function inOrder<Row>({ args, limit }: Asked, rows: readonly Row[], order: Order<Row>): Row[] {
  const sorted = rows.toSorted(order);
  return (args.reverse ? sorted.toReversed() : sorted).slice(0, limit);
}

function seenRows<Row>(
  { list, narrowed }: Asked,
  shown: readonly Row[],
  text: (rows: readonly Row[], screen: Screen) => string,
  json: (row: Row, at_ms: number) => object,
): Seen {
  const none = `no ${list} match${list === "workers" ? "; start one with: lease worker" : ""}\n`;
  return {
    // Asked for a part of what there is, it says so when there is none of it.
    text: (screen) => (shown.length === 0 && narrowed ? none : text(shown, screen)),
    objects: (at_ms) => shown.map((row) => json(row, at_ms)),
  };
}
