/** Enqueue of more jobs than fit in memory, batch after batch inside one transaction; only ranges of ids are kept. */

import { LeaseError } from "../../core/errors.ts";
import type { NewJob } from "../../core/job.ts";
import type { BulkEnqueued, Enqueued } from "../store.ts";
import { checkAll, enqueue, withIndex } from "./enqueue.ts";
import type { Connection } from "./session/session.ts";

export async function enqueueAll(db: Connection, batches: AsyncIterable<readonly NewJob[]>): Promise<BulkEnqueued> {
  const ranges: [number, number][] = [];
  let created = 0;
  let offset = 0;
  for await (const batch of batches) {
    for (const queued of await enqueueBatch(db, batch, offset)) {
      if (queued.created) created += 1;
      const last = ranges.at(-1);
      if (last?.[1] === queued.id - 1) last[1] = queued.id;
      else ranges.push([queued.id, queued.id]);
    }
    offset += batch.length;
  }
  return { ranges, created };
}

async function enqueueBatch(db: Connection, batch: readonly NewJob[], offset: number): Promise<Enqueued[]> {
  try {
    checkAll(batch);
    return await enqueue(db, batch);
  } catch (error) {
    throw withIndex(error, offset);
  }
}

/** What has been read from a stream can't be read again: a transaction that has to begin anew fails instead. */
export function onlyOnce<T>(batches: AsyncIterable<T>): AsyncIterable<T> {
  let begun = false;
  return {
    [Symbol.asyncIterator]() {
      if (begun) throw new LeaseError("store_failed", "the store was in trouble before all jobs were in: try again");
      begun = true;
      return batches[Symbol.asyncIterator]();
    },
  };
}
