/** The library: the parts that the command line is built on. */

export { systemClock, systemRandom } from "./platform/clock.ts";
export { openStore } from "./store/open.ts";
export { LeaseError } from "./core/errors.ts";
export { calibrate } from "./core/calibration.ts";
export { DEFAULT_SETTINGS, type Job, type JobSettings, type JobState, type NewJob } from "./core/job.ts";
export { Heartbeat } from "./leasing/heartbeat.ts";
export { LeaseExtender } from "./leasing/extender.ts";
export { LeaseManager } from "./leasing/manager.ts";
export { RecoverySweep, type RecoverySweepOptions, type SweepStatistics } from "./recovery/sweep.ts";
export { WorkerPool, type PoolStatistics, type WorkerPoolOptions } from "./worker/pool.ts";
export type { Clock, Random } from "./core/clock.ts";
export type { SweepCounts } from "./core/records.ts";
export type { AttemptEnd } from "./core/transition.ts";
export type { Lease } from "./leasing/lease.ts";
export type { Store } from "./store/store.ts";
