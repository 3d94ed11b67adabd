/** The library as somebody else's program uses it: everything comes from its one entry. */

import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  calibrate,
  DEFAULT_SETTINGS,
  Heartbeat,
  LeaseExtender,
  LeaseManager,
  openStore,
  RecoverySweep,
  systemClock as clock,
  systemRandom as random,
  WorkerPool,
  type AttemptEnd,
  type NewJob,
} from "../src/index.ts";

const folder = mkdtempSync(join(tmpdir(), "lease-library-"));
afterAll(() => rmSync(folder, { recursive: true }));

const JOB: NewJob = {
  argv: [],
  queue: "numbers",
  task: null,
  key: null,
  if_exists: "skip",
  priority: 0,
  input: null,
  cwd: folder,
  env: {},
  settings: DEFAULT_SETTINGS,
  run_at_ms: null,
  delay_ms: 0,
  after: [],
  after_any: [],
  after_failed: [],
  after_task: [],
};
const DONE: AttemptEnd = {
  cause: "success",
  exit_code: 0,
  signal: null,
  error: null,
  output: null,
  last_line: null,
  beats: 0,
};

test("a program takes a job, keeps its lease by beating, and gives its result, once", async () => {
  const store = await openStore(join(folder, "handler.db"), { clock, random });
  await store.enqueue([{ ...JOB, input: new TextEncoder().encode("6 7") }]);
  const manager = new LeaseManager({ store, clock, random, worker_id: "mine", host: "here", lease_ms: 1_000 });
  const [lease] = await manager.acquire({ queues: ["numbers"] });
  if (lease === undefined) throw new Error("there is a job");
  const heartbeat = new Heartbeat(clock);
  const extender = new LeaseExtender(manager, { clock, interval_ms: 1 });
  const detach = extender.attach(lease, heartbeat);
  while (extender.extensions === 0) {
    heartbeat.beat();
    await Bun.sleep(2);
  }
  detach();
  const [a = 0, b = 0] = new TextDecoder()
    .decode(lease.job.input ?? undefined)
    .split(" ")
    .map(Number);
  const end = { ...DONE, output: String(a * b), beats: heartbeat.beats };
  expect(await manager.release(lease, { end })).toMatchObject({ status: "applied" });
  expect(await manager.release(lease, { end })).toMatchObject({ status: "stale" });
  expect(await store.jobs([lease.job.id])).toMatchObject([{ state: { name: "completed" }, result: { output: "42" } }]);
  await store.close();
});

test("a program recovers what another left, runs it in a pool, and has the figures of both", async () => {
  const store_url = join(folder, "pool.db");
  const store = await openStore(store_url, { clock, random });
  const common = { store, store_url, clock, random, report: () => {} };
  await store.enqueue([{ ...JOB, argv: ["echo", "again"] }]);
  const gone = new LeaseManager({ store, clock, random, worker_id: "gone", host: "elsewhere", lease_ms: 1 });
  expect(await gone.acquire()).toHaveLength(1);
  const sweep = new RecoverySweep({ ...common, grace_ms: 0, every_ms: 1_000, checkpoints: true, keep_checkpoints: 9 });
  while ((await sweep.scan()).recovered === 0) await Bun.sleep(1);
  await sweep.stop();
  expect(sweep.statistics()).toMatchObject({ running: false, total_recovered: 1 });
  const pool = new WorkerPool({
    ...common,
    version: "1",
    name: "library",
    queues: null,
    task: null,
    slots: 2,
    times: calibrate({}),
    beat: "output",
    handler: [],
    kill_grace_ms: 1_000,
    poll_ms: 1_000,
    sweep: false,
    log_dir: null,
    until_empty: true,
    max_jobs: null,
  });
  await pool.start();
  await pool.finished;
  expect(pool.statistics()).toMatchObject({
    state: "stopped",
    slots: { total: 2, stopped: 2 },
    failed: 0,
    current: [],
  });
  await store.close();
});
