/**
 * The store: where jobs live. Every engine passes the one suite in test/contract.
 *
 * Verbs take and return arrays, in the same order, so that an engine can batch. The store writes what core has decided
 * and adds only the fence: every write by a holder names its token, and "zero rows" comes back as an answer that says
 * why, never as an exception. Times in answers are the store's own clock. A promise that resolved is durable.
 */

import type { Job, NewJob, StateName } from "../core/job.ts";
import type {
  Attempt,
  Checkpoint,
  LogChunk,
  ProcessIdentity,
  QueueCount,
  RecoveryTotals,
  SweepCounts,
  WorkerRecord,
} from "../core/records.ts";
import type { Change } from "../core/transition.ts";

export interface Store {
  /** Where it is, safe to print. */
  readonly location: string;

  /** All or none. A job whose key is live follows its `if_exists`: the live one's id, an error, or takes its place. */
  enqueue(jobs: readonly NewJob[]): Promise<Enqueued[]>;

  /** Grants up to `count` pending jobs: queues in the order given, then priority, due time, id. Promotes what is due. */
  acquire(request: AcquireRequest): Promise<Grant[]>;

  /** Moves the end of leases. Refused when the token is not the current one of a running job, or it has expired. */
  extend(requests: readonly ExtendRequest[]): Promise<ExtendAnswer[]>;

  /** Notes the process that runs an attempt, so that what is left of it can be found. Stale tokens are ignored. */
  noteProcess(requests: readonly ProcessNote[]): Promise<void>;

  /** Adds what running jobs printed and drops what is over their limit. Stale tokens are ignored. */
  appendLogs(requests: readonly LogWrite[]): Promise<void>;

  /**
   * Ends attempts as core decided. A stale one changes nothing but leaves a `stale` checkpoint. `within_ms`: nobody
   * waits for the answer, and it may share a commit with what comes in that time.
   */
  settle(requests: readonly SettleRequest[], options?: { within_ms: number }): Promise<SettleAnswer[]>;

  /** Adds progress checkpoints; refused like `extend`. */
  checkpoint(requests: readonly CheckpointRequest[]): Promise<("accepted" | "expired" | "conflict")[]>;

  /** Running jobs whose lease ended more than `grace_ms` ago, or whose holder is named; in order of expiry, paged. */
  expired(query: ExpiredQuery): Promise<ExpiredLease[]>;

  /** Like settle, for a sweep: applies only while the job is still exactly as it was read. */
  recover(requests: readonly RecoverRequest[]): Promise<("recovered" | "changed")[]>;

  /** Waiting jobs end at once; running ones are asked to. */
  cancel(ids: readonly number[], reason: string | null): Promise<CancelAnswer[]>;

  /** A person's word: finished jobs become pending with all their retries. */
  retry(ids: readonly number[]): Promise<RetryAnswer[]>;

  /** Of the jobs this holder runs, those it should stop. */
  cancelRequests(holder: string): Promise<{ id: number; token: number }[]>;

  /** Jobs by id, in the order asked; null for an unknown one. */
  jobs(ids: readonly number[]): Promise<(Job | null)[]>;

  list(query: ListQuery): Promise<Job[]>;

  attempts(id: number): Promise<Attempt[]>;

  /** The newest first. */
  checkpoints(query: CheckpointQuery): Promise<Checkpoint[]>;

  /** What an attempt printed, from a position on, in order; at most `limit` pieces. */
  logs(query: { job: number; attempt: number; from: number; limit: number }): Promise<LogChunk[]>;

  /** How many jobs there are, by queue and state. */
  counts(): Promise<QueueCount[]>;

  /** Paused queues are not acquired from; what runs goes on. */
  setPaused(queues: readonly string[], paused: boolean): Promise<void>;

  /** Names of paused queues, in order. */
  pausedQueues(): Promise<string[]>;

  /** How many finished jobs needed how many retries. */
  retryCounts(): Promise<{ retries: number; jobs: number }[]>;

  /** What the acquirer of these queues still has ahead of it. */
  backlog(query: { queues: readonly string[] | null; task: string | null }): Promise<Backlog>;

  /** The highest priority among the pending jobs that could be acquired; null: none is pending. */
  topPriority(query: { queues: readonly string[] | null; task: string | null }): Promise<number | null>;

  /** When the next scheduled job is due, whatever its queue; null: none is scheduled. */
  nextDue(): Promise<number | null>;

  saveWorker(worker: WorkerRecord): Promise<void>;

  /** Live ones first; `live_on` keeps to those of a host that have not ended. */
  workers(query?: { live_on: string }): Promise<WorkerRecord[]>;

  /** Adds what a sweep found to the totals. */
  noteRecovery(counts: SweepCounts): Promise<void>;

  /** What sweeps have done so far; null: nothing has ever had to be recovered. */
  recovery(): Promise<RecoveryTotals | null>;

  /** Moves due jobs to pending; answers how many. */
  promote(): Promise<number>;

  /** Keeps the newest `keep` checkpoints of each task, or of each job without one; answers how many went. */
  trimCheckpoints(keep: number): Promise<number>;

  /** Calls back when another process may have changed something; the returned function stops it. */
  watch(changed: () => void): () => void;

  /** The store's clock. */
  now(): Promise<number>;

  /** Finishes what was asked of it. `exiting`: the process ends right after, so tidying up may be left to the next. */
  close(options?: { exiting: boolean }): Promise<void>;
}

export interface Enqueued {
  id: number;
  /** False when a live job with the same key answered instead. */
  created: boolean;
}

export interface AcquireRequest {
  holder: string;
  host: string;
  count: number;
  /** Null: every queue. */
  queues: readonly string[] | null;
  task: string | null;
  /** For jobs that set none. */
  lease_ms: number;
}

export interface Grant {
  /** As it is now: running, with the new token. */
  job: Job;
  lease_ms: number;
  expires_at_ms: number;
  /** The last accepted progress checkpoint. */
  checkpoint: string | null;
  /** The newest process of an earlier attempt on the acquirer's host. */
  previous: ProcessIdentity | null;
}

export interface ExtendRequest {
  id: number;
  token: number;
  expires_in_ms: number;
  /** How long ago the beat was that asks for this; null when it is not a beat (the time that stopping takes). */
  beat_age_ms: number | null;
  beats: number;
  /** For a beat: what another extension has got is kept if it is later. */
  at_least?: boolean;
  progress?: number | null;
  message?: string | null;
}

export type ExtendAnswer =
  { status: "extended"; expires_at_ms: number; cancel_requested: boolean } | { status: "expired" | "conflict" };

export interface ProcessNote extends ProcessIdentity {
  id: number;
  token: number;
}

export interface SettleRequest {
  id: number;
  token: number;
  change: Change;
  /** The process that ran the attempt, where it was not noted before. */
  process: ProcessIdentity | null;
  /** What the error checkpoint says; null writes none. */
  audit: Audit | null;
}

/** `cancelling`: a cancel request came in between; decide again, knowing it. */
export type SettleAnswer = { status: "applied" | "cancelling" } | { status: "stale"; reason: "expired" | "conflict" };

export interface Audit {
  holder: string;
  host: string;
  last_lines: readonly string[];
  granted_at_ms: number | null;
  expires_at_ms: number | null;
}

export interface CheckpointQuery {
  job?: number;
  task?: string;
  kind?: Checkpoint["kind"];
  limit: number;
}

export interface LogWrite {
  id: number;
  token: number;
  chunks: readonly LogChunk[];
  /** Chunks that begin at or behind `head_bytes` and end at or before `keep_from` go. */
  head_bytes: number;
  keep_from: number;
}

export interface CheckpointRequest {
  id: number;
  token: number;
  text: string;
}

export interface ExpiredQuery {
  grace_ms: number;
  dead_holders: readonly string[];
  /** Continue behind this one. */
  after: { expires_at_ms: number; id: number } | null;
  limit: number;
}

export interface ExpiredLease {
  job: Job;
  expires_at_ms: number;
  holder_dead: boolean;
  attempt: Attempt;
}

export interface RecoverRequest extends SettleRequest {
  expires_at_ms: number;
}

export interface CancelAnswer {
  id: number;
  status: "cancelled" | "cancelling" | "finished" | "unknown";
  state: StateName | null;
}

export interface RetryAnswer {
  id: number;
  status: "pending" | "not_finished" | "key_taken" | "unknown";
  state: StateName | null;
}

export interface ListQuery {
  states?: readonly StateName[];
  queues?: readonly string[];
  task?: string;
  since_ms?: number;
  limit: number;
  newest_first: boolean;
}

export interface Backlog {
  pending: number;
  running: number;
  /** Scheduled because an earlier attempt failed. */
  retrying: number;
  /** Scheduled or blocked by a person. */
  waiting: number;
  next_due_ms: number | null;
}
