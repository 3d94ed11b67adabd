/** Limits, what is in use of them, and in one short text why one of them, or a need, keeps a job from starting. */

import { formatDuration } from "../core/duration.ts";
import { limitsOf, type LimitUse, type Rate } from "../core/gate.ts";
import type { Job } from "../core/job.ts";
import { amountText, needText } from "../core/resources.ts";
import type { Screen } from "./style.ts";
import { renderList, type Column } from "./table.ts";
import { relative, rfc3339 } from "./time.ts";

function rateText({ count, per_ms }: Rate): string {
  return `${count}/${formatDuration(per_ms)}`;
}

function isFull({ most, running }: LimitUse): boolean {
  return most !== null && running >= most;
}

function isUsedUp({ rate, started }: LimitUse): boolean {
  return rate !== null && started >= rate.count;
}

/** Of the limits that the job counts for, what the first says that has no room; null: all have. */
export function limitReason(
  job: Pick<Job, "queue" | "limits">,
  uses: readonly LimitUse[],
  now_ms: number,
): string | null {
  const names = new Set(limitsOf(job.queue, job));
  const own = uses.filter(({ name }) => names.has(name));
  const full = own.find(isFull);
  if (full !== undefined) {
    if (full.most === 0) return `limit ${full.name} lets none start`;
    return `limit ${full.name} ${full.running} of ${full.most}, next when one ends`;
  }
  const used = own.find(isUsedUp);
  if (used === undefined || used.rate === null) return null;
  const next = used.next_start_at_ms === null ? "" : `, next ${relative(used.next_start_at_ms, now_ms)}`;
  return `limit ${used.name} ${used.started} of ${rateText(used.rate)}${next}`;
}

/** One need of a job, where it is closest to being met. */
export interface NeedFact {
  name: string;
  amount: number;
  free: number;
  /** Null: no worker that takes the job has any. */
  has: number | null;
}

/** Null: each of them is free somewhere, so that it is not for the want of it. */
export function needReason(needs: readonly NeedFact[], together: boolean): string | null {
  const missing = needs.find(({ has }) => has === null);
  if (missing !== undefined)
    return `needs ${needText(missing.name, missing.amount)}, and no worker has ${missing.name}`;
  const beyond = needs.find(({ amount, has }) => amount > (has ?? 0));
  if (beyond !== undefined) {
    return `needs ${needText(beyond.name, beyond.amount)}, and no worker has more than ${amountText(beyond.has ?? 0)}`;
  }
  const short = needs.find(({ amount, free }) => free < amount);
  if (short !== undefined) {
    const { name, amount, free, has } = short;
    return `needs ${needText(name, amount)}, ${amountText(Math.max(0, free))} of ${amountText(has ?? 0)} free on any worker`;
  }
  if (together || needs.length < 2) return null;
  return `needs ${needs.map(({ name, amount }) => needText(name, amount)).join(" and ")}, not free together on any worker`;
}

export function limitsText(uses: readonly LimitUse[], screen: Screen): string {
  const { paint, now_ms } = screen;
  const running = (use: LimitUse) => {
    const text = use.most === null ? String(use.running) : `${use.running} of ${use.most}`;
    return isFull(use) ? { text, style: paint.yellow } : text;
  };
  const starts = (use: LimitUse) => {
    if (use.rate === null) return null;
    const text = `${use.started} of ${rateText(use.rate)}`;
    return isUsedUp(use) ? { text, style: paint.yellow } : text;
  };
  const next = ({ next_start_at_ms }: LimitUse) =>
    next_start_at_ms === null ? null : relative(next_start_at_ms, now_ms);
  const columns: Column<LimitUse>[] = [
    { title: "LIMIT", cell: ({ name }) => name, shrink_to: 10 },
    { title: "RUNNING", cell: running, align: "right" },
    { title: "STARTED", cell: starts, align: "right", optional: true },
    { title: "NEXT START", short_title: "NEXT", cell: next, optional: true },
    { title: "WAITING", cell: ({ waiting }) => (waiting === 0 ? null : waiting), align: "right" },
  ];
  return renderList(columns, uses, screen, "no limits yet; set one with: lease limit NAME N");
}

export function limitJson({ name, most, rate, running, started, next_start_at_ms, waiting }: LimitUse) {
  return {
    name,
    limit: most,
    rate: rate === null ? null : rateText(rate),
    running,
    started,
    waiting,
    next_start_at: next_start_at_ms === null ? null : rfc3339(next_start_at_ms),
  };
}
