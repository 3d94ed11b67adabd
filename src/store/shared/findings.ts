/** Findings about a store's health that both engines make, and jobs that can't be read among them. */

import type { Job } from "../../core/job.ts";
import type { SqlRow } from "../../platform/platform.ts";
import type { Finding } from "../queries.ts";
import { DAMAGED, toJob } from "./rows.ts";
import { SET_ASIDE } from "./verdicts.ts";

/** Without advice all is well. */
export function finding(
  name: string,
  value: string,
  advice: string | null = null,
  level: "warn" | "error" = "warn",
): Finding {
  return { name, level: advice === null ? "ok" : level, value, advice };
}

const LEVELS = { error: 0, warn: 1, ok: 2 } as const;

export function worstFirst(findings: readonly Finding[]): Finding[] {
  return findings.toSorted((a, b) => LEVELS[a.level] - LEVELS[b.level]);
}

/** `wrong`: how many counts are not those of the jobs. */
export function talliesFinding(wrong: number): Finding {
  if (wrong === 0) return finding("counts", "equal to the jobs");
  const advice = "somebody changed the tables by hand; `lease copy --to NEW` makes a store with right counts";
  return finding("counts", `${wrong} differ from the jobs`, advice);
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
  if (first === undefined) return finding("jobs", "can be read");
  const ids = damaged.slice(0, NAMED).map(({ id }) => id);
  const some = `job ${ids.join(", ")}${damaged.length > ids.length ? " …" : ""}`;
  const value = `${damaged.length} can't be read (${some}; ${first.id}: ${first.result.error})`;
  const set_aside = damaged.every(({ state }) => state.name === "failed");
  const advice = "they never run, and fail when their turn comes: enqueue them anew, and `lease cancel` or prune these";
  return finding("jobs", value, advice, set_aside ? "warn" : "error");
}

/** Or was, in a column that its end has written anew. */
function isDamaged({ damaged, result: { cause, error } }: Job): boolean {
  return damaged !== undefined || (cause === SET_ASIDE && error !== null && error.startsWith(DAMAGED));
}
