/**
 * What is left of an attempt whose worker is gone, or is not to be trusted with it any more. It is killed before the job
 * may run again on this machine, and only with proof that it is what we think it is: a pid may have been given to
 * somebody else in the meantime.
 *
 * It is found by its control group (that of the process that was noted, those of a dead worker, that of a daemon which
 * the job left behind), by its process group, and by the marks in its environment.
 */

import { lstatSync, rmSync } from "node:fs";
import { userInfo } from "node:os";
import { basename, dirname } from "node:path";
import type { Clock } from "../core/clock.ts";
import { sleep } from "../core/clock.ts";
import type { ProcessIdentity } from "../core/records.ts";
import { cgroupFolders, cgroupOf, cgroupsIn, isPopulated, killCgroup, removeCgroup } from "../platform/cgroup.ts";
import { environments, isProvenAlive, processGroup } from "../platform/machine.ts";
import { enforcerFolder } from "../runner/enforcer.ts";
import { FOLDER_PREFIX } from "../runner/fence.ts";
import { groupLives, signalGroup } from "../runner/group.ts";
import { resultFolder } from "../runner/result_file.ts";

export interface Leftovers {
  job: number;
  /** Attempts with a lower token are leftovers; this one and later ones may be somebody's work. */
  before_token: number;
  /** Null when the worker died before it could note it. */
  process: ProcessIdentity | null;
  /** The worker that held it, where that is proven dead: all that is in its control groups is nobody's. */
  dead_worker?: string | null;
}

const LEFT = "left";

/** The control group of a daemon that a job left behind when it ended well. */
export function leftoverName(store_id: string, job: number, token: number): string {
  return [LEFT, store_id, job, token].join(".");
}

const LOOK_EVERY_MS = 10;
const LOOKS = 200;

/** Answers how many groups were killed; returns when they are dead. `mayKill` is asked when there are some. */
export async function killLeftovers(
  leftovers: Leftovers,
  search: LeftoverSearch,
  clock: Clock,
  mayKill: () => Promise<boolean> = () => Promise.resolve(true),
): Promise<number> {
  const cgroups = search.cgroups(leftovers).filter(isPopulated);
  const groups = groupsOf(leftovers, search);
  if (cgroups.length + groups.length === 0 || !(await mayKill())) return 0;
  for (const cgroup of cgroups) killCgroup(cgroup);
  for (const group of groups) signalGroup(group, "SIGKILL");
  const lives = () => cgroups.some(isPopulated) || groups.some(groupLives);
  for (let look = 0; look < LOOKS && lives(); look++) await sleep(clock, LOOK_EVERY_MS);
  // Most often one is the other as well.
  return Math.max(cgroups.length, groups.length);
}

/** What was noted, and what says of itself that it belongs to the job: a worker may have died before it noted it. */
function groupsOf(leftovers: Leftovers, search: LeftoverSearch): number[] {
  const groups = search.marked(leftovers).map(processGroup);
  const { process } = leftovers;
  // A noted leader that still lives needs no marks, which a program may have taken out of its environment.
  if (process !== null && isProvenAlive(process)) groups.push(process.pid);
  return [...new Set(groups.filter((group) => group !== null))];
}

/**
 * Removes what a worker that is proven dead had made for itself: its folders for temporary files, and its control groups
 * but for those of daemons that its jobs left behind.
 */
export function removeBelongings(worker_id: string): void {
  for (const folder of [resultFolder(worker_id), enforcerFolder(worker_id)]) removeOwn(folder);
  for (const folder of cgroupFolders(FOLDER_PREFIX + worker_id)) {
    for (const cgroup of cgroupsIn(folder)) if (!isPopulated(cgroup)) removeCgroup(cgroup);
    if (cgroupsIn(folder).length === 0) removeCgroup(folder);
  }
}

/** Only a folder of ours: in a place for temporary files anybody may make one of that name. */
function removeOwn(folder: string): void {
  try {
    const { uid } = lstatSync(folder);
    if (uid === userInfo().uid) rmSync(folder, { recursive: true, force: true });
  } catch {
    // There is none, or it is not ours to remove.
  }
}

interface Marked {
  pid: number;
  token: number;
}

/** What on this machine may belong to a job of one store. Looked up once, when first asked for. */
export class LeftoverSearch {
  readonly #store_id: string;
  readonly #store_url: string;
  #marked: Map<number, Marked[]> | null = null;
  #folders: string[] | null = null;

  /** `store_url` is what LEASE_STORE told jobs that were started before stores had an id. */
  constructor(store_id: string, store_url: string) {
    this.#store_id = store_id;
    this.#store_url = store_url;
  }

  /** Processes that know from their environment which job they belong to. */
  marked({ job, before_token }: Leftovers): number[] {
    this.#marked ??= this.#findMarked();
    const processes = this.#marked.get(job) ?? [];
    return processes.filter(({ token }) => token < before_token).map(({ pid }) => pid);
  }

  cgroups({ job, before_token, process, dead_worker = null }: Leftovers): string[] {
    this.#folders ??= cgroupFolders(FOLDER_PREFIX);
    if (this.#folders.length === 0) return [];
    const noted = process !== null && isProvenAlive(process) ? cgroupOf(process.pid) : null;
    const found = this.#folders.flatMap((folder) => {
      const is_dead = dead_worker !== null && basename(folder) === FOLDER_PREFIX + dead_worker;
      return cgroupsIn(folder).filter((cgroup) => {
        const [left, store_id, of_job, token] = basename(cgroup).split(".");
        if (left !== LEFT) return is_dead;
        return store_id === this.#store_id && Number(of_job) === job && Number(token) < before_token;
      });
    });
    return noted !== null && this.#folders.includes(dirname(noted)) ? [...new Set([...found, noted])] : found;
  }

  #findMarked(): Map<number, Marked[]> {
    const found = new Map<number, Marked[]>();
    for (const { pid, environment } of environments()) {
      const id = valueOf(environment, "LEASE_STORE_ID=");
      if (id === null ? valueOf(environment, "LEASE_STORE=") !== this.#store_url : id !== this.#store_id) continue;
      const job = Number(valueOf(environment, "LEASE_JOB_ID=") ?? Number.NaN);
      const token = Number(valueOf(environment, "LEASE_TOKEN=") ?? Number.NaN);
      found.set(job, [...(found.get(job) ?? []), { pid, token }]);
    }
    return found;
  }
}

function valueOf(environment: readonly string[], prefix: string): string | null {
  return environment.find((text) => text.startsWith(prefix))?.slice(prefix.length) ?? null;
}
