/**
 * `@lease/queue/testing`: for tests of what uses the queue, without sleeps. A clock that the test moves, and `drain`, which
 * runs everything that is due now.
 *
 * @module
 */

import { groundOf, type Queue } from "./library/queue.ts";
import { QueueWorker, type Handler, type WorkerOptions } from "./library/worker.ts";

export { FakeClock } from "./library/fake_clock.ts";

/** How the attempts ended that were run. */
export interface DrainResult {
  completed: number;
  failed: number;
  /** To be tried again, or cancelled. */
  other: number;
}

/**
 * Runs all jobs that are due now, and resolves when none is left. A retry that has to wait for its time stays where it is:
 * move the clock, and drain again.
 *
 * @example
 * ```ts
 * const clock = new FakeClock();
 * await using queue = await open(":memory:", { clock });
 * await queue.enqueue({ input: { to: "a@b.example" } });
 * const { completed } = await drain(queue, async (job) => job.input.to);
 * console.log(completed); // 1
 * ```
 */
export async function drain(queue: Queue, handler: Handler, options: WorkerOptions = {}): Promise<DrainResult> {
  const ground = { ...groundOf(queue), due_only: true };
  const chosen = { queue: "*", ...options, until_empty: true, sweep: false };
  const worker = new QueueWorker(chosen, handler, ground);
  const stopWatching = queue.watch(() => worker.wake());
  await worker.finished.finally(stopWatching);
  const { completed, failed, other } = worker.statistics();
  return { completed, failed, other };
}
