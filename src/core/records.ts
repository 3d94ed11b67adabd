/**
 * What a store remembers around a job: its attempts, its checkpoints, the workers that ran it.
 */

import type { StateName } from "./job.ts";
import type { Resources } from "./resources.ts";
import type { AttemptEnd } from "./transition.ts";

/** Names one process for all time: a pid alone is reused. */
export interface ProcessIdentity {
  boot_id: string;
  pid: number;
  /** The kernel's start time of the process, in its own unit. */
  pid_started: number;
}

/** What holds a job's processes together, from the best to the least: see runner/fence.ts. */
export const FENCES = ["cgroup", "tree", "group"] as const;
export type FenceKind = (typeof FENCES)[number];

export interface AttemptRecord {
  attempt: number;
  token: number;
  worker: string;
  host: string;
  process: ProcessIdentity | null;
  /** Null where nobody has said yet, or no process was started. */
  fence: FenceKind | null;
  /** Processor time of all its processes, and their peak of memory, as far as the kernel told. */
  cpu_ms: number | null;
  memory_bytes: number | null;
  /** How long its lease is from each beat on. */
  lease_ms: number;
  started_at_ms: number;
  ended_at_ms: number | null;
  end: AttemptEnd | null;
  beats: number;
  extensions: ExtensionCounts;
}

/** How often its lease was to be extended, how often that could not be written, and how often it was refused. */
interface ExtensionCounts {
  attempts: number;
  failures: number;
  refusals: number;
}

export interface Checkpoint {
  id: number;
  job: number;
  task: string | null;
  kind: "error" | "progress";
  token: number;
  at_ms: number;
  text: string;
}

export interface QueueCount {
  queue: string;
  state: StateName;
  count: number;
  /** Of those that are scheduled, how many have run before; absent: none, or nobody looked. */
  retrying?: number;
}

export interface WorkerRecord {
  id: string;
  name: string | null;
  host: string;
  process: ProcessIdentity;
  version: string;
  queues: readonly string[] | null;
  /** It takes only jobs of this task; null: any. */
  task: string | null;
  /** It has no handler, and leaves jobs without a command to others. */
  commands_only: boolean;
  slots: number;
  /** What its machine has, for jobs that need it. */
  have: Resources;
  /** Takes no more jobs and ends with those it has. */
  draining: boolean;
  completed: number;
  failed: number;
  started_at_ms: number;
  seen_at_ms: number;
  stopped_at_ms: number | null;
  /** How it ended: by itself, or found dead by a sweep. */
  ended: "clean" | "dead" | null;
}

/** A piece of what an attempt printed, as a store keeps it. What is missing between two pieces was too much to keep. */
export interface LogChunk {
  /** Position of its first byte in all that the attempt printed. */
  start: number;
  /** How much of the print it holds. */
  bytes: number;
  /** Encoded by whoever wrote it; a store does not look inside. */
  data: Uint8Array;
}

/** What one sweep did. */
export interface SweepCounts {
  expired_found: number;
  recovered: number;
  failed: number;
  cancelled: number;
  checkpoints_created: number;
  orphans_killed: number;
  errors: number;
  scan_duration_ms: number;
}

/** What all sweeps have done together. */
export interface RecoveryTotals extends Omit<SweepCounts, "scan_duration_ms"> {
  total_scans: number;
  /** When one last found something; null: none ever has. */
  last_at_ms: number | null;
  last_scan: (SweepCounts & { at_ms: number }) | null;
}
