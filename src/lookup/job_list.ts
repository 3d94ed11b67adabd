/**
 * Jobs in a list for people: what runs first, then what waits, then what is over; or in an order of the store. A part of
 * the command narrows it, at a price that is bounded however large the store is.
 */

import { shownState, type Job, type ShownState } from "../core/job.ts";
import { SORTS, type ListQuery, type Selection } from "../store/queries.ts";
import type { Glance } from "../store/store.ts";
import { SEARCHED_JOBS } from "./job_search.ts";

/** The first is how they come. */
export const LIST_ORDERS = ["live", ...SORTS] as const;
type Order = (typeof LIST_ORDERS)[number];

const LIVE_FIRST: readonly (readonly ShownState[])[] = [
  ["running", "cancelling"],
  ["pending", "scheduled", "retrying", "blocked"],
  ["completed", "failed", "cancelled"],
];

/** How long a part of the command may be looked for; it tells whether that was too short to see all. */
export class SearchTime {
  ran_out = false;
  readonly #ends_ms: number;

  constructor(within_ms: number) {
    this.#ends_ms = performance.now() + within_ms;
  }

  lasts(): boolean {
    this.ran_out ||= performance.now() >= this.#ends_ms;
    return !this.ran_out;
  }
}

export interface JobListQuery extends Omit<ListQuery, "sort" | "behind_id" | "holder"> {
  sort: Order;
  /** A part of the command, in capitals or not; then only the orders `live` and `id`, the newest first. */
  match?: string;
  /** With `match`; without it as many are looked through as ever are. */
  search_time?: SearchTime;
}

/** The jobs of one turn, at most `page` of them. */
type Turn = (query: ListQuery, page: number) => AsyncIterable<Job[]>;

/** In turns of bounded size. */
export async function* listedJobs(store: Glance, query: JobListQuery, page: number): AsyncGenerator<Job[]> {
  const { sort, match, search_time, ...asked } = query;
  const turn: Turn = (part, size) =>
    match === undefined ? paged(store, part, size) : matching(store, { ...part, text: match }, search_time);
  const seen = new Set<number>();
  let left = query.limit;
  for (const groups of await walks(store, query)) {
    const order = sort === "live" ? "id" : sort;
    const states = groups.flat();
    const part = { ...asked, ...(states.length === 0 ? {} : { states }), sort: order, limit: left };
    for await (const found of groups.length > 1 ? inGroups(turn(part, page), groups, left) : turn(part, page)) {
      // One that ended between two questions is in both answers.
      const fresh = found.filter(({ id }) => !seen.has(id)).slice(0, left);
      if (sort === "live") for (const { id } of fresh) seen.add(id);
      left -= fresh.length;
      if (fresh.length > 0) yield fresh;
      if (left === 0) return;
    }
  }
}

type States = readonly ShownState[];

/**
 * The groups of states that are looked through together, in the order of the list; none: all. A match walks through the
 * newest jobs whatever their states, so groups with many jobs are walked through once for all of them.
 */
async function walks(store: Glance, query: JobListQuery): Promise<States[][]> {
  const groups = groupsOf(query);
  if (query.match === undefined || query.sort !== "live") return groups.map((group) => (group === null ? [] : [group]));
  const counts = await store.counts();
  const has = (group: States) => (state: string) => group.some((shown) => (STORED[shown] ?? shown) === state);
  const isLarge = (group: States) =>
    counts.filter(({ state }) => has(group)(state)).reduce((sum, { count }) => sum + count, 0) > SEARCHED_JOBS;
  const walked: States[][] = [];
  for (const group of groups.map((states) => states ?? [])) {
    const before = walked.at(-1);
    if (before !== undefined && isLarge(group) && before.every(isLarge)) before.push(group);
    else walked.push([group]);
  }
  return walked;
}

/** As what a state that is shown is stored, where that has another name. */
const STORED: Readonly<Partial<Record<ShownState, string>>> = { cancelling: "running", retrying: "scheduled" };

/** The first of each group, group by group; when the first group has them all, the walk is over. */
async function* inGroups(pages: AsyncIterable<Job[]>, groups: readonly States[], most: number): AsyncGenerator<Job[]> {
  const found = groups.map((): Job[] => []);
  for await (const page of pages) {
    for (const job of page) {
      const group = found[groups.findIndex((states) => states.includes(shownState(job)))];
      if (group !== undefined && group.length < most) group.push(job);
    }
    if (found[0]?.length === most) break;
  }
  yield found.flat();
}

/** The states of each part of the list; null: all. */
function groupsOf({ sort, states, newest_first }: JobListQuery): (readonly ShownState[] | null)[] {
  if (sort !== "live") return [states ?? null];
  const groups = LIVE_FIRST.map((group) => group.filter((state) => states?.includes(state) ?? true));
  const some = groups.filter((group) => group.length > 0);
  return newest_first ? some : some.toReversed();
}

async function* paged(store: Glance, query: ListQuery, page: number): AsyncGenerator<Job[]> {
  // Only ids tell where to go on.
  const size = query.sort === "id" ? Math.min(query.limit, page) : query.limit;
  let left = query.limit;
  let behind: { behind_id?: number } = {};
  for (;;) {
    const found = await store.list({ ...query, ...behind, limit: Math.min(size, left) });
    yield found;
    left -= found.length;
    const last = found.at(-1);
    if (found.length < size || left === 0 || last === undefined) return;
    behind = { behind_id: last.id };
  }
}

/** So many jobs of a group are looked through: about a second, in a store of any size. */
export const MOST_MATCHED = 2_000_000;

interface Matching extends ListQuery {
  text: string;
}

async function* matching(store: Glance, query: Matching, search_time?: SearchTime): AsyncGenerator<Job[]> {
  const { key, since_ms, ids: _, sort: __, newest_first: ___, ...asked } = query;
  const wanted = (job: Job) =>
    (key === undefined || job.key === key) && (since_ms === undefined || lastMoment(job) >= since_ms);
  let behind: { behind_id?: number } = {};
  for (let looked_at = 0; looked_at < MOST_MATCHED; looked_at += SEARCHED_JOBS) {
    if (search_time?.lasts() === false) return;
    const found = await store.search({ ...asked, ...behind, in_command: true, among: SEARCHED_JOBS });
    yield found.jobs.filter(wanted);
    if (found.behind_id === null) return;
    behind = { behind_id: found.behind_id };
  }
}

function lastMoment({ state, started_at_ms, created_at_ms }: Job): number {
  return "finished_at_ms" in state ? state.finished_at_ms : (started_at_ms ?? created_at_ms);
}

/** How many there are in all; null where only looking at each would tell. */
export async function countListed(store: Glance, query: JobListQuery): Promise<number | null> {
  const { queues, task, states, ids, key, since_ms, match } = query;
  if (ids !== undefined || key !== undefined || since_ms !== undefined || match !== undefined) return null;
  const selection: Selection = { ...(queues === undefined ? {} : { queues }), ...(task === undefined ? {} : { task }) };
  const has = (state: ShownState) => states?.includes(state) ?? true;
  // Of those that run and are scheduled only all together are counted.
  if (has("running") !== has("cancelling") || has("scheduled") !== has("retrying")) return null;
  const counts = await store.counts(selection);
  return counts.filter(({ state }) => has(state)).reduce((sum, { count }) => sum + count, 0);
}
