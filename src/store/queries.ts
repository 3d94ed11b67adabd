/** What a store can be asked, and what it tells: the questions of store.ts and their answers. */

import type { Finished, Grace, Job, ShownState, StateName } from "../core/job.ts";
import type { AttemptRecord, Checkpoint, LogChunk } from "../core/records.ts";

export const SORTS = ["id", "priority", "due", "started", "finished", "attempts"] as const;

/** All that is given must hold. */
export interface Selection {
  ids?: readonly number[];
  queues?: readonly string[];
  task?: string;
}

/** That a job waits, or has waited, for another. */
export interface Dependency {
  job: number;
  parent: number;
  /** As of a dependency that is not met yet. */
  kind: UnmetDependency["kind"];
}

export interface UnmetDependency {
  job: number;
  parent: number;
  /** `success`: it has to complete. `any`: it has to end. `failure`: it has to fail. */
  kind: "success" | "any" | "failure";
  state: StateName;
  /** When the parent got into that state, as far as it is known. */
  since_ms: number | null;
}

export interface PruneQuery {
  /** Only jobs that finished at least so long ago. */
  older_than_ms: number;
  states: readonly Finished["name"][];
  queues?: readonly string[];
  task?: string;
}

/** One step of a prune. */
export interface PruneStep extends PruneQuery {
  limit: number;
  /** Where the step before came to; else it begins with the oldest. */
  behind?: PrunePlace | null;
}

/** Finished jobs in the order in which they go. */
export interface PrunePlace {
  finished_at_ms: number;
  id: number;
}

export interface Pruned {
  count: number;
  /** Where the next step goes on; null: there are no more. */
  next: PrunePlace | null;
}

export interface Finding {
  /** What was looked at: `schema`, `integrity`, `wal`. */
  name: string;
  level: "ok" | "warn" | "error";
  value: string;
  /** What to do about it; null when there is nothing to do. */
  advice: string | null;
}

/** What a store's own history shows about one promise. */
export interface Audited {
  name: string;
  promise: string;
  /** What else looks like a breach of it. */
  caveat?: string | undefined;
  /** What people do that looks the same and leaves no trace: then it is no more than worth a look. */
  explained_by?: string | undefined;
  broken: readonly Broken[];
  /** There are more than these. */
  more: boolean;
}

export interface Broken {
  job: number | null;
  text: string;
}

export interface CheckpointQuery {
  job?: number;
  /** Of each of these jobs the newest alone, of the kind that is asked for. */
  newest_of?: readonly number[];
  task?: string;
  kind?: Checkpoint["kind"];
  limit: number;
}

export interface ExpiredQuery {
  grace_ms: number;
  /** How many of the newest pieces of its log come along with each. */
  last_chunks?: number;
  dead_holders: readonly string[];
  /** Continue behind this one. */
  after: { expires_at_ms: number; id: number } | null;
  limit: number;
}

export interface ExpiredLease {
  job: Job;
  expires_at_ms: number;
  holder_dead: boolean;
  attempt: AttemptRecord;
  /** In order. */
  last_chunks: readonly LogChunk[];
}

/** What an acquirer of these queues (null: all) and this task (null: any) is asked about. */
export interface BacklogQuery {
  queues: readonly string[] | null;
  task: string | null;
  /** It has no handler for jobs without a command. */
  commands_only?: boolean;
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

export interface ListQuery extends Selection {
  /** As shown: `retrying` and `cancelling` are parts of scheduled and running. */
  states?: readonly ShownState[];
  key?: string;
  holder?: string;
  /** Something happened to it since then. */
  since_ms?: number;
  /** Only those behind this id in the order asked for; for paging by id. */
  behind_id?: number;
  limit: number;
  sort?: (typeof SORTS)[number];
  newest_first: boolean;
}

export interface BulkOptions {
  /**
   * It may take so long, and where nobody else can write meanwhile, whoever holds a lease could not extend it: leases that
   * would end before are prolonged first, which their holders see by reading.
   */
  hold_ms?: number;
}

export interface DiagnoseOptions {
  /** All that has to be read for it, however long that takes; else what can be told at once. */
  full?: boolean;
  /** Told what is looked at next. */
  step?: (what: string) => void;
}

/** Enough of a job to tell whether it is meant. */
export interface JobOutline {
  id: number;
  state: StateName;
  reason: string | null;
}

/** Of these jobs, in the order of their ids, the newest first. */
export interface SearchQuery extends Pick<ListQuery, "states" | "queues" | "task" | "behind_id" | "limit"> {
  /** A part of the command, the key, the task, the error or the reason, in capitals or not; empty: any will do. */
  text: string;
  /** Of the command alone. */
  in_command?: boolean;
  /** So many jobs are looked at and no more: the price of a search must not grow with the store. */
  among: number;
}

export interface SearchAnswer {
  jobs: Job[];
  /** Where to go on; null: all have been looked at. */
  behind_id: number | null;
}

export interface LogQuery {
  job: number;
  attempt: number;
  from: number;
  /** The newest that begin before this one, instead of the oldest. */
  before?: number;
  limit: number;
}

export interface LeaseHealth {
  held: number;
  stale: number;
  /** Of those that are not over. */
  next_expires_at_ms: number | null;
}

export interface HistoryQuery {
  /** From the minute or hour on in which this is. */
  since_ms: number;
  /** Up to here, not included; the present unless told. */
  until_ms?: number;
  /** How long each point is: whole minutes, for a week back; or whole hours, for a year. */
  span_ms: number;
  queues?: readonly string[];
}

/** Since when the job that has waited longest has been pending. */
export interface OldestPending {
  queue: string;
  since_ms: number;
}

export interface EditAnswer {
  id: number;
  status: "changed" | "not_waiting" | "unknown";
  /** Before. */
  state: StateName | null;
}

export interface CancelOptions {
  /** Of running jobs, unless they have one of their own; null: nothing is said of it. */
  grace?: Grace | null;
  /** With all that waits for them, in whatever way, and for those, and so on. */
  cascade?: boolean;
}

export interface Retention {
  /** The newest checkpoints per task, or per job without one; null: all of them. */
  keep_checkpoints: number | null;
  /** A recovery leaves an error checkpoint. */
  checkpoints: boolean;
}

export interface CancelRequest {
  id: number;
  token: number;
  /** What the cancel says; null: nothing. */
  grace: Grace | null;
}

export interface BulkEnqueued {
  /** Ids from–to in the order of the jobs; a job that a live one answered for counts with that one's id. */
  ranges: readonly (readonly [number, number])[];
  created: number;
}

export interface RetryAnswer {
  id: number;
  status: "pending" | "blocked" | "not_finished" | "key_taken" | "unknown";
  state: StateName | null;
}

export interface CancelAnswer {
  id: number;
  status: "cancelled" | "cancelling" | "finished" | "unknown";
  state: StateName | null;
}

export interface LogWrite {
  id: number;
  token: number;
  /** That were seen so far: should its worker be lost, this is what is known of them. */
  beats?: number;
  chunks: readonly LogChunk[];
  /** Chunks that begin at or behind `head_bytes` and end at or before `keep_from` go. */
  head_bytes: number;
  keep_from: number;
}
