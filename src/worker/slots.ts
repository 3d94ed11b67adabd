/**
 * The slots of a worker: a fixed number, or as many as the backlog asks for between two bounds.
 */

import type { Clock } from "../core/clock.ts";
import type { Scaling } from "../core/scaling.ts";
import { nextSlots } from "../core/scaling.ts";

/** What one slot does and has done. */
export interface SlotRecord {
  slot: number;
  /** While no more jobs are taken, those that run one drain, and the others have stopped. */
  state: "idle" | "processing" | "draining" | "stopped";
  /** The job that it runs; null: none. */
  job: number | null;
  completed: number;
  failed: number;
}

export type SlotWork = Omit<SlotRecord, "state">;

export class Slots {
  readonly #records: SlotWork[] = [];
  /** Of these, those that run nothing. */
  readonly #free: SlotWork[] = [];
  readonly #clock: Clock;
  readonly #scaling: Scaling | null;
  readonly #pending: () => Promise<number>;
  #total: number;
  #idle_since_ms: number | null;
  #looking = false;

  /** `pending` counts the jobs that wait for this worker; asked only when that can change anything. */
  constructor(options: { clock: Clock; slots: number; scaling: Scaling | null; pending: () => Promise<number> }) {
    this.#clock = options.clock;
    this.#scaling = options.scaling;
    this.#pending = options.pending;
    this.#total = options.scaling?.min ?? options.slots;
    this.#idle_since_ms = options.clock.mono_ms();
  }

  /** Their number follows the work. */
  get scales(): boolean {
    return this.#scaling !== null;
  }

  get total(): number {
    return this.#total;
  }

  /** Gives a job to a slot that is free. */
  take(job: number): SlotWork {
    let record = this.#free.pop();
    if (record === undefined) {
      record = { slot: this.#records.length, job: null, completed: 0, failed: 0 };
      this.#records.push(record);
    }
    record.job = job;
    return record;
  }

  giveBack(record: SlotWork): void {
    record.job = null;
    this.#free.push(record);
  }

  /** Every slot that there is or that has worked. */
  records(accepting: boolean): SlotRecord[] {
    const unused = { job: null, completed: 0, failed: 0 };
    const count = Math.max(this.#total, this.#records.length);
    const [free, busy] = accepting ? (["idle", "processing"] as const) : (["stopped", "draining"] as const);
    return Array.from({ length: count }, (_, slot) => {
      const record = this.#records[slot] ?? { slot, ...unused };
      return { ...record, state: record.job === null ? free : busy };
    });
  }

  /** To be told whenever a slot was taken or became free. */
  busy(running: number): void {
    if (running >= this.#total) this.#idle_since_ms = null;
    else this.#idle_since_ms ??= this.#clock.mono_ms();
  }

  /** Adds or removes a slot if it is time to, and answers by how many there are more now. */
  async adjust(running: number): Promise<number> {
    if (this.#scaling === null || this.#looking) return 0;
    this.#looking = true;
    try {
      const idle_ms = this.#idle_since_ms === null ? 0 : this.#clock.mono_ms() - this.#idle_since_ms;
      // While a slot is idle nothing can be waiting that it would not take.
      const pending = this.#idle_since_ms === null ? await this.#pending() : 0;
      const before = this.#total;
      this.#total = nextSlots(this.#scaling, { slots: before, pending, idle_ms });
      if (this.#total < before) this.#idle_since_ms = this.#clock.mono_ms();
      this.busy(running);
      return this.#total - before;
    } finally {
      this.#looking = false;
    }
  }
}
