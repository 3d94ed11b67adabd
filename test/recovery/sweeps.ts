/** Sweeps, and workers that are alive or dead as a test needs them. */

import type { ProcessIdentity, SweepCounts } from "../../src/core/records.ts";
import { bootId, host, ownIdentity } from "../../src/platform/machine.ts";
import { RecoverySweep, type RecoverySweepOptions } from "../../src/recovery/sweep.ts";
import type { Bench } from "../leasing/fixture.ts";
import { workerRecord } from "../support/workers.ts";

export const SWEEP_GRACE_MS = 12_000;
export const EVERY_MS = 30_000;

export function sweepOf(b: Bench, options: Partial<RecoverySweepOptions> = {}): RecoverySweep {
  return new RecoverySweep({
    store: b.store,
    clock: b.clock,
    random: () => 0.5,
    report: () => {},
    store_url: b.path,
    grace_ms: SWEEP_GRACE_MS,
    every_ms: EVERY_MS,
    checkpoints: true,
    keep_checkpoints: 100,
    machine_time: () => ({ boot_id: "boot", uptime_ms: b.clock.mono_ms(), suspends: 0 }),
    ...options,
  });
}

/** Our own pid at another time: whoever it was is gone. */
export const DEAD: ProcessIdentity = { boot_id: bootId(), pid: process.pid, pid_started: 1 };
export const ALIVE: ProcessIdentity = ownIdentity();

export function register(b: Bench, id: string, identity: ProcessIdentity, on = host): Promise<void> {
  const now_ms = b.clock.wall_ms();
  const lives = { process: identity, slots: 1, started_at_ms: now_ms, seen_at_ms: now_ms };
  return b.store.saveWorker(workerRecord({ id, host: on, ...lives }));
}

export function counted(counts: Partial<SweepCounts>): SweepCounts {
  return {
    expired_found: 0,
    recovered: 0,
    failed: 0,
    cancelled: 0,
    checkpoints_created: 0,
    orphans_killed: 0,
    errors: 0,
    scan_duration_ms: 0,
    ...counts,
  };
}
