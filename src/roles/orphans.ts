/**
 * What is left of an attempt whose worker is gone. It is killed before the job may run again on this machine, and only
 * with proof that it is what we think it is: a pid may have been given to somebody else in the meantime.
 */

import type { Clock } from "../core/clock.ts";
import { sleep } from "../core/clock.ts";
import type { ProcessIdentity } from "../core/records.ts";
import { bootId, groupMembers, isProvenDead, processesWith } from "../platform/machine.ts";
import { groupLives, signalGroup } from "../runner/group.ts";

export interface Remains {
  job: number;
  token: number;
  /** As the attempt saw it in LEASE_STORE. */
  store: string;
  /** Null when the worker died before it could note it. */
  process: ProcessIdentity | null;
}

const LOOK_EVERY_MS = 10;
const LOOKS = 200;

/** Answers how many process groups were killed; returns when they are dead. */
export async function killRemains(remains: Remains, clock: Clock): Promise<number> {
  const groups = groupsOf(remains);
  for (const group of groups) signalGroup(group, "SIGKILL");
  for (let look = 0; look < LOOKS && groups.some(groupLives); look++) await sleep(clock, LOOK_EVERY_MS);
  return groups.length;
}

function groupsOf(remains: Remains): number[] {
  const { process } = remains;
  if (process === null) return unnotedGroups(remains);
  if (process.boot_id !== bootId() || process.pid_started === 0) return [];
  if (!isProvenDead(process)) return [process.pid];
  // The leader is gone. Its number stays taken while its group lives, so living members are either its own or, if the
  // number was free in between, a stranger's: their environment tells.
  const members = groupMembers(process.pid) ?? [];
  const own = new Set(markedProcesses(remains));
  return members.some((pid) => own.has(pid)) ? [process.pid] : [];
}

/** A worker killed between starting the child and noting it: the child's own environment says whose it is. */
function unnotedGroups(remains: Remains): number[] {
  // The child led its group, so a marked process that leads one is it; what it started is in that group.
  return markedProcesses(remains).filter((pid) => groupMembers(pid)?.includes(pid) === true);
}

function markedProcesses({ job, token, store }: Remains): number[] {
  return processesWith([`LEASE_JOB_ID=${job}`, `LEASE_TOKEN=${token}`, `LEASE_STORE=${store}`]);
}
