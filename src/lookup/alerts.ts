/** What somebody should be told of, by rules: for cron and monitors, which ask again and again, so that it must cost little. */

import { formatDuration } from "../core/duration.ts";
import { HOUR_MS, MINUTES_KEPT_MS, MINUTE_MS } from "../core/history.ts";
import type { AlertRules } from "../core/values.ts";
import type { Store } from "../store/store.ts";

export interface Alert {
  rule: "stale" | "oldest" | "failed";
  /** Null: of the whole store. */
  queue: string | null;
  text: string;
}

/** So many stale leases are looked at; more are as alarming. */
const MOST_STALE = 100;
const NAMED = 5;

export async function alerts(store: Store, rules: AlertRules): Promise<Alert[]> {
  const now_ms = await store.now();
  return [
    ...(rules.stale_ms === null ? [] : await stale(store, rules.stale_ms)),
    ...(rules.oldest_ms === null ? [] : await oldest(store, rules.oldest_ms, now_ms)),
    ...(rules.failed === null ? [] : await failed(store, rules.failed, now_ms)),
  ];
}

async function stale(store: Store, stale_ms: number): Promise<Alert[]> {
  const found = await store.expired({ grace_ms: stale_ms, dead_holders: [], after: null, limit: MOST_STALE });
  if (found.length === 0) return [];
  const many = found.length === MOST_STALE ? `${MOST_STALE} or more leases` : plural(found.length, "lease");
  const ids = found.slice(0, NAMED).map(({ job }) => job.id);
  const jobs = `job ${ids.join(", ")}${found.length > NAMED ? " …" : ""}`;
  const text = `${many} over for more than ${formatDuration(stale_ms)} and not recovered (${jobs}): does a worker or watchdog run?`;
  return [{ rule: "stale", queue: null, text }];
}

async function oldest(store: Store, oldest_ms: number, now_ms: number): Promise<Alert[]> {
  const [pending, paused] = await Promise.all([store.oldestPending(), store.pausedQueues()]);
  return pending
    .filter(({ since_ms }) => now_ms - since_ms > oldest_ms)
    .map(({ queue, since_ms }) => {
      const why = paused.includes(queue) ? " (it is paused)" : "";
      const text = `queue ${queue} has a job that has been pending for ${formatDuration(now_ms - since_ms)}${why}`;
      return { rule: "oldest", queue, text };
    });
}

/** By the minute for as long as those are kept, then by the hour. */
async function failed(store: Store, { count, within_ms }: NonNullable<AlertRules["failed"]>, now_ms: number) {
  const span_ms = within_ms < MINUTES_KEPT_MS ? MINUTE_MS : HOUR_MS;
  const points = await store.history({ since_ms: now_ms - within_ms, span_ms });
  const byQueue = new Map<string, number>();
  for (const point of points) byQueue.set(point.queue, (byQueue.get(point.queue) ?? 0) + point.failed);
  const all = [...byQueue.values()].reduce((sum, number) => sum + number, 0);
  if (all < count) return [];
  const worst = [...byQueue].filter(([, number]) => number > 0).toSorted(([, a], [, b]) => b - a);
  const queues = worst.slice(0, NAMED).map(([queue, number]) => `${queue} ${number}`);
  const text = `${plural(all, "job")} failed within ${formatDuration(within_ms)} (${queues.join(", ")})`;
  const alert: Alert = { rule: "failed", queue: null, text };
  return [alert];
}

const plural = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;
