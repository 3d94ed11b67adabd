/** A small world for the tests of views: one moment, and what a store would tell about it. */

import type { Job } from "../../src/core/job.ts";
import type { AttemptRecord, Checkpoint, WorkerRecord } from "../../src/core/records.ts";
import type { Overview } from "../../src/view/overview.ts";
import { summarizeQueues } from "../../src/view/queues.ts";
import { plain, type Paint, type Screen } from "../../src/view/style.ts";
import { jobIn } from "../support/jobs.ts";
import { workerRecord } from "../support/workers.ts";

export const now_ms = Date.UTC(2026, 4, 2, 10, 0, 0);
export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;

export function screen(width: number | null = null, paint: Paint = plain): Screen {
  return { now_ms, width, paint };
}

export function running(overrides: Partial<Omit<Job, "settings" | "state">> = {}): Job {
  return jobIn(
    { name: "running", holder: "ci-3:8841:a1f", expires_at_ms: now_ms + 241_000, cancel_requested_at_ms: null },
    {
      id: 128,
      argv: ["./build.sh", "release", "x86_64 linux"],
      token: 1,
      created_at_ms: now_ms - 4 * MINUTE_MS,
      started_at_ms: now_ms - 192_000,
      last_beat_at_ms: now_ms - 2_000,
      ...overrides,
    },
  );
}

export function failed(overrides: Partial<Omit<Job, "settings" | "state">> = {}): Job {
  return jobIn(
    { name: "failed", finished_at_ms: now_ms - 12 * MINUTE_MS },
    {
      id: 101,
      argv: ["make", "-j8", "all"],
      token: 4,
      failures: 4,
      created_at_ms: now_ms - 3 * HOUR_MS,
      started_at_ms: now_ms - 14 * MINUTE_MS,
      result: { cause: "silent", exit_code: null, error: "silent 5m02s of 5m", output: null },
      ...overrides,
    },
  );
}

export function attempt(overrides: Partial<AttemptRecord> = {}): AttemptRecord {
  return {
    attempt: 1,
    token: 1,
    worker: "ci-3:8841:a1f",
    host: "ci-3",
    process: { boot_id: "b", pid: 8841, pid_started: 1 },
    fence: "cgroup",
    cpu_ms: null,
    memory_bytes: null,
    lease_ms: 300_000,
    started_at_ms: now_ms - 192_000,
    ended_at_ms: null,
    end: null,
    beats: 211,
    extensions: { attempts: 0, failures: 0, refusals: 0 },
    ...overrides,
  };
}

export function checkpoint(overrides: Partial<Checkpoint> = {}): Checkpoint {
  return {
    id: 1,
    job: 101,
    task: null,
    kind: "progress",
    token: 1,
    at_ms: now_ms - HOUR_MS,
    text: "page 41",
    ...overrides,
  };
}

export function worker(overrides: Partial<WorkerRecord> = {}): WorkerRecord {
  return workerRecord({
    id: "ci-3:8841:a1f",
    process: { boot_id: "b", pid: 8841, pid_started: 1 },
    slots: 4,
    started_at_ms: now_ms - 26 * HOUR_MS,
    seen_at_ms: now_ms - 1_500,
    ...overrides,
  });
}

export function overview(): Overview {
  return {
    queues: summarizeQueues({
      counts: [
        { queue: "default", state: "pending", count: 12 },
        { queue: "default", state: "completed", count: 18_204 },
        { queue: "gpu", state: "running", count: 1 },
      ],
      paused: ["gpu", "mail"],
      served: [null, ["gpu"]],
    }),
    workers: [
      { worker: worker({ name: "builder", completed: 150, failed: 5 }), held: [running()] },
      { worker: worker({ id: "ci-2:77:01c", slots: 1, seen_at_ms: now_ms - 4 * MINUTE_MS }), held: [] },
      { worker: worker({ id: "old", stopped_at_ms: now_ms - HOUR_MS, ended: "clean" }), held: [] },
    ],
    leases: { held: 3, stale: 1, next_expires_at_ms: now_ms + 112_000 },
    retries: [
      { retries: 0, jobs: 812 },
      { retries: 1, jobs: 40 },
    ],
    recovery: {
      expired_found: 7,
      recovered: 6,
      failed: 1,
      cancelled: 0,
      checkpoints_created: 7,
      orphans_killed: 1,
      errors: 0,
      total_scans: 40,
      last_scan: null,
      last_at_ms: now_ms - 40_000,
    },
    failures: [{ job: failed(), last_line: null }],
  };
}
