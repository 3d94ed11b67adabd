/**
 * What is left of an attempt whose worker is gone, or is not to be trusted with it any more. It is killed before the job
 * may run again on this machine, and only with proof that it is what we think it is: a store may say anything, and a
 * number may have been given to somebody else in the meantime.
 *
 * Proof is never what the store says of a process. It is one of: a control group that a dead worker had made, or that
 * names the job; what the worker told its enforcer, in a folder that is ours alone; the marks of the job in the
 * environment of a process of our own user. From there its session and its sub-tree are found.
 */

import { basename, dirname } from "node:path";
import process from "node:process";
import type { Clock } from "../core/clock.ts";
import { sleep } from "../core/clock.ts";
import { hasOtherLives, storeName } from "../core/life.ts";
import type { ProcessIdentity } from "../core/records.ts";
import {
  cgroupFolders,
  cgroupMembers,
  cgroupNameOf,
  cgroupOf,
  cgroupsIn,
  isPopulated,
  killCgroup,
  removeCgroup,
  seesCgroups,
} from "../platform/cgroup.ts";
import {
  bootId,
  environments,
  identify,
  isProvenAlive,
  livingProcesses,
  livingStat,
  userOf,
} from "../platform/machine.ts";
import { groupExists, isSignallable, killIfSame } from "../platform/signals.ts";
import { confirmedIn } from "../runner/enforcer.ts";
import { FOLDER_PREFIX, ownerOf } from "../runner/fence.ts";
import { othersWorkHere, removeScratch, scratchFolders } from "../runner/scratch.ts";

export interface Leftovers {
  job: number;
  /** Attempts with a lower token are leftovers; this one and later ones may be somebody's work. */
  before_token: number;
  /** What the store says that it was. Null when the worker died before it could note it. */
  process: ProcessIdentity | null;
}

export interface Cleared {
  /** How many groups, or control groups. */
  killed: number;
  /** Processes of the job that could not be killed: the job must not run beside them. */
  survivors: readonly number[];
}

const LEFT = "left";

/** The control group of a daemon that a job left behind when it ended well, and what the enforcer knows a job by. */
export function leftoverName(store_id: string, job: number, token: number): string {
  return [LEFT, store_id, job, token].join(".");
}

const LOOK_EVERY_MS = 10;
const LOOKS = 200;
/** What was being born while the rest was killed is found by looking again. */
const ROUNDS = 5;

/** Returns when they are dead, or can't be killed. `mayKill` is asked when there are some. */
export async function killLeftovers(
  leftovers: Leftovers,
  search: LeftoverSearch,
  clock: Clock,
  mayKill: () => Promise<boolean> = () => Promise.resolve(true),
): Promise<Cleared> {
  let found = search.find(leftovers);
  const beyond = search.beyondUs(leftovers);
  if (found.cgroups.length + found.processes.length === 0 || !(await mayKill()))
    return { killed: 0, survivors: beyond };
  // One that has ended meanwhile is in none.
  const groups = new Set(
    found.processes.map(({ pid }) => livingStat(pid)?.group).filter((group) => group !== undefined),
  );
  // Most often one is the other as well.
  const killed = Math.max(found.cgroups.length, groups.size);
  for (let round = 0; round < ROUNDS; round++) {
    for (const cgroup of found.cgroups) killCgroup(cgroup);
    for (const one of found.processes) kill(one);
    const { cgroups, processes } = found;
    const lives = () => cgroups.some(isPopulated) || processes.some(isProvenAlive);
    for (let look = 0; look < LOOKS && lives(); look++) await sleep(clock, LOOK_EVERY_MS);
    found = search.again().find(leftovers);
    if (lives() || found.cgroups.length + found.processes.length === 0) break;
  }
  const survivors = [...found.cgroups.flatMap(cgroupMembers), ...found.processes.map(({ pid }) => pid), ...beyond];
  return { killed, survivors };
}

/** With the group that it leads. */
function kill(identity: ProcessIdentity): void {
  const { pid } = identity;
  killIfSame(pid, () => isProvenAlive(identity), { group: livingStat(pid)?.group === pid });
}

/**
 * Removes what a worker that is proven dead had made for itself: its folder for temporary files, and its control groups
 * but for those of daemons that its jobs left behind. And those of other dead workers: the stores of some are gone, and
 * each that stays is looked into by every sweep until the machine is restarted.
 */
export function removeBelongings(store_url: string, worker_id: string): void {
  for (const folder of scratchFolders(store_url, worker_id)) removeScratch(folder);
  for (const folder of cgroupFolders(FOLDER_PREFIX)) {
    if (ownerOf(basename(folder))?.dead !== true) continue;
    for (const cgroup of cgroupsIn(folder)) if (!isPopulated(cgroup)) removeCgroup(cgroup);
    if (cgroupsIn(folder).length === 0) removeCgroup(folder);
  }
}

interface Marked {
  pid: number;
  /** Less than any, where it was granted in another life of the store. */
  token: number;
}

interface Found {
  cgroups: readonly string[];
  processes: readonly ProcessIdentity[];
}

/** What on this machine may belong to a job of one store. Looked up once, when first asked for. */
export class LeftoverSearch {
  readonly #store_id: string;
  readonly #store_url: string;
  #marked: Map<number, Marked[]> | null = null;
  #folders: string[] | null = null;
  #unseen: ReturnType<typeof findUnseen> | null = null;
  #confirmed: ReturnType<typeof confirmedIn> | null = null;

  /** `store_url` is what LEASE_STORE told jobs that were started before stores had an id. */
  constructor(store_id: string, store_url: string) {
    this.#store_id = store_id;
    this.#store_url = store_url;
  }

  /** The same, with what has happened since. */
  again(): LeftoverSearch {
    return new LeftoverSearch(this.#store_id, this.#store_url);
  }

  find(leftovers: Leftovers): Found {
    const { cgroups, leaders, left } = this.#confirmedOf(leftovers);
    const known = [...leaders, ...left].filter(isProvenAlive);
    const own = [...known, ...[...this.#markedOf(leftovers), ...this.#unseenOf(leftovers)].map(identify)];
    const sessions = leaders.filter(({ boot_id }) => boot_id === bootId()).map(({ pid }) => pid);
    return {
      cgroups: [...new Set([...this.#cgroupsOf(leftovers), ...cgroups])].filter(isPopulated),
      processes: own.length + sessions.length === 0 ? own : withRelatives(own, sessions),
    };
  }

  /** It may have run as another user: somebody who can will see to it, its enforcer by its deadline at the latest. */
  isOutOfSight(): boolean {
    return othersWorkHere(this.#store_url);
  }

  /**
   * Processes of other users in the group or session that the job's program led: not ours to kill, as far as can be
   * told, but perhaps of the job all the same, which had better not run beside them.
   */
  beyondUs({ process: noted }: Leftovers): number[] {
    if (noted === null || noted.boot_id !== bootId() || !groupExists(noted.pid)) return [];
    const leader = livingStat(noted.pid);
    if (leader !== null && leader.started !== noted.pid_started) return [];
    const own = process.getuid?.();
    return (livingProcesses() ?? []).filter((pid) => {
      const stat = livingStat(pid);
      const related = stat !== null && (stat.group === noted.pid || stat.session === noted.pid);
      return related && stat.started >= noted.pid_started && userOf(pid) !== own;
    });
  }

  /**
   * The process that the store names, if it lives and nothing proves that it is the job's: it is left alone, and the row
   * is damaged.
   */
  stranger(leftovers: Leftovers): number | null {
    const { process: noted } = leftovers;
    if (noted === null) return null;
    const { pid } = noted;
    if (!Number.isSafeInteger(pid) || pid <= 1) return pid;
    if (!isProvenAlive(noted)) return null;
    const { cgroups, processes } = this.find(leftovers);
    const is_known = processes.some((one) => one.pid === pid) || cgroups.includes(cgroupOf(pid) ?? "");
    return is_known ? null : pid;
  }

  /** Whether something of a job may run that was granted in another life of the store. */
  hasOtherLives(job: number): boolean {
    if (!hasOtherLives(this.#store_id)) return false;
    const { cgroups, processes } = this.find({ job, before_token: 0, process: null });
    return cgroups.length + processes.length > 0;
  }

  /** Processes of our user that know from their environment which job they belong to. */
  #markedOf({ job, before_token }: Leftovers): number[] {
    this.#marked ??= this.#findMarked();
    const processes = this.#marked.get(job) ?? [];
    const own = process.getuid?.();
    return processes.filter(({ pid, token }) => token < before_token && userOf(pid) === own).map(({ pid }) => pid);
  }

  /** What its worker told the enforcer about the job. */
  #confirmedOf({ job, before_token }: Leftovers) {
    this.#confirmed ??= scratchFolders(this.#store_url).flatMap(confirmedIn);
    const own = this.#confirmed.filter(({ name }) => this.#names(name, job, before_token));
    const culprits = own.map(({ culprit }) => culprit);
    return {
      cgroups: culprits.flatMap((culprit) => ("cgroup" in culprit ? [culprit.cgroup] : [])).filter(isFence),
      leaders: culprits.flatMap((culprit) => ("leader" in culprit ? [culprit.leader] : [])),
      left: own.flatMap(({ left }) => left),
    };
  }

  #cgroupsOf(leftovers: Leftovers): string[] {
    this.#folders ??= cgroupFolders(FOLDER_PREFIX);
    return this.#folders.flatMap((folder) =>
      cgroupsIn(folder).filter((cgroup) => this.#isLeft(basename(folder), basename(cgroup), leftovers)),
    );
  }

  /** A control group, in the folder of a worker. */
  #isLeft(folder_name: string, name: string, { job, before_token }: Leftovers): boolean {
    if (name.startsWith(`${LEFT}.`)) return this.#names(name, job, before_token);
    // Whoever recovered its jobs may not have seen what they left: in the groups of a dead worker all is nobody's.
    const owner = ownerOf(folder_name);
    return owner?.dead === true && owner.store_id === this.#store_id;
  }

  /** Where no control group can be seen, processes of our user in them: of each the kernel tells in which it is. */
  #unseenOf(leftovers: Leftovers): number[] {
    this.#unseen ??= seesCgroups() ? [] : findUnseen();
    return this.#unseen
      .filter(({ folder_name, name }) => this.#isLeft(folder_name, name, leftovers))
      .map(({ pid }) => pid);
  }

  #names(name: string, job: number, before_token: number): boolean {
    const [left, store_id, of_job, token] = name.split(".");
    const same = left === LEFT && storeName(store_id ?? "") === storeName(this.#store_id) && Number(of_job) === job;
    return same && (store_id !== this.#store_id || Number(token) < before_token);
  }

  #findMarked(): Map<number, Marked[]> {
    const found = new Map<number, Marked[]>();
    for (const { pid, environment } of environments()) {
      const id = valueOf(environment, "LEASE_STORE_ID=");
      const of_store =
        id === null
          ? valueOf(environment, "LEASE_STORE=") === this.#store_url
          : storeName(id) === storeName(this.#store_id);
      if (!of_store) continue;
      const job = Number(valueOf(environment, "LEASE_JOB_ID=") ?? Number.NaN);
      const of_other_life = id !== null && id !== this.#store_id;
      const token = of_other_life ? -Infinity : Number(valueOf(environment, "LEASE_TOKEN=") ?? Number.NaN);
      found.set(job, [...(found.get(job) ?? []), { pid, token }]);
    }
    return found;
  }
}

function findUnseen() {
  const own = process.getuid?.();
  return (livingProcesses() ?? []).flatMap((pid) => {
    const parts = cgroupNameOf(pid)?.split("/") ?? [];
    const at = parts.findIndex((part) => part.startsWith(FOLDER_PREFIX));
    const [folder_name, name] = parts.slice(at, at + 2);
    return at < 0 || name === undefined || userOf(pid) !== own ? [] : [{ pid, folder_name: folder_name ?? "", name }];
  });
}

/** A control group that some worker made for a job. */
function isFence(cgroup: string): boolean {
  return ownerOf(basename(dirname(cgroup))) !== null;
}

/**
 * With those of our user in their sessions, and those that descend from them: a program may empty its environment. The
 * session of a job is its own, and never the one that we are in.
 */
function withRelatives(own: readonly ProcessIdentity[], led: readonly number[]): ProcessIdentity[] {
  const [user, own_session] = [process.getuid?.(), livingStat(process.pid)?.session];
  const everybody = (livingProcesses() ?? []).flatMap((pid) => {
    const stat = livingStat(pid);
    return stat !== null && isSignallable(pid) ? [{ pid, ...stat }] : [];
  });
  const pids = new Set(own.map(({ pid }) => pid));
  const sessions = new Set([...led, ...everybody.filter(({ pid }) => pids.has(pid)).map(({ session }) => session)]);
  for (let before = -1; before !== pids.size;) {
    before = pids.size;
    for (const { pid, parent, session } of everybody) {
      const related = pids.has(parent) || (session > 1 && session !== own_session && sessions.has(session));
      if (related && !pids.has(pid) && userOf(pid) === user) pids.add(pid);
    }
  }
  const known = new Map(own.map((one) => [one.pid, one]));
  return [...pids].map((pid) => known.get(pid) ?? identify(pid)).filter(isProvenAlive);
}

function valueOf(environment: readonly string[], prefix: string): string | null {
  return environment.find((text) => text.startsWith(prefix))?.slice(prefix.length) ?? null;
}
