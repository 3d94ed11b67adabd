/** The lists of inspect: flags → questions to the store → rows. */

import { readIds } from "../../core/values.ts";
import type { Job } from "../../core/job.ts";
import { SORTS, type ListQuery } from "../../store/queries.ts";
import type { Store } from "../../store/store.ts";
import { checkpointsText, jobsText, leasesText } from "../../view/lists.ts";
import { checkpointJson, jobJson, jobTsv, leaseJson, queueJson, TSV_NAMES, workerJson } from "../../view/json.ts";
import { QUEUE_STATES, queuesText, type QueueSummary } from "../../view/queues.ts";
import type { Screen } from "../../view/style.ts";
import { WORKER_STATES, workersText, workerState, type WorkerRow } from "../../view/workers.ts";
import { DEFAULT_LIMIT, LIST_SORTS, MOST_LISTED, oneOf, type InspectArgs, type ListName } from "./flags.ts";
import { leasesByEnd } from "../../lookup/leases.ts";
import { queuesNow } from "../../lookup/queues.ts";
import { around } from "../../lookup/why_waiting.ts";
import type { Seen, View } from "./views.ts";
import { withHeldJobs, workersNow } from "../../lookup/workers.ts";

/** Jobs of a long list are read and printed in pages of this size. */
const PAGE = 1_000;

interface Asked {
  args: InspectArgs;
  statuses: readonly string[];
  ids: readonly number[];
  limit: number;
}

/** Everything that can be wrong with the flags is found here, before a store is opened. */
export function listView(
  list: ListName,
  args: InspectArgs,
  statuses: readonly string[],
  words: readonly string[],
): View {
  const { limit = DEFAULT_LIMIT } = args;
  const asked = { args, statuses, ids: readIds(words, `inspect ${list}`), limit };
  const look = { jobs, queues, workers, leases, checkpoints }[list](asked);
  return { title: [list, ...words].join(" "), tsv: TSV_NAMES[list], narrowed: isNarrowed(asked), look };
}

function isNarrowed({ args, statuses, ids }: Asked): boolean {
  const { queue, task, key, job, kind, since } = args;
  const given = [queue, task, key, job, kind, since].some((value) => value !== undefined);
  return given || args.stale || statuses.length + ids.length > 0;
}

const filters = ({ queue, task, key }: InspectArgs) => ({
  ...(queue === undefined ? {} : { queues: [queue] }),
  ...(task === undefined ? {} : { task }),
  ...(key === undefined ? {} : { key }),
});

const sinceOf = ({ since }: InspectArgs, now_ms: number) => since?.(now_ms) ?? null;

function jobs({ args, statuses, ids, limit }: Asked): View["look"] {
  const sort = oneOf("jobs", "--sort", args.sort ?? "id", SORTS);
  const states = statuses.map((status) => oneOf("jobs", "--status", status, QUEUE_STATES));
  // What comes next is due soonest; everything else is asked for to see the newest, the highest, the most.
  const newest_first = (sort === "due") === args.reverse;
  return async function* (store, now_ms, whole) {
    const since_ms = sinceOf(args, now_ms);
    const query: ListQuery = {
      ...filters(args),
      ...(states.length === 0 ? {} : { states }),
      ...(ids.length === 0 ? {} : { ids }),
      ...(since_ms === null ? {} : { since_ms }),
      sort,
      limit,
      newest_first,
    };
    if (whole) return yield await wholeList(store, query, now_ms);
    // Only ids tell where to go on.
    const page = sort === "id" ? Math.min(limit, PAGE) : limit;
    let left = limit;
    let behind: number | null = null;
    for (;;) {
      const more: ListQuery = {
        ...query,
        limit: Math.min(page, left),
        ...(behind === null ? {} : { behind_id: behind }),
      };
      const found = await store.list(more);
      if (found.length > 0 || behind === null) yield await seenJobs(store, found, now_ms);
      left -= found.length;
      behind = found.at(-1)?.id ?? null;
      if (found.length < page || left === 0) return;
    }
  };
}

/** As one table, which says when there is more of it. */
async function wholeList(store: Store, query: ListQuery, now_ms: number) {
  const found = await store.list({ ...query, limit: query.limit + 1 });
  const seen = await seenJobs(store, found.slice(0, query.limit), now_ms);
  if (found.length <= query.limit) return seen;
  const more = `… and more: --limit ${Math.min(MOST_LISTED, 10 * query.limit)} shows up to so many\n`;
  return { ...seen, text: (screen: Screen) => seen.text(screen) + more };
}

async function seenJobs(store: Store, found: readonly Job[], now_ms: number) {
  const { reason } = await around(store, found, now_ms);
  const rows = (at_ms: number) => found.map((job) => ({ job, reason: reason(job, at_ms) }));
  return {
    text: (screen: Screen) => jobsText(rows(screen.now_ms), screen),
    objects: (at_ms: number) => rows(at_ms).map((row) => jobJson(row.job, row.reason)),
    rows: (at_ms: number) => rows(at_ms).map((row) => jobTsv(row, at_ms)),
  };
}

function queues(asked: Asked): View["look"] {
  const { args, limit } = asked;
  const sort = oneOf("queues", "--sort", args.sort ?? "queue", LIST_SORTS.queues);
  const order = (a: QueueSummary, b: QueueSummary) => (sort === "queue" ? 0 : b.counts[sort] - a.counts[sort]);
  return async function* (store, now_ms) {
    const all = (await queuesNow(store, now_ms)).filter(
      ({ queue }) => args.queue === undefined || queue === args.queue,
    );
    const shown = inOrder(all, order, args.reverse).slice(0, limit);
    yield seenRows(asked, "queues", shown, queuesText, queueJson);
  };
}

function workers(asked: Asked): View["look"] {
  const { args, statuses, limit } = asked;
  const sort = oneOf("workers", "--sort", args.sort ?? "started", LIST_SORTS.workers);
  const states = statuses.map((status) => oneOf("workers", "--status", status, WORKER_STATES));
  const by = {
    // Live ones first, as the store has them.
    started: () => 0,
    seen: (a, b) => b.worker.seen_at_ms - a.worker.seen_at_ms,
    completed: (a, b) => b.worker.completed - a.worker.completed,
    failed: (a, b) => b.worker.failed - a.worker.failed,
  } satisfies Record<string, (a: WorkerRow, b: WorkerRow) => number>;
  return async function* (store, now_ms) {
    const since_ms = sinceOf(args, now_ms);
    const all = await workersNow(store);
    const wanted = all.filter(
      (worker) =>
        (states.length === 0 || states.includes(workerState(worker, now_ms))) &&
        (args.queue === undefined || worker.queues === null || worker.queues.includes(args.queue)) &&
        (since_ms === null || worker.seen_at_ms >= since_ms),
    );
    const rows = await withHeldJobs(store, wanted, await leasesByEnd(store, { most: PAGE }));
    const shown = inOrder(rows, by[sort], args.reverse).slice(0, limit);
    yield seenRows(asked, "workers", shown, workersText, workerJson);
  };
}

function leases(asked: Asked): View["look"] {
  const { args, limit } = asked;
  const sort = oneOf("leases", "--sort", args.sort ?? "expires", LIST_SORTS.leases);
  const expiry = ({ state }: Job) => (state.name === "running" ? state.expires_at_ms : 0);
  const by = {
    expires: (a, b) => expiry(a) - expiry(b) || a.id - b.id,
    beat: (a, b) => (a.last_beat_at_ms ?? 0) - (b.last_beat_at_ms ?? 0),
    started: (a, b) => (a.started_at_ms ?? 0) - (b.started_at_ms ?? 0),
    id: (a, b) => a.id - b.id,
  } satisfies Record<string, (a: Job, b: Job) => number>;
  const wanted = ({ queue, task }: Job) =>
    (args.queue === undefined || queue === args.queue) && (args.task === undefined || task === args.task);
  // In the order of their ends they come from the store; any other order needs them all, or a good part.
  const most = sort === "expires" && !args.reverse ? limit : Math.max(PAGE, limit);
  return async function* (store) {
    const found = await leasesByEnd(store, { most, wanted, ...(args.stale ? { ends_within_ms: 0 } : {}) });
    const shown = inOrder(found.jobs, by[sort], args.reverse).slice(0, limit);
    yield seenRows(asked, "leases", shown, leasesText, leaseJson);
  };
}

function checkpoints(asked: Asked): View["look"] {
  const { args, limit } = asked;
  oneOf("checkpoints", "--sort", args.sort ?? "id", LIST_SORTS.checkpoints);
  const { job = null } = args;
  const kind = args.kind === "error" || args.kind === "progress" ? args.kind : null;
  return async function* (store, now_ms) {
    const since_ms = sinceOf(args, now_ms);
    const newest = await store.checkpoints({
      ...(job === null ? {} : { job }),
      ...(args.task === undefined ? {} : { task: args.task }),
      ...(kind === null ? {} : { kind }),
      limit,
    });
    const wanted = newest.filter(({ at_ms }) => since_ms === null || at_ms >= since_ms);
    const shown = args.reverse ? wanted.toReversed() : wanted;
    const unknown = job !== null && shown.length === 0 && (await store.jobs([job]))[0] === null;
    yield { ...seenRows(asked, "checkpoints", shown, checkpointsText, checkpointJson), missing: unknown ? [job] : [] };
  };
}

function seenRows<Row>(
  asked: Asked,
  list: ListName,
  shown: readonly Row[],
  text: (rows: readonly Row[], screen: Screen) => string,
  json: (row: Row, at_ms: number) => object,
): Seen {
  const none = `no ${list} match${list === "workers" ? "; start one with: lease worker" : ""}\n`;
  return {
    // Asked for a part of what there is, it says so when there is none of it.
    text: (screen) => (shown.length === 0 && isNarrowed(asked) ? none : text(shown, screen)),
    objects: (at_ms) => shown.map((row) => json(row, at_ms)),
  };
}

function inOrder<Row>(rows: readonly Row[], order: (a: Row, b: Row) => number, reverse: boolean): Row[] {
  const sorted = rows.toSorted(order);
  return reverse ? sorted.toReversed() : sorted;
}
