/** What Prometheus is told about one worker: it follows the events that the worker reports, and times what it writes. */

import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { CLASS_BOUNDS_MS } from "../../core/history.ts";
import type { EventFields, Report } from "../../core/report.ts";
import type { SlotStates } from "../../core/scaling.ts";
import type { Store } from "../../store/store.ts";

const SECONDS = CLASS_BOUNDS_MS.map((bound_ms) => bound_ms / 1_000);
/** Between a commit in memory and a store that is stuck. */
const WRITE_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];

const TIMED: ReadonlySet<string> = new Set<keyof Store>([
  "acquire",
  "extend",
  "settle",
  "appendLogs",
  "noteProcess",
  "checkpoint",
  "recover",
  "saveWorker",
]);

export class WorkerMetrics {
  readonly #registry: Registry;
  readonly #attempts;
  readonly #waits;
  readonly #runs;
  readonly #gaps;
  readonly #extensions;
  readonly #sweeps;
  readonly #sweep_seconds;
  readonly #recovered;
  readonly #writes;

  constructor(registry: Registry) {
    this.#registry = registry;
    const common = (name: string, help: string) => ({ name: `lease_worker_${name}`, help, registers: [registry] });
    const byQueue = { labelNames: ["queue"] as const, buckets: SECONDS };
    this.#attempts = new Counter({
      ...common("attempts_total", "Attempts of this worker that ended, by cause."),
      labelNames: ["queue", "cause"],
    });
    this.#waits = new Histogram({ ...common("job_wait_seconds", "From due to the first start here."), ...byQueue });
    this.#runs = new Histogram({
      ...common("attempt_duration_seconds", "From start to end of an attempt."),
      ...byQueue,
    });
    this.#gaps = new Histogram({ ...common("beat_gap_seconds", "Between two beats of a job."), ...byQueue });
    this.#extensions = new Counter({
      ...common("extensions_total", "Extensions of leases that were tried, by how they went."),
      labelNames: ["result"],
    });
    for (const result of ["extended", "failed", "refused"]) this.#extensions.inc({ result }, 0);
    this.#sweeps = new Counter(common("sweeps_total", "Sweeps of this worker."));
    this.#sweep_seconds = new Histogram({
      ...common("sweep_duration_seconds", "How long sweeps took."),
      buckets: SECONDS,
    });
    this.#recovered = new Counter(common("recovered_total", "Attempts of others that sweeps of this worker ended."));
    this.#writes = new Histogram({
      ...common("store_write_seconds", "How long the store took, by what was asked of it."),
      labelNames: ["verb"],
      buckets: WRITE_SECONDS,
    });
  }

  /** What is asked for when Prometheus comes. */
  watch(store: Store, slots: () => SlotStates): void {
    const registers = [this.#registry];
    const help = "Writes that were tried again because another process held the lock or was faster.";
    const retries = new Counter({
      name: "lease_worker_store_retries_total",
      help,
      registers,
      collect() {
        this.reset();
        this.inc(store.writeRetries());
      },
    });
    retries.inc(0);
    const states = new Gauge({
      name: "lease_worker_slots",
      help: "Slots of this worker, by what they do.",
      labelNames: ["state"],
      registers,
      collect() {
        const { idle, processing, draining } = slots();
        for (const [state, count] of Object.entries({ idle, processing, draining })) this.set({ state }, count);
      },
    });
    states.set({ state: "idle" }, 0);
  }

  /** The same report, with the events counted on their way. */
  follow(report: Report): Report {
    return (level, message, about) => {
      if (about?.event !== undefined) this.#take(about);
      report(level, message, about);
    };
  }

  /** The same store, with what takes time in it measured. */
  timed(store: Store): Store {
    const writes = this.#writes;
    return new Proxy(store, {
      get(target, verb) {
        const value: unknown = Reflect.get(target, verb, target);
        if (typeof value !== "function" || typeof verb !== "string" || !TIMED.has(verb)) return value;
        return async (...args: unknown[]) => {
          const done = writes.startTimer({ verb });
          try {
            return await (value.apply(target, args) as Promise<unknown>);
          } finally {
            done();
          }
        };
      },
    });
  }

  #take(about: EventFields): void {
    const { event, queue = "" } = about;
    const seconds = (name: string) => Number(about[name] ?? 0) / 1_000;
    if (event === "acquired" && about["wait_ms"] !== null) this.#waits.observe({ queue }, seconds("wait_ms"));
    else if (event === "beat") this.#gaps.observe({ queue }, seconds("gap_ms"));
    else if (event === "extended") this.#extensions.inc({ result: "extended" });
    else if (event === "extension_failed") this.#extensions.inc({ result: "failed" });
    else if (event === "lost") this.#extensions.inc({ result: "refused" });
    else if (event === "recovered") this.#recovered.inc();
    else if (event === "swept") {
      this.#sweeps.inc();
      this.#sweep_seconds.observe(seconds("scan_duration_ms"));
    } else if (event === "ended") {
      this.#attempts.inc({ queue, cause: String(about["cause"]) });
      this.#runs.observe({ queue }, seconds("run_ms"));
    }
  }
}
