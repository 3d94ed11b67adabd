/** The parts of a worker, put together from what it was told. */

import { tmpdir } from "node:os";
import { join } from "node:path";
import type { WorkerRecord } from "../core/records.ts";
import { LeaseManager } from "../leasing/manager.ts";
import { host } from "../platform/machine.ts";
import type { AttemptOptions } from "./attempt.ts";
import { LogFlusher } from "./log_flusher.ts";
import { StoreTrouble } from "./store_trouble.ts";
import type { WorkerPoolOptions } from "./pool_options.ts";
import { Registration } from "./registration.ts";
import { Slots } from "./slots.ts";
import { RecoverySweep } from "../recovery/sweep.ts";

const REGISTRY_REFRESH_MS = 10_000;
const KEPT_CHECKPOINTS = 100;
/** How soon a worker that died on this machine is noticed. */
const DEAD_EVERY_MS = 1_000;

export interface Hooks {
  patience_ms: () => number;
  activity: () => Pick<WorkerRecord, "draining" | "completed" | "failed">;
  hurried?: () => boolean;
}

export function assemble(options: WorkerPoolOptions, { patience_ms, activity, hurried = () => false }: Hooks) {
  const { store, clock, random, times } = options;
  const slots = new Slots({
    clock,
    slots: options.slots,
    scaling: options.scaling ?? null,
    pending: async () => (await store.backlog(options)).pending,
  });
  const registration = new Registration({
    ...options,
    activity: () => ({ slots: slots.total, ...activity() }),
    refresh_ms: REGISTRY_REFRESH_MS,
  });
  const manager = new LeaseManager({
    store,
    clock,
    random,
    host,
    worker_id: registration.id,
    lease_ms: options.learn ? 0 : times.lease_ms,
  });
  const sweep = new RecoverySweep({
    ...options,
    grace_ms: times.sweep_grace_ms,
    every_ms: times.sweep_every_ms,
    dead_every_ms: DEAD_EVERY_MS,
    checkpoints: true,
    keep_checkpoints: KEPT_CHECKPOINTS,
  });
  const attempt_options: AttemptOptions = {
    ...options,
    manager,
    patience_ms,
    hurried,
    logs: new LogFlusher(store, clock),
    // Jobs with a lease of their own get the same share of it.
    interval_ms: (lease_ms) => Math.round((times.interval_ms * lease_ms) / times.lease_ms),
    scratch: join(tmpdir(), `lease-${registration.id}`),
  };
  return { slots, registration, manager, sweep, attempt_options, patience: new StoreTrouble(clock) };
}
