/**
 * What is left of an attempt whose worker is gone. It is killed before the job may run again on this machine, and only
 * with proof that it is what we think it is: a pid may have been given to somebody else in the meantime.
 */

import type { Clock } from "../core/clock.ts";
import { sleep } from "../core/clock.ts";
import type { ProcessIdentity } from "../core/records.ts";
import { environments, isProvenAlive, processGroup } from "../platform/machine.ts";
import { groupLives, signalGroup } from "../runner/group.ts";

export interface Leftovers {
  job: number;
  /** Attempts with a lower token are leftovers; this one and later ones may be somebody's work. */
  before_token: number;
  /** Null when the worker died before it could note it. */
  process: ProcessIdentity | null;
}

const LOOK_EVERY_MS = 10;
const LOOKS = 200;

/** Answers how many process groups were killed; returns when they are dead. `mayKill` is asked when there are some. */
export async function killLeftovers(
  leftovers: Leftovers,
  marked: MarkedLeftovers,
  clock: Clock,
  mayKill: () => Promise<boolean> = () => Promise.resolve(true),
): Promise<number> {
  const groups = groupsOf(leftovers, marked);
  if (groups.length === 0 || !(await mayKill())) return 0;
  for (const group of groups) signalGroup(group, "SIGKILL");
  for (let look = 0; look < LOOKS && groups.some(groupLives); look++) await sleep(clock, LOOK_EVERY_MS);
  return groups.length;
}

/** What was noted, and what says of itself that it belongs to the job: a worker may have died before it noted it. */
function groupsOf(leftovers: Leftovers, marked: MarkedLeftovers): number[] {
  const groups = marked.of(leftovers).map(processGroup);
  const { process } = leftovers;
  // A noted leader that still lives needs no marks, which a program may have taken out of its environment.
  if (process !== null && isProvenAlive(process)) groups.push(process.pid);
  return [...new Set(groups.filter((group) => group !== null))];
}

/** Processes that know from their environment which job they belong to. Looked up once, when first asked for. */
export class MarkedLeftovers {
  readonly #store_url: string;
  #found: Map<number, { pid: number; token: number }[]> | null = null;

  /** `store_url` is what LEASE_STORE told the jobs: ids of another store mean nothing here. */
  constructor(store_url: string) {
    this.#store_url = store_url;
  }

  of({ job, before_token }: Leftovers): number[] {
    this.#found ??= this.#find();
    const processes = this.#found.get(job) ?? [];
    return processes.filter(({ token }) => token < before_token).map(({ pid }) => pid);
  }

  #find() {
    const found = new Map<number, { pid: number; token: number }[]>();
    for (const { pid, environment } of environments()) {
      if (!environment.includes(`LEASE_STORE=${this.#store_url}`)) continue;
      const job = numberOf(environment, "LEASE_JOB_ID=");
      const token = numberOf(environment, "LEASE_TOKEN=");
      found.set(job, [...(found.get(job) ?? []), { pid, token }]);
    }
    return found;
  }
}

function numberOf(environment: readonly string[], prefix: string): number {
  return Number(environment.find((text) => text.startsWith(prefix))?.slice(prefix.length) ?? Number.NaN);
}
