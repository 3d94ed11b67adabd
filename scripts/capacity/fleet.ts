/**
 * Some workers of a fleet, in a process of its own: many in one process would wait for its one thread, and not for the
 * server. Each has a store of its own, with its own connections and commits, and slots whose jobs only take time. Says
 * "ready", begins with the first line it is told, prints what it did as JSON, and keeps its connections until the next.
 */

import process from "node:process";
import { isRefusal, transition } from "../../src/core/transition.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import type { Grant, Store } from "../../src/store/store.ts";
import { SUCCESS, times } from "../bench/harness.ts";

export interface Fleet {
  workers: number;
  slots: number;
  job_ms: number;
  seconds: number;
}

export interface FleetWork {
  done: number;
  /** Of this process's processor time. */
  cpu_ms: number;
}

async function main({ url, workers, slots, job_ms, seconds }: Fleet & { url: string }): Promise<void> {
  const told = console[Symbol.asyncIterator]();
  const open = () => openPostgres(url, { clock: systemClock, random: systemRandom });
  const stores = await Promise.all(times(workers, open));
  console.log("ready");
  await told.next();
  const before = process.cpuUsage();
  const until_ms = performance.now() + seconds * 1_000;
  let done = 0;
  const slot = async (store: Store, holder: string) => {
    const request = { holder, host: "capacity", count: 1, queues: ["default"], task: null, lease_ms: 300_000 };
    // Not all in one step, as they would never be.
    await Bun.sleep(Math.random() * job_ms);
    while (performance.now() < until_ms) {
      const [grant] = await store.acquire(request);
      if (grant === undefined) return;
      await Bun.sleep(job_ms);
      await settle(store, grant);
      done += 1;
    }
  };
  await Promise.all(stores.flatMap((store, n) => times(slots, () => slot(store, `worker ${process.pid}.${n}`))));
  const { user, system } = process.cpuUsage(before);
  console.log(JSON.stringify({ done, cpu_ms: (user + system) / 1_000 } satisfies FleetWork));
  await told.next();
  await Promise.all(stores.map((store) => store.close()));
}

async function settle(store: Store, { job: granted }: Grant): Promise<void> {
  const { id, token } = granted;
  const change = transition(
    granted,
    { type: "settle", token, end: SUCCESS },
    { now_ms: await store.now(), random: Math.random },
  );
  if (isRefusal(change)) throw new Error(change.refused);
  await store.settle([{ id, token, change, process: null, audit: null }]);
}

if (import.meta.main) {
  const input = JSON.parse(process.argv[2] ?? "") as Parameters<typeof main>[0];
  await main(input);
  process.exit();
}
