/** Enqueue of more jobs than fit in memory, inside one transaction. */

import { LeaseError } from "../../core/errors.ts";
import type { NewJob } from "../../core/job.ts";
import type { BulkEnqueued, Enqueued } from "../store.ts";
import { atIndex, checkAll, enqueue } from "./enqueue.ts";
import type { Connection } from "./session/link.ts";
import type { Statements } from "./session/sql.ts";

/** Batch after batch, inside one transaction; only ranges of ids are kept. */
export async function enqueueAll(
  statements: Statements,
  connection: Connection,
  batches: AsyncIterable<readonly NewJob[]>,
): Promise<BulkEnqueued> {
  const ranges: [number, number][] = [];
  let created = 0;
  let offset = 0;
  for await (const batch of batches) {
    for (const queued of await enqueueBatch(statements, connection, batch, offset)) {
      if (queued.created) created += 1;
      const last = ranges.at(-1);
      if (last?.[1] === queued.id - 1) last[1] = queued.id;
      else ranges.push([queued.id, queued.id]);
    }
    offset += batch.length;
  }
  return { ranges, created };
}

async function enqueueBatch(
  statements: Statements,
  connection: Connection,
  batch: readonly NewJob[],
  offset: number,
): Promise<Enqueued[]> {
  try {
    checkAll(batch);
    return await enqueue(statements, connection, batch);
  } catch (error) {
    throw atIndex(error, offset);
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
