/** A store of any size as it looks after a while: half of the jobs wait, half have ended, some of them badly. */

import { Database } from "bun:sqlite";
import type { NewJob } from "../../src/core/job.ts";
import { job, openStore, times } from "./harness.ts";

const BATCH = 1_000;
const QUEUES = ["default", "mail", "build"];

async function* batches(count: number): AsyncGenerator<NewJob[]> {
  for (let from = 0; from < count; from += BATCH) {
    yield times(Math.min(BATCH, count - from), (index) => ({
      ...job(["/bin/echo", `hello ${from + index}`]),
      queue: QUEUES[(from + index) % QUEUES.length] ?? "",
    }));
  }
}

export async function fillStore(path: string, count: number): Promise<void> {
  const store = await openStore(path);
  await store.enqueueAll(batches(count));
  await store.close();
  const database = new Database(path);
  database.run("PRAGMA synchronous = OFF");
  database.run(`UPDATE jobs SET state = iif(id % 100 = 0, 'failed', 'completed'), token = 1 + (id % 14 = 0),
    started_at_ms = created_at_ms, finished_at_ms = created_at_ms + id % 5000,
    cause = iif(id % 100 = 0, 'exit', 'success'), exit_code = id % 100 = 0 WHERE id % 2 = 0`);
  database.run("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
}
