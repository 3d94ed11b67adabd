/**
 * `@lease/queue`: a durable queue for jobs, in SQLite or PostgreSQL. A job runs under a lease that is extended only while
 * it proves that it works; one that hangs, or whose worker dies, is recovered.
 *
 * @module
 */

export { open, type OpenOptions } from "./library/open.ts";
export { Queue, type EnqueuedJob, type EnqueuedJobs, type PruneOptions, type QueueOverview } from "./library/queue.ts";
export type { CancelJobs, JobEdits } from "./library/changes.ts";
export {
  QueueWorker,
  type Handler,
  type HandlerContext,
  type LeaseView,
  type WorkerOptions,
} from "./library/worker.ts";
export type { HandlerJob, JobOptions, Json, QueueJob, QueueJobDetail, Untyped } from "./library/job.ts";
export type { JobSelection, ListOptions } from "./library/selection.ts";
export type { LimitBound, QueueLimit, QueueSchedule, ScheduleAction, ScheduleOptions } from "./library/plans.ts";
export type { LogLine, LogOptions } from "./library/log_lines.ts";
export { QueueLeaseManager as LeaseManager, type HeldLease, type ReleaseOutcome } from "./library/leases.ts";
export {
  BeatExtender as LeaseExtender,
  HeartbeatTimer,
  WorkHeartbeat as Heartbeat,
  type ExtenderOptions,
  type HeartbeatTimerOptions,
} from "./library/heartbeats.ts";
export { HandlerPool as WorkerPool, QueueSweep as RecoverySweep, type SweepOptions } from "./library/roles.ts";
export { LeaseError, type ErrorCode } from "./core/errors.ts";
export { NoRetry, Stopped } from "./runner/handler.ts";
export type { CancelAnswer, EditAnswer, RetryAnswer } from "./store/queries.ts";
export type { PoolStatistics } from "./worker/pool_statistics.ts";
export type { EventFields, Level, Report } from "./core/report.ts";
export type { Clock, Random } from "./core/clock.ts";
export type { Cause, ShownState, StateName } from "./core/job.ts";
export type { SweepCounts } from "./core/records.ts";
export type { SweepStatistics } from "./recovery/sweep.ts";
export type { ExtensionCounts } from "./leasing/extender.ts";
export type { Heartbeat as BaseHeartbeat } from "./leasing/heartbeat.ts";
export type { LossReason } from "./leasing/heartbeat_timer.ts";
export type { SlotRecord } from "./worker/slots.ts";
