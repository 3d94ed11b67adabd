/**
 * How long a job waits when a worker has nothing else to do: from right before the enqueue to the child's own clock.
 * Through the store, so that only the commit, the wake-up and the start of the child count, and through the command,
 * where the start of `lease enqueue` comes on top. And what a worker costs while it waits.
 */

import { decodeChunk } from "../../src/runner/log/chunk.ts";
import {
  cpuOf,
  job,
  leaseBinary,
  memoryOf,
  newStorePath,
  openStore,
  plainFigure,
  quantile,
  startLease,
  times,
  until,
  workspace,
} from "./harness.ts";

const SAMPLES = 300;
const CLI_SAMPLES = 100;
const IDLE_MS = 10_000;
const DATE = ["date", "+%s%N"];

const path = newStorePath();
const store = await openStore(path);
const worker = startLease(["worker"], path);
await until(async () => ((await store.workers()).length > 0 ? true : null));
await Bun.sleep(1_000);

const wall_ms = () => performance.timeOrigin + performance.now();

/** The child's time as it printed it. */
async function childTime(id: number): Promise<number> {
  await until(async () => ((await store.jobs([id]))[0]?.state.name === "completed" ? true : null));
  const chunks = await store.logs({ job: id, attempt: 1, from: 0, limit: 10 });
  const text = chunks.flatMap(decodeChunk).map(({ bytes }) => new TextDecoder().decode(bytes));
  return Number(text.join("")) / 1e6;
}

async function throughStore(): Promise<number> {
  const asked_ms = wall_ms();
  const [queued] = await store.enqueue([job(DATE)]);
  return (await childTime(queued?.id ?? 0)) - asked_ms;
}

async function throughCommand(): Promise<number> {
  const asked_ms = wall_ms();
  const child = Bun.spawn([leaseBinary(), "enqueue", "--store", path, "--", ...DATE], {
    cwd: workspace,
    stdin: "ignore",
  });
  const id = Number(await child.stdout.text());
  return (await childTime(id)) - asked_ms;
}

/** At moments that have nothing to do with the worker's own timers. */
async function sample(count: number, take: () => Promise<number>): Promise<number[]> {
  const samples: number[] = [];
  for (const _ of times(count, () => null)) {
    await Bun.sleep(10 + Math.random() * 40);
    samples.push(await take());
  }
  return samples;
}

const cpu_before_ms = cpuOf(worker.pid);
await Bun.sleep(IDLE_MS);
const idle_share = (cpuOf(worker.pid) - cpu_before_ms) / IDLE_MS;
const idle_mb = memoryOf(worker.pid, "VmRSS") / 1024;

const by_store = await sample(SAMPLES, throughStore);
const by_command = await sample(CLI_SAMPLES, throughCommand);
plainFigure("pickup p50", quantile(by_store, 0.5), "ms", { at_most: 10 });
plainFigure("pickup p99", quantile(by_store, 0.99), "ms", { at_most: 50 });
plainFigure("pickup by lease enqueue p50", quantile(by_command, 0.5), "ms", {});
plainFigure("pickup by lease enqueue p99", quantile(by_command, 0.99), "ms", {});
plainFigure("idle worker: processor", idle_share * 100, "%", { at_most: 1 });
plainFigure("idle worker: memory", idle_mb, "MB", { at_most: 70 });
worker.kill();
await worker.exited;
await store.close();
