/**
 * A worker process whose server will be restarted, of each kind: `restarted.ts KIND URL COUNT` queues so many jobs of a few
 * milliseconds, works them off as its documentation shows it, and prints how many are done whenever that has changed.
 */

import process from "node:process";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import PgBoss from "pg-boss";
import { open } from "../../../src/index.ts";
import { times } from "../harness.ts";

const [kind = "", url = "", wanted = "0"] = process.argv.slice(2);
const count = Number(wanted);
const CONCURRENT = 4;
const JOB_MS = 2;
const NAME = `restart-${process.pid}`;

const done = new Set<unknown>();
const work = async (id: unknown) => {
  await Bun.sleep(JOB_MS);
  done.add(id);
  if (done.size % 25 === 0 || done.size >= count) console.log(done.size);
};

if (kind === "lease") {
  const queue = await open(`${url}?schema=bench`);
  await queue.enqueue(times(count, (input) => ({ queue: NAME, input })));
  queue.worker({ queue: NAME, slots: CONCURRENT }, ({ input }) => work(input));
} else if (kind === "graphile") {
  const logger = new Logger(() => () => {});
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  await utils.addJobs(times(count, (n) => ({ identifier: NAME, payload: { n } })));
  const taskList = { [NAME]: (payload: unknown) => work((payload as { n: number }).n) };
  await run({ connectionString: url, logger, noHandleSignals: true, concurrency: CONCURRENT, taskList });
} else {
  const boss = new PgBoss(url);
  boss.on("error", () => {});
  await boss.start();
  await boss.createQueue(NAME);
  await boss.insert(times(count, (n) => ({ name: NAME, data: { n } })));
  const options = { batchSize: CONCURRENT, pollingIntervalSeconds: 0.5 };
  await boss.work(NAME, options, async (jobs: { data: unknown }[]) => {
    await Promise.all(jobs.map(({ data }) => work((data as { n: number }).n)));
  });
}
