/**
 * A worker that watches itself, for benches that must look inside: how late its timers fire, how often it extends
 * leases and writes logs, and how long an extension takes. Started as a program of its own with its settings as JSON;
 * prints what it saw as JSON when there is nothing left to do.
 */

import process from "node:process";
import { calibrate } from "../../src/core/calibration.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { WorkerPool } from "../../src/worker/pool.ts";
import type { ExtendRequest, Store } from "../../src/store/store.ts";
import { openStore } from "./harness.ts";

export interface ProbeInput {
  store: string;
  slots: number;
  lease_ms: number;
}

export interface ProbeOutput {
  seconds: number;
  completed: number;
  /** How late a timer of 5 ms fired, each time. */
  late_ms: number[];
  /** How long each call of extend took. */
  extend_ms: number[];
  /** Job → extensions asked for. */
  extensions: Record<number, number>;
  log_writes: number;
}

const PROBE_MS = 5;

async function main(input: ProbeInput): Promise<ProbeOutput> {
  const output: ProbeOutput = { seconds: 0, completed: 0, late_ms: [], extend_ms: [], extensions: {}, log_writes: 0 };
  const inner = await openStore(input.store);
  const pool = new WorkerPool({
    store: watched(inner, output),
    store_url: input.store,
    clock: systemClock,
    random: systemRandom,
    report: (level, message) => {
      if (level === "warn" || level === "error") console.error(level, message);
    },
    version: "bench",
    name: null,
    queues: ["default"],
    task: null,
    slots: input.slots,
    times: calibrate({ lease_ms: input.lease_ms }),
    beat: "output",
    handler: [],
    kill_grace_ms: 10_000,
    poll_ms: 1_000,
    sweep: true,
    log_dir: null,
    until_empty: true,
    max_jobs: null,
  });
  const started_ms = performance.now();
  let last_ms = started_ms;
  const probe = setInterval(() => {
    const now_ms = performance.now();
    output.late_ms.push(Math.max(0, now_ms - last_ms - PROBE_MS));
    last_ms = now_ms;
  }, PROBE_MS);
  await pool.start();
  await pool.finished;
  clearInterval(probe);
  output.seconds = (performance.now() - started_ms) / 1_000;
  output.completed = pool.statistics().completed;
  await inner.close();
  return output;
}

/** The same store, with what it is asked for noted. */
function watched(store: Store, output: ProbeOutput): Store {
  const extend = async (requests: readonly ExtendRequest[]) => {
    for (const { id } of requests) output.extensions[id] = (output.extensions[id] ?? 0) + 1;
    const asked_ms = performance.now();
    const answers = await store.extend(requests);
    output.extend_ms.push(performance.now() - asked_ms);
    return answers;
  };
  const appendLogs: Store["appendLogs"] = (requests) => {
    output.log_writes += 1;
    return store.appendLogs(requests);
  };
  return new Proxy(store, {
    get(target, name) {
      if (name === "extend") return extend;
      if (name === "appendLogs") return appendLogs;
      const value = Reflect.get(target, name) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

if (import.meta.main) {
  const output = await main(JSON.parse(process.argv[2] ?? "{}") as ProbeInput);
  await Bun.write(Bun.stdout, JSON.stringify(output));
}
