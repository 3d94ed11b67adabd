/** What has happened, for a chart: all queues together, a point for each span of time, also where nothing did. */

import { HOUR_MS, MINUTE_MS, startOf, type HistoryPoint } from "../../core/history.ts";
import type { Glance } from "../../store/store.ts";
import { rfc3339 } from "../../view/time.ts";

interface Range {
  back_ms: number;
  span_ms: number;
}

export const RANGES = {
  hour: { back_ms: HOUR_MS, span_ms: MINUTE_MS },
  day: { back_ms: 24 * HOUR_MS, span_ms: 15 * MINUTE_MS },
  week: { back_ms: 7 * 24 * HOUR_MS, span_ms: 2 * HOUR_MS },
} as const satisfies Record<string, Range>;

export function isRange(name: string): name is keyof typeof RANGES {
  return Object.hasOwn(RANGES, name);
}

const COUNTS = ["completed", "failed", "cancelled", "retried", "recovered"] as const;

/** Null: there was none. */
const average = (sum_ms: number, count: number) => (count === 0 ? null : Math.round(sum_ms / count));

function pointJson(at_ms: number, points: readonly HistoryPoint[]) {
  const total = (name: Exclude<keyof HistoryPoint, "queue">) => points.reduce((sum, point) => sum + point[name], 0);
  const counts = Object.fromEntries(COUNTS.map((name) => [name, total(name)]));
  return {
    at: rfc3339(at_ms),
    ...counts,
    wait_ms: average(total("wait_ms"), total("first_ended")),
    run_ms: average(total("run_ms"), total("ended")),
  };
}

export async function pastOf(store: Glance, { back_ms, span_ms }: Range, now_ms: number) {
  const since_ms = startOf(now_ms, span_ms) - back_ms + span_ms;
  const points = Map.groupBy(await store.history({ since_ms, span_ms }), ({ at_ms }) => at_ms);
  const moments = Array.from({ length: back_ms / span_ms }, (_, n) => since_ms + n * span_ms);
  return moments.map((at_ms) => pointJson(at_ms, points.get(at_ms) ?? []));
}
