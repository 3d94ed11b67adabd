/**
 * What claims cost while 100,000 jobs wait behind a full limit, in the same queue as the jobs that are claimed, beside
 * the same claims in a store without them: one at a time and a hundred at a time, in both engines.
 */

import { isRefusal, transition } from "../../src/core/transition.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import type { Store } from "../../src/store/store.ts";
import { newSchema } from "../../test/support/postgres.ts";
import { job, newStorePath, openStore, ratioFigure, SUCCESS, takeTurns, times } from "./harness.ts";

const BEHIND = 100_000;
const TURNS = 9;
const LEASE_MS = 300_000;
const request = { holder: "bench", host: "bench", queues: ["default"], task: null, lease_ms: LEASE_MS };

async function filled(store: Store, behind: number, claimed: number): Promise<Store> {
  const limits = ["full"];
  const limited = { ...job(["/bin/true"]), limits };
  if (behind > 0) {
    await store.setLimit("full", { most: 1, rate: null });
    await store.enqueue([limited]);
    if ((await store.acquire({ ...request, count: 1 })).length !== 1) throw new Error("the limit is not full");
    for (let from = 0; from < behind; from += 10_000) await store.enqueue(times(10_000, () => limited));
  }
  await store.enqueue(times(claimed, () => job(["/bin/true"])));
  // What filling it left to be done is not what is measured.
  await store.tidy();
  return store;
}

/** Claims and settles; answers how many jobs per second. */
async function claim(store: Store, batches: number, count: number): Promise<number> {
  const started_ms = performance.now();
  for (let batch = 0; batch < batches; batch++) {
    const grants = await store.acquire({ ...request, count });
    if (grants.length !== count) throw new Error("the store ran dry");
    const requests = grants.map(({ job: granted }) => {
      const event = { type: "settle", token: granted.token, end: SUCCESS } as const;
      const change = transition(granted, event, { now_ms: Date.now(), random: Math.random });
      if (isRefusal(change)) throw new Error(change.refused);
      return { id: granted.id, token: granted.token, change, process: null, audit: null };
    });
    await store.settle(requests);
  }
  return (batches * count * 1_000) / (performance.now() - started_ms);
}

async function measure(name: string, open: () => Promise<Store>): Promise<void> {
  for (const [count, batches] of [
    [1, 300],
    [100, 20],
  ] as const) {
    const jobs = count * batches * (TURNS + 1);
    const [behind, plain] = [await filled(await open(), BEHIND, jobs), await filled(await open(), 0, jobs)];
    await claim(behind, batches, count);
    await claim(plain, batches, count);
    const turns = await takeTurns(
      TURNS,
      () => claim(behind, batches, count),
      () => claim(plain, batches, count),
    );
    ratioFigure(`${name} claims of ${count} behind a full limit`, "jobs/s", turns, { at_least: 1 / 1.3 });
    await behind.close();
    await plain.close();
  }
}

await measure("sqlite", () => openStore(newStorePath()));
const schemas: { drop: () => Promise<void> }[] = [];
await measure("postgres", async () => {
  const schema = await newSchema();
  schemas.push(schema);
  return openPostgres(schema.url, { clock: systemClock, random: systemRandom });
});
for (const schema of schemas) await schema.drop();
process.exit();
