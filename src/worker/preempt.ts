/** Makes room for urgent work: the least urgent running job goes back to the queue. */

import { aboutJob, type Report } from "../core/report.ts";
import type { Store } from "../store/store.ts";
import type { Attempt } from "./attempt.ts";
import type { Served } from "./until_empty.ts";

/** A job gives way only to one that is more urgent by this: less is not worth the work that is lost. */
const PRIORITY_GAP = 100;

export async function preempt(
  options: Served & { store: Store; report: Report },
  running: ReadonlySet<Attempt>,
  grace_ms: number,
): Promise<void> {
  // One at a time: while a slot is being freed, the urgent job has its turn.
  if ([...running].some(({ stopping }) => stopping)) return;
  const next = await nextToAcquire(options);
  if (next === null) return;
  let lowest: Attempt | null = null;
  for (const attempt of running) {
    // One of a queue that is preferred would be acquired again before the urgent one.
    if (rankOf(options, attempt.lease.job.queue) < next.rank) continue;
    if (lowest === null || attempt.lease.job.priority < lowest.lease.job.priority) lowest = attempt;
  }
  if (lowest === null || lowest.stopping || next.priority - lowest.lease.job.priority < PRIORITY_GAP) return;
  options.report("info", `job ${lowest.lease.job.id}: gives way to more urgent work`, aboutJob(lowest.lease.job));
  lowest.giveBack(grace_ms);
}

/** How far down its queue is in the order of preference, and how urgent it is. */
async function nextToAcquire({ store, queues, task, commands_only = false }: Served & { store: Store }) {
  for (const [rank, queue] of (queues ?? [null]).entries()) {
    const priority = await store.topPriority({ queues: queue === null ? null : [queue], task, commands_only });
    if (priority !== null) return { rank, priority };
  }
  return null;
}

function rankOf({ queues }: Served, queue: string): number {
  return queues?.indexOf(queue) ?? 0;
}
