/** Which limit keeps a job from starting, or which need: from what is in use and what the live workers have. */

import type { Job } from "../core/job.ts";
import { sizeOf, type Resources } from "../core/resources.ts";
import type { WorkerRecord } from "../core/records.ts";
import type { PlanReader } from "../store/plans.ts";
import { limitReason, needReason, type NeedFact } from "../view/limits.ts";

interface Machine {
  has: (name: string) => number | null;
  free: (name: string) => number;
}

/** `takers`: the live workers that take the job. */
export type BoundReason = (job: Job, takers: readonly WorkerRecord[]) => string | null;

export async function boundsAround(
  store: PlanReader,
  pending: readonly Job[],
  live: readonly WorkerRecord[],
  now_ms: number,
): Promise<BoundReason> {
  if (pending.length === 0) return () => null;
  const needing = pending.some(({ needs }) => Object.keys(needs).length > 0);
  const [uses, holdings] = await Promise.all([store.limits(), needing ? store.holdings() : []]);
  const machines = new Map<string, Machine>();
  for (const { host } of live) {
    const workers = live.filter((worker) => worker.host === host);
    machines.set(
      host,
      machineOf(
        workers,
        holdings.filter((holding) => holding.host === host).map(({ held }) => held),
      ),
    );
  }
  return (job, takers) => {
    const hosts = new Set(takers.map(({ host }) => host));
    const own = [...machines].flatMap(([host, machine]) => (hosts.has(host) ? [machine] : []));
    return limitReason(job, uses, now_ms) ?? lacking(job, own);
  };
}

/** All workers of a host share what they have. */
function machineOf(workers: readonly WorkerRecord[], held: readonly Resources[]): Machine {
  const has = (name: string) => {
    const sizes = workers.flatMap(({ have }) => (have[name] === undefined ? [] : [sizeOf(have[name])]));
    return sizes.length === 0 ? null : Math.max(...sizes);
  };
  const free = (name: string) => (has(name) ?? 0) - held.reduce((sum, one) => sum + sizeOf(one[name]), 0);
  return { has, free };
}

function lacking({ needs }: Job, machines: readonly Machine[]): string | null {
  const wanted = Object.entries(needs);
  if (wanted.length === 0) return null;
  const facts = wanted.map(([name, amount]): NeedFact => {
    const having = machines.filter(({ has }) => has(name) !== null);
    const best = having.toSorted((a, b) => b.free(name) - a.free(name))[0];
    const most = having.length === 0 ? null : Math.max(...having.map(({ has }) => has(name) ?? 0));
    const of = best !== undefined && (best.has(name) ?? 0) >= amount ? best.has(name) : most;
    return { name, amount, free: best?.free(name) ?? 0, has: of };
  });
  const together = machines.some(({ free }) => wanted.every(([name, amount]) => free(name) >= amount));
  return needReason(facts, together);
}
