/** What a checker is told of a write, and how it objects: by the number of an invariant in DESIGN §5, or one of plans.ts. */

import type { Job } from "../../src/core/job.ts";
import type { Store } from "../../src/store/store.ts";

export type Jobs = ReadonlyMap<number, Job>;

export interface Write {
  verb: keyof Store;
  args: readonly unknown[];
  answer: unknown;
  /** There is no answer, and it may have done a part of it. */
  failed: boolean;
  before: Jobs;
  after: Jobs;
  /** The store's clock when the write was asked for: it is committed then or later. */
  asked_at_ms: number;
  /** When it was answered: it was committed by then. */
  done_at_ms: number;
}

export class Objection extends Error {}

export function object(invariant: number, message: string): never {
  throw new Objection(`(${invariant}) ${message}`);
}
