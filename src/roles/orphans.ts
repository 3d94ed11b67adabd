/**
 * What is left of an attempt whose worker is gone. It is killed before the job may run again on this machine, and only
 * with proof that it is what we think it is: a pid may have been given to somebody else in the meantime.
 */

import type { Clock } from "../core/clock.ts";
import { sleep } from "../core/clock.ts";
import type { ProcessIdentity } from "../core/records.ts";
import { bootId, environments, groupMembers, isProvenDead, processGroup } from "../platform/machine.ts";
import { groupLives, signalGroup } from "../runner/group.ts";

export interface Remains {
  job: number;
  /** Attempts with a lower token are remains; this one and later ones may be somebody's work. */
  before_token: number;
  /** Null when the worker died before it could note it. */
  process: ProcessIdentity | null;
}

const LOOK_EVERY_MS = 10;
const LOOKS = 200;

/** Answers how many process groups were killed; returns when they are dead. */
export async function killRemains(remains: Remains, marked: MarkedProcesses, clock: Clock): Promise<number> {
  const groups = groupsOf(remains, marked);
  for (const group of groups) signalGroup(group, "SIGKILL");
  for (let look = 0; look < LOOKS && groups.some(groupLives); look++) await sleep(clock, LOOK_EVERY_MS);
  return groups.length;
}

function groupsOf(remains: Remains, marked: MarkedProcesses): number[] {
  const { process } = remains;
  if (process === null) return unnotedGroups(remains, marked);
  if (process.boot_id !== bootId() || process.pid_started === 0 || !groupLives(process.pid)) return [];
  if (!isProvenDead(process)) return [process.pid];
  // The leader is gone. Its number stays taken while its group lives, so living members are either its own or, if the
  // number was free in between, a stranger's: their environment tells.
  const members = groupMembers(process.pid) ?? [];
  const own = new Set(marked.of(remains));
  return members.some((pid) => own.has(pid)) ? [process.pid] : [];
}

/** A worker killed between starting the child and noting it: what the child passed on to its own says whose they are. */
function unnotedGroups(remains: Remains, marked: MarkedProcesses): number[] {
  const groups = marked.of(remains).map(processGroup);
  return [...new Set(groups.filter((group) => group !== null))];
}

/** Processes that know from their environment which job they belong to. Looked up once, when first asked for. */
export class MarkedProcesses {
  readonly #store_url: string;
  #found: Map<number, { pid: number; token: number }[]> | null = null;

  /** `store_url` is what LEASE_STORE told the jobs: ids of another store mean nothing here. */
  constructor(store_url: string) {
    this.#store_url = store_url;
  }

  of({ job, before_token }: Remains): number[] {
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
