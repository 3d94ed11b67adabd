/** A worker as a store knows it, where a test says only what it is about. */

import type { WorkerRecord } from "../../src/core/records.ts";

export function workerRecord(overrides: Partial<WorkerRecord> = {}): WorkerRecord {
  return {
    id: "w1",
    name: null,
    host: "ci-3",
    process: { boot_id: "b", pid: 42, pid_started: 4_200 },
    version: "0.1.0",
    queues: null,
    slots: 2,
    task: null,
    commands_only: false,
    have: {},
    draining: false,
    completed: 0,
    failed: 0,
    started_at_ms: 1_000,
    seen_at_ms: 2_000,
    stopped_at_ms: null,
    ended: null,
    ...overrides,
  };
}
