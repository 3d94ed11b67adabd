/**
 * Ends of attempts on their way to the store: a worker waits for them before it ends. One that could not be written
 * leaves its job running; as long as that is so, the worker has not ended well.
 */

import { LeaseError, errorText } from "../core/errors.ts";
import type { Lease } from "../leasing/lease.ts";
import type { Release } from "../leasing/manager.ts";
import type { Store } from "../store/store.ts";
import type { Report } from "../core/report.ts";
import { settledText } from "./settled_text.ts";

export interface InFlightSettlesOptions {
  store: Store;
  holder: string;
  report: Report;
  onSettled?: (lease: Lease, release: Release) => void;
  /** One less is on its way. */
  onDone: () => void;
}

export class InFlightSettles {
  readonly totals = { completed: 0, failed: 0, other: 0 };
  readonly #options: InFlightSettlesOptions;
  readonly #under_way = new Set<Promise<unknown>>();
  /** Job → why its end could not be written. */
  readonly #unwritten = new Map<number, unknown>();

  constructor(options: InFlightSettlesOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#under_way.size;
  }

  keep(release: Promise<Release>, lease: Lease): void {
    const { report, onDone } = this.#options;
    const settled = release.then(
      (answer) => this.#settled(lease, answer),
      (error) => {
        this.#unwritten.set(lease.job.id, error);
        report("error", `job ${lease.job.id}: its end could not be written: ${errorText(error)}`);
      },
    );
    this.#under_way.add(settled);
    void settled.then(() => this.#under_way.delete(settled)).then(onDone);
  }

  #settled(lease: Lease, release: Release): void {
    const state = release.status === "applied" ? release.change.state.name : "stale";
    if (state === "completed" || state === "failed") this.totals[state] += 1;
    else this.totals.other += 1;
    const said = settledText(lease, release);
    if (said !== null) this.#options.report(...said);
    this.#options.onSettled?.(lease, release);
  }

  /** Why a job is still ours that should not be; null: there is none, or somebody has put it right since. */
  async left(): Promise<unknown> {
    const [first] = this.#unwritten.values();
    if (first === undefined) return null;
    const { store, holder } = this.#options;
    try {
      const jobs = await store.jobs([...this.#unwritten.keys()]);
      const ours = jobs.filter((job) => job?.state.name === "running" && job.state.holder === holder);
      if (ours.length === 0) return null;
      const ids = ours.map((job) => job?.id).join(", ");
      return new LeaseError("store_failed", `the end of job ${ids} could not be written: ${errorText(first)}`);
    } catch {
      return first;
    }
  }
}
