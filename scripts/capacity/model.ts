/**
 * Many workers on one PostgreSQL, as a closed queueing network, solved exactly by mean value analysis.
 *
 *     W workers × S slots = N customers, each going round:
 *
 *     ┌─▶ the job runs, answers travel, the log is synced ──▶ the server's processors ─┐
 *     │        Z: nobody waits for anybody                       k of them, c each     │
 *     └─────────────────────────────────────────────────────────────────────────────────┘
 *
 * A slot acquires, runs its job, settles, and begins again: a customer. What it needs of the server's processors for one
 * job (acquire, settle, their share of a commit) is c; k processors are taken as one that is k times as fast and a delay
 * for the rest (Seidmann's approximation). A sync of the log is a delay: one sync serves everybody who waits for it, so
 * that nobody queues for it. Beats take processor time beside: one extension per job and interval.
 *
 * Where it ends: throughput is never above k / c, whatever the number of workers; from N* = k (Z + c) / c slots on, each
 * more only waits. Shards (one server for some queues each) share nothing: S servers do S times as much.
 */

/** What one job costs, measured. */
export interface Costs {
  /** Of the server's processors, for one job. */
  server_ms: number;
  /** Of the worker's processor, for one job. */
  worker_ms: number;
  /** A sync of the log, and how many of them a job waits for. */
  sync_ms: number;
  syncs: number;
  /** Of the server's processors, for one extension. */
  beat_ms: number;
}

export interface Load {
  workers: number;
  slots: number;
  job_ms: number;
  /** Processors of the server. */
  processors: number;
  /** Between a worker and the server, there and back; a job needs two. */
  round_trip_ms: number;
  /** Between two extensions of a lease. */
  interval_ms: number;
  /** Workers and the server share the processors: what workers need is taken from the same. */
  one_machine?: boolean;
}

export interface Prediction {
  jobs_per_s: number;
  /** Of the server's processors, with the beats. */
  utilisation: number;
  /** How much longer a job takes than it would alone. */
  waits_ms: number;
  /** Above this there is no more to be had. */
  limit_per_s: number;
  /** From so many slots on, more of them only wait. */
  saturated_by_slots: number;
}

export function predict(costs: Costs, load: Load): Prediction {
  const { processors, job_ms, interval_ms } = load;
  const slots = load.workers * load.slots;
  const demand_ms = costs.server_ms + (load.one_machine === true ? costs.worker_ms : 0);
  const think_ms = job_ms + costs.syncs * costs.sync_ms + 2 * load.round_trip_ms;
  // Jobs that outlive the interval beat once in each; what that takes is not there for the others.
  const beats_per_s = job_ms > interval_ms ? (slots * 1_000) / interval_ms : 0;
  const beaten = Math.min(0.95, (beats_per_s * costs.beat_ms) / 1_000 / processors);
  const left = processors * (1 - beaten);
  const { per_ms, response_ms } = meanValues(slots, demand_ms, left, think_ms);
  return {
    jobs_per_s: per_ms * 1_000,
    utilisation: beaten + (per_ms * demand_ms) / processors,
    waits_ms: Math.max(0, response_ms - demand_ms),
    limit_per_s: (left / demand_ms) * 1_000,
    saturated_by_slots: Math.ceil((left * (think_ms + demand_ms)) / demand_ms),
  };
}

/** The exact recursion over customers: who arrives finds what is there with one customer less. */
function meanValues(customers: number, demand_ms: number, processors: number, think_ms: number) {
  const servers = Math.max(1, processors);
  const queueing_ms = demand_ms / Math.min(servers, processors);
  const delay_ms = (demand_ms * (servers - 1)) / servers;
  let queued = 0;
  let [per_ms, response_ms] = [0, demand_ms];
  for (let n = 1; n <= customers; n++) {
    const waiting_ms = queueing_ms * (1 + queued);
    response_ms = waiting_ms + delay_ms;
    per_ms = n / (think_ms + response_ms);
    queued = per_ms * waiting_ms;
  }
  return { per_ms, response_ms };
}
