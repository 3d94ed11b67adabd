/**
 * The store: where jobs live. Every engine passes the one suite in test/contract.
 *
 * Verbs take and return arrays, in the same order, so that an engine can batch. The store writes what core has decided
 * and adds only the fence: every write by a holder names its token, and "zero rows" comes back as an answer that says
 * why, never as an exception. Times in answers are the store's own clock. A promise that resolved is durable.
 */

import type { JobChanges } from "../core/changes.ts";
import type { MachineTime } from "../core/clock.ts";
import type { LeaseError } from "../core/errors.ts";
import type { Grace, Job, NewJob, StateName } from "../core/job.ts";
import type { HistoryPoint, QueueTotal } from "../core/history.ts";
import type { Gaps, Learned } from "../core/learning.ts";
import type {
  FenceKind,
  AttemptRecord,
  Checkpoint,
  LogChunk,
  ProcessIdentity,
  QueueCount,
  RecoveryTotals,
  SweepCounts,
  WorkerRecord,
} from "../core/records.ts";
import type { Resources } from "../core/resources.ts";
import type { Change } from "../core/transition.ts";
import type { Transfer } from "./copy/transfer.ts";
import type { PlanReader, Planner } from "./plans.ts";
import type {
  Audited,
  Backlog,
  BacklogQuery,
  BulkEnqueued,
  BulkOptions,
  CancelAnswer,
  CancelOptions,
  CancelRequest,
  CheckpointQuery,
  EditAnswer,
  ExpiredLease,
  ExpiredQuery,
  Finding,
  HistoryQuery,
  JobOutline,
  LeaseHealth,
  Dependency,
  DiagnoseOptions,
  ListQuery,
  LogQuery,
  OldestPending,
  Pruned,
  PruneQuery,
  PruneStep,
  Retention,
  RetryAnswer,
  SearchAnswer,
  SearchQuery,
  Selection,
  UnmetDependency,
  LogWrite,
} from "./queries.ts";

export type Store = Producer & Holder & Sweeper & Reader & Upkeep;

/** What people and programs do to jobs. */
export interface Producer extends Planner {
  /** All or none. A job whose key is live follows its `if_exists`: the live one's id, an error, or it is replaced. */
  enqueue(jobs: readonly NewJob[], options?: EnqueueOptions): Promise<Enqueued[]>;

  /** The same for more jobs than fit in memory, seen by others at the end only. An error about a job has its `index`. */
  enqueueAll(batches: AsyncIterable<readonly NewJob[]>, options?: BulkOptions): Promise<BulkEnqueued>;

  /** Waiting jobs end at once; running ones are asked to. Answers for those named, then for what goes with them. */
  cancel(ids: readonly number[], reason: string | null, options?: CancelOptions): Promise<CancelAnswer[]>;

  /**
   * A person's word: finished jobs become pending with all their retries, or blocked while one that they wait for,
   * perhaps another of these, is not satisfied.
   */
  retry(ids: readonly number[]): Promise<RetryAnswer[]>;

  /** Changes jobs that wait; all or none where what is asked of one can't be. One that was granted first stays as it is. */
  edit(ids: readonly number[], changes: JobChanges): Promise<EditAnswer[]>;

  /** Finishes what was asked of it. `exiting`: the process ends right after, so tidying up may be left to the next. */
  close(options?: { exiting: boolean }): Promise<void>;
}

/** What a worker does: who holds a lease, and what its holder says. Every write names its token. */
export interface Holder {
  /**
   * Grants up to `count` pending jobs: queues in the order given, then priority, due time, id. Promotes what is due.
   * Never more than a limit allows, whoever else acquires, and only what fits into what the acquirer's machine has free.
   */
  acquire(request: AcquireRequest): Promise<Grant[]>;

  /**
   * Moves the end of leases. Refused when the token is not the current one of a running job, or it has expired. What one
   * handle is asked is carried out and answered in that order: the last answer is how it is. `within_ms` as for `settle`.
   */
  extend(requests: readonly ExtendRequest[], options?: { within_ms: number }): Promise<ExtendAnswer[]>;

  /** Notes the process that runs an attempt, so that what is left of it can be found. Stale tokens are ignored. */
  noteProcess(requests: readonly ProcessNote[]): Promise<void>;

  /** Adds what running jobs printed and drops what is over their limit. Stale tokens are ignored. */
  appendLogs(requests: readonly LogWrite[]): Promise<void>;

  /** Adds progress checkpoints; refused like `extend`. */
  checkpoint(requests: readonly CheckpointRequest[]): Promise<CheckpointAnswer[]>;

  /**
   * Ends attempts as core decided. A stale one changes nothing but leaves a `stale` checkpoint. `within_ms`: nobody
   * waits for the answer, and it may share a commit with what comes in that time.
   */
  settle(requests: readonly SettleRequest[], options?: { within_ms: number }): Promise<SettleAnswer[]>;

  /** Of the jobs this holder runs, those it should stop. */
  cancelRequests(holder: string): Promise<CancelRequest[]>;

  saveWorker(worker: WorkerRecord): Promise<void>;
}

/** What a sweep does: leases whose holders are gone, and jobs that are due. */
export interface Sweeper {
  /** Running jobs whose lease ended more than `grace_ms` ago, or whose holder is named; in order of expiry, paged. */
  expired(query: ExpiredQuery): Promise<ExpiredLease[]>;

  /** Like settle, for a sweep: applies only while the job is still exactly as it was read. */
  recover(requests: readonly RecoverRequest[]): Promise<("recovered" | "changed")[]>;

  /** A name that the store keeps for all time, by whatever path or address it is reached; given to it when first asked. */
  storeId(): Promise<string>;

  /** Notes that a worker was found dead; false when somebody else was first, or it had ended by itself. */
  buryWorker(id: string): Promise<boolean>;

  /** Adds what a sweep found to the totals. */
  noteRecovery(counts: SweepCounts): Promise<void>;

  /** Raises the priority of pending jobs by one for each `aging_ms` that they have been due; answers how many rose. */
  age(aging_ms: number): Promise<number>;

  /** Moves due jobs to pending; answers how many. */
  promote(): Promise<number>;

  /**
   * For a sweep on a store that shares this machine's clock: whether that has jumped forward within the last `hold_ms`, as
   * far as anybody on the machine has noticed. Leases that seem to have ended may then be alive. After a jump back
   * leases move with the clock; none is cut below its length from now and the time that a stop takes.
   */
  noticeClockJump(now: MachineTime, hold_ms: number): Promise<boolean>;
}

/** What can be asked, by anybody and at any time; it waits for no writer. */
export interface Reader extends PlanReader {
  /** Where it is, safe to print. */
  readonly location: string;

  /** Its clock is this machine's: one that jumps, jumps for everybody who uses the store. */
  readonly shares_clock: boolean;

  /** The store's clock. With `within_ms` a reading that is no older will do, moved on by our own clock: never ahead of it. */
  now(options?: { within_ms: number }): Promise<number>;

  /** Jobs by id, in the order asked; null for an unknown one. */
  jobs(ids: readonly number[]): Promise<(Job | null)[]>;

  list(query: ListQuery): Promise<Job[]>;
  /** The same, for whoever goes through very many. */
  outlines(query: ListQuery): Promise<JobOutline[]>;

  /** A list for people: what is asked for may be rare or not there, and the answer comes as quickly in a large store. */
  search(query: SearchQuery): Promise<SearchAnswer>;

  attempts(id: number): Promise<AttemptRecord[]>;

  /** The newest first. */
  checkpoints(query: CheckpointQuery): Promise<Checkpoint[]>;

  /** What an attempt printed, from a position on or before one, in order; at most `limit` pieces. */
  logs(query: LogQuery): Promise<LogChunk[]>;

  /**
   * How many jobs there are, by queue and state; of all, or of those that a selection names. Of all, or of whole queues,
   * it costs the same however many there are.
   */
  counts(only?: Selection): Promise<QueueCount[]>;

  /** What happened in the queues, in order of time and then of queue; spans in which nothing did are left out. */
  history(query: HistoryQuery): Promise<HistoryPoint[]>;

  /** How long jobs have waited and run since the store was made, and how attempts ended. In the order of their keys. */
  totals(): Promise<QueueTotal[]>;

  /** Of each queue that has pending jobs, since when the oldest has been. */
  oldestPending(): Promise<OldestPending[]>;

  /** Leases that are held, those among them that are over and not recovered yet, and the next end. */
  leases(): Promise<LeaseHealth>;

  /** Whom these jobs wait for, or have waited for, by job and parent. */
  links(ids: readonly number[]): Promise<Dependency[]>;

  /** What those of these jobs that are blocked wait for: dependencies not satisfied yet, by job and parent. */
  parents(ids: readonly number[]): Promise<UnmetDependency[]>;

  /** What has been learned about the beats of these subjects (`subjectOf`); null where nothing was recorded. */
  learned(subjects: readonly string[]): Promise<(Learned | null)[]>;

  /** How many finished jobs needed how many retries. */
  retryCounts(): Promise<{ retries: number; jobs: number }[]>;

  /** What is left for the acquirer of these queues. */
  backlog(query: BacklogQuery): Promise<Backlog>;

  /** The highest priority among the pending jobs that could be acquired; null: none is pending. */
  topPriority(query: BacklogQuery): Promise<number | null>;

  /** When the next scheduled job is due, whatever its queue, or a rate lets one start; null: no time is known. */
  nextDue(): Promise<number | null>;

  /** Live ones first; `live_on` keeps to those of a host that have not ended. */
  workers(query?: { live_on: string }): Promise<WorkerRecord[]>;

  /** What sweeps have done so far; null: nothing has ever had to be recovered. */
  recovery(): Promise<RecoveryTotals | null>;

  /** Calls back when another process may have changed something; the returned function stops it. */
  watch(changed: () => void): () => void;

  /**
   * Calls back once, within a second, when what is there is not the store any more that was opened: its files were deleted
   * or replaced, or it was put back to an earlier state. Whoever runs jobs must stop them then: others may run them too.
   */
  onReplaced(fence: (error: LeaseError) => void): () => void;
}

/** All that is needed to look, and nothing that changes anything. */
export type Glance = Reader & Pick<Sweeper, "expired">;

/** What keeps a store small and healthy, and moves it. */
export interface Upkeep {
  /** How many finished jobs a prune with this query would delete, by state. */
  prunable(query: PruneQuery): Promise<{ state: StateName; count: number }[]>;

  /** Deletes the oldest of them with all that belongs to them, at most `limit`, from where the step before came to. */
  prune(step: PruneStep): Promise<Pruned>;

  /** How long the store's checkpoints are kept, for every sweep that is not told otherwise. */
  retention(): Promise<Retention>;

  /** What is named of it, from now on. */
  setRetention(given: Partial<Retention>): Promise<void>;

  /** Keeps the newest `keep` checkpoints of each task, or of each job without one; answers how many went. */
  trimCheckpoints(keep: number): Promise<number>;

  /** Counts that were put off are added up; history past a week is kept by the hour, and past a year not at all. */
  foldHistory(): Promise<void>;

  /** How often a write of this process had to be tried again, because another held the lock or was faster. */
  writeRetries(): number;

  /** Gives back what the engine can give back cheaply, such as a long write-ahead log. */
  tidy(): Promise<void>;

  /** What the engine can tell about its own health, worst first. */
  diagnose(options?: DiagnoseOptions): Promise<Finding[]>;

  /** Holds what is written down of all jobs against what was promised about them; in use or not, and of any size. */
  audit(): Promise<Audited[]>;

  /** Everything it holds as plain rows, for a copy into another store. */
  transfer(): Promise<Transfer>;
}

export interface EnqueueOptions {
  /** Those that are pending are granted in the same write, before anybody else can see them. */
  acquire?: Acquirer;
  /** A key without a live job is answered by the newest that had it, if that ended in one of these ways. */
  done_answers?: readonly DoneState[];
}

/** How a job ends by itself, and so has an answer to give. */
export type DoneState = "completed" | "failed";

/** All that is needed to add jobs. */
export type Inbox = Pick<Producer, "enqueue" | "close">;

export interface Enqueued {
  id: number;
  /** False when another job with the same key answered instead. */
  created: boolean;
  /** Where one was asked for and could be had. */
  grant?: Grant | null;
}

/** Who acquires. */
export interface Acquirer {
  holder: string;
  host: string;
  /** For jobs that set none; zero: learned, as for those that ask for it. */
  lease_ms: number;
  /** What its machine has, for jobs that need any of it. All workers of a host share what they have. */
  have?: Resources;
}

export interface AcquireRequest extends Acquirer {
  count: number;
  /** So many start at once, which is all unless told; jobs that anything bounds are granted for these alone. */
  at_once?: number;
  /** Null: every queue. */
  queues: readonly string[] | null;
  task: string | null;
  /** Leaves jobs without a command to others: it has no handler for them. */
  commands_only?: boolean;
  /** This job and no other, whatever its queue and task, and even if the queue is paused. */
  job?: number;
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
  /** What it was given of what it needs. */
  held: Resources;
}

export interface ExtendRequest {
  id: number;
  token: number;
  expires_in_ms: number;
  /** How long ago the beat was that asks for this; null when it is not a beat (the time that stopping takes). */
  beat_age_ms: number | null;
  beats: number;
  /** What another extension has got is kept if it is later. */
  at_least?: boolean;
  /** With `at_least`: the end is moved only by so much or more; the beat counts all the same. */
  interval_ms?: number;
  /** The job itself beats: that counts beside what its worker sees, and it hears of a cancel by the answer. */
  by_job?: boolean;
  /** Extensions of this attempt that could not be written so far. */
  failures?: number;
  /** So much of what has passed since the last grant or extension was only the clock being set. */
  jumped_ms?: number;
  progress?: number | null;
  message?: string | null;
}

/** `grace`: what the cancel says. */
export type ExtendAnswer =
  | { status: "extended"; expires_at_ms: number; cancel_requested: boolean; grace?: Grace | null }
  | { status: "expired" | "conflict" };

export type ProcessNote = ProcessIdentity & Pick<SettleRequest, "id" | "token"> & { fence?: FenceKind };

export interface SettleRequest {
  id: number;
  token: number;
  change: Change;
  /** When its program was over, by the store's clock: what was asked of it later was asked too late. Now, if not given. */
  ended_at_ms?: number;
  /** The process that ran the attempt, where it was not noted before. */
  process: ProcessIdentity | null;
  /** What the error checkpoint says; null writes none. */
  audit: Audit | null;
  /** What the one says that is written should this come too late; as \`audit\`, if not given. */
  late?: Audit;
  /** Queued in the same write, if this is applied. */
  hook?: NewJob | null;
  /** What the attempt showed about the gaps between its beats, of a job whose lease is learned. */
  gaps?: Gaps | null;
}

/** `cancelling`: a cancel request came in between; decide again, knowing it. */
export type SettleAnswer = { status: "applied" | "cancelling" } | { status: "stale"; reason: "expired" | "conflict" };

export interface Audit {
  holder: string;
  host: string;
  last_lines: readonly string[];
  granted_at_ms: number | null;
  expires_at_ms: number | null;
  ended_at_ms?: number | null;
}

export type CheckpointRequest = Pick<SettleRequest, "id" | "token"> & { text: string };

export type CheckpointAnswer = "accepted" | "expired" | "conflict";

export type RecoverRequest = SettleRequest & { expires_at_ms: number };
