/**
 * What Prometheus is told about a store: read when it asks, from what the store keeps, so that a scrape costs the same
 * on ten million jobs as on ten. Names and units are Prometheus' own: seconds, bytes, `_total` for what only rises.
 */

import { statSync } from "node:fs";
import { Counter, Gauge, type Metric, type Registry } from "prom-client";
import { CLASS_BOUNDS_MS, type QueueTotal } from "../../core/history.ts";
import type { RecoveryTotals } from "../../core/records.ts";
import { workersNow } from "../../lookup/workers.ts";
import type { Store } from "../../store/store.ts";
import { workerState } from "../../view/workers.ts";

/** What is known without the store. */
export interface MetricsAbout {
  version: string;
  /** What stopping a job reaches. */
  fence: string;
}

/** Adds what the store says at this moment. */
export async function addStoreMetrics(registry: Registry, store: Store, about: MetricsAbout): Promise<void> {
  const now_ms = await store.now();
  const [counts, oldest, totals, leases, recovery, paused, workers, limits, schedules] = await Promise.all([
    store.counts(),
    store.oldestPending(),
    store.totals(),
    store.leases(),
    store.recovery(),
    store.pausedQueues(),
    workersNow(store),
    store.limits(),
    store.schedules(),
  ]);
  const gauge = <L extends string>(name: string, help: string, labels: readonly L[] = []) =>
    new Gauge({ name: `lease_${name}`, help, labelNames: labels, registers: [registry] });
  const jobs = gauge("jobs", "Jobs by queue and state.", ["queue", "state"]);
  for (const { queue, state, count } of counts) jobs.set({ queue, state }, count);
  const age = gauge("oldest_pending_seconds", "How long the oldest pending job of a queue has waited.", ["queue"]);
  for (const { queue, since_ms } of oldest) age.set({ queue }, Math.max(0, now_ms - since_ms) / 1_000);
  const is_paused = gauge("queue_paused", "1 for a queue of which no jobs are taken.", ["queue"]);
  for (const queue of paused) is_paused.set({ queue }, 1);
  gauge("leases", "Leases that are held.").set(leases.held);
  gauge("stale_leases", "Leases that are over and not recovered yet.").set(leases.stale);
  const present = workers.filter((worker) => workerState(worker, now_ms) === "live");
  gauge("workers", "Workers that are there.").set(present.length);
  gauge("slots", "Jobs that the workers can run at a time.").set(present.reduce((sum, { slots }) => sum + slots, 0));
  gauge("info", "Which lease this is, and what stopping a job reaches.", ["version", "fence"]).set({ ...about }, 1);
  const used = gauge("limit_running", "Running jobs that count for a limit.", ["limit"]);
  const bound = gauge("limit_max", "How many of them may run.", ["limit"]);
  for (const { name: limit, running, most } of limits) {
    used.set({ limit }, running);
    if (most !== null) bound.set({ limit }, most);
  }
  const lag = gauge("schedule_lag_seconds", "How long a time of a schedule is overdue.", ["schedule"]);
  for (const { name: schedule, next_at_ms } of schedules.filter(({ paused: is_held }) => !is_held)) {
    lag.set({ schedule }, next_at_ms === null ? 0 : Math.max(0, now_ms - next_at_ms) / 1_000);
  }
  addTotals(registry, totals);
  addRecovery(registry, recovery);
  addFiles(registry, store.location);
}

function addTotals(registry: Registry, totals: readonly QueueTotal[]): void {
  const attempts = new Counter({
    name: "lease_attempts_total",
    help: "Attempts that ended, by cause.",
    labelNames: ["queue", "cause"],
    registers: [registry],
  });
  for (const { queue, label, count } of totals.filter(({ name }) => name === "end")) {
    attempts.inc({ queue, cause: label }, count);
  }
  addHistogram(registry, totals, "wait", {
    name: "lease_job_wait_seconds",
    help: "From when a job was due to its first start; counted when that attempt ended.",
  });
  addHistogram(registry, totals, "run", {
    name: "lease_attempt_duration_seconds",
    help: "From the start of an attempt to its end.",
  });
}

/** One that was counted by the store, in its size classes. */
function addHistogram(
  registry: Registry,
  totals: readonly QueueTotal[],
  kind: QueueTotal["name"],
  { name, help }: { name: string; help: string },
): void {
  const queues = Map.groupBy(
    totals.filter((total) => total.name === kind),
    ({ queue }) => queue,
  );
  const values = [...queues].flatMap(([queue, sizes]) => {
    const counted = new Map(sizes.map(({ label, count }) => [Number(label), count]));
    let below = 0;
    const buckets = [...CLASS_BOUNDS_MS, Infinity].map((bound_ms, size) => {
      below += counted.get(size) ?? 0;
      const le = bound_ms === Infinity ? "+Inf" : bound_ms / 1_000;
      return { metricName: `${name}_bucket`, labels: { queue, le }, value: below };
    });
    const sum_s = sizes.reduce((sum, { sum_ms }) => sum + sum_ms, 0) / 1_000;
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels: { queue }, value: sum_s },
      { metricName: `${name}_count`, labels: { queue }, value: below },
    ];
  });
  // The library observes values one by one; these have been observed already, by whoever settled.
  const metric = { name, get: async () => ({ name, help, type: "histogram", aggregator: "sum", values }) };
  registry.registerMetric(metric as unknown as Metric);
}

function addRecovery(registry: Registry, totals: RecoveryTotals | null): void {
  const ended = new Counter({
    name: "lease_recoveries_total",
    help: "Attempts that sweeps ended for want of their holder, by what became of the job.",
    labelNames: ["result"],
    registers: [registry],
  });
  for (const result of ["recovered", "failed", "cancelled"] as const) ended.inc({ result }, totals?.[result] ?? 0);
  const orphans = "Processes that were left of attempts and killed.";
  const killed = new Counter({ name: "lease_orphans_killed_total", help: orphans, registers: [registry] });
  killed.inc(totals?.orphans_killed ?? 0);
}

function addFiles(registry: Registry, location: string): void {
  if (location.includes("://")) return;
  const bytes = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers: [registry] });
  gauge("lease_store_bytes", "Size of the store's file.").set(bytes(location));
  gauge("lease_store_wal_bytes", "Size of the store's write-ahead log.").set(bytes(`${location}-wal`));
}
