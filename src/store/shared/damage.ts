/** What becomes of jobs that can't be read: they end as failed, with the reason, and are named by `lease doctor`. */

import { assert } from "../../core/errors.ts";
import type { Cause, Job } from "../../core/job.ts";
import { isRefusal, transition } from "../../core/transition.ts";
import type { SqlRow } from "../../platform/platform.ts";
import type { Finding } from "../queries.ts";
import type { SettleRequest } from "../store.ts";
import { DAMAGED, toJob } from "./rows.ts";

const SET_ASIDE: Cause = "not_executable";

/** The end of one that was granted before anybody could see that it is damaged. */
export function setAside(job: Job, now_ms: number): SettleRequest {
  const error = job.damaged ?? null;
  const nothing = { exit_code: null, signal: null, output: null, last_line: null, beats: 0 };
  const end = { cause: SET_ASIDE, error, ...nothing };
  const change = transition(job, { type: "settle", token: job.token, end }, { now_ms, random: () => 0 });
  assert(!isRefusal(change), "what was just granted can be settled");
  return { id: job.id, token: job.token, change, process: null, audit: null };
}

/**
 * So many of each kind are looked at, the first in the order of its index: whoever is further behind is found when its
 * turn comes, and a store of millions must not be read whole for a word about its health.
 */
export const LOOKED_AT = 10_000;
const NAMED = 5;

/** `rows` are those of unfinished jobs, and of the newest that failed. */
export function damageFinding(rows: readonly SqlRow[]): Finding {
  const damaged = rows.map(toJob).filter(isDamaged);
  const [first] = damaged;
  const name = "jobs";
  if (first === undefined) return { name, level: "ok", value: "can be read", advice: null };
  const ids = damaged.slice(0, NAMED).map(({ id }) => id);
  const some = `job ${ids.join(", ")}${damaged.length > ids.length ? " …" : ""}`;
  const value = `${damaged.length} can't be read (${some}; ${first.id}: ${first.result.error})`;
  const set_aside = damaged.every(({ state }) => state.name === "failed");
  const advice = "they never run, and fail when their turn comes: enqueue them anew, and `lease cancel` or prune these";
  return { name, level: set_aside ? "warn" : "error", value, advice };
}

/** Or was, in a column that its end has written anew. */
function isDamaged({ damaged, result: { cause, error } }: Job): boolean {
  return damaged !== undefined || (cause === SET_ASIDE && error !== null && error.startsWith(DAMAGED));
}
