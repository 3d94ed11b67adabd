/**
 * Settles on their way to the store: a worker waits for them before it ends. One that could not be written leaves its
 * job running; as long as that is so, the worker has not ended well.
 */

import { LeaseError, errorText } from "../core/errors.ts";
import { aboutJob, hears, type Report } from "../core/report.ts";
import type { Lease } from "../leasing/lease.ts";
import type { Release } from "../leasing/manager.ts";
import type { Store } from "../store/store.ts";
import { aboutEnd, settledText } from "./messages.ts";
import type { SlotWork } from "./slots.ts";

export class InFlightSettles {
  readonly totals = { completed: 0, failed: 0, other: 0 };
  readonly #report: Report;
  #size = 0;
  /** Job → why its settle could not be written. */
  readonly #unwritten = new Map<number, unknown>();

  constructor(report: Report) {
    this.#report = report;
  }

  get size(): number {
    return this.#size;
  }

  /** Answers when it has arrived; null: it could not be written. `slot` counts it too. */
  async add(lease: Lease, settle: Promise<Release>, slot: SlotWork | null = null): Promise<Release | null> {
    this.#size += 1;
    try {
      const release = await settle;
      this.#count(release, slot);
      this.#tell(lease, release);
      return release;
    } catch (error) {
      this.#unwritten.set(lease.job.id, error);
      this.#report(
        "error",
        `job ${lease.job.id}: its end could not be written: ${errorText(error)}`,
        aboutJob(lease.job),
      );
      return null;
    } finally {
      this.#size -= 1;
    }
  }

  #tell(lease: Lease, release: Release): void {
    // That all is well is no news to most, and most often all is.
    const well = release.status === "applied" && release.change.state.name === "completed";
    const said = well && !hears(this.#report, "debug") ? null : settledText(lease, release);
    if (said !== null) this.#report(...said, aboutEnd(lease, release));
  }

  #count(release: Release, slot: SlotWork | null): void {
    const state = release.status === "applied" ? release.change.state.name : "stale";
    const counted = state === "completed" || state === "failed" ? state : "other";
    this.totals[counted] += 1;
    if (slot !== null && counted !== "other") slot[counted] += 1;
  }

  /** Why `holder` still has a job that it should not; null: there is none, or somebody has put it right since. */
  async whyStillHeld(store: Store, holder: string): Promise<unknown> {
    const [first] = this.#unwritten.values();
    if (first === undefined) return null;
    try {
      const jobs = await store.jobs([...this.#unwritten.keys()]);
      const held = jobs.filter((job) => job?.state.name === "running" && job.state.holder === holder);
      if (held.length === 0) return null;
      const ids = held.map((job) => job?.id).join(", ");
      return new LeaseError("store_failed", `the end of job ${ids} could not be written: ${errorText(first)}`);
    } catch {
      return first;
    }
  }
}
