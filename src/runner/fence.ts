/**
 * What keeps a job's processes together, so that stopping it reaches all of them.
 *
 * `cgroup`: where the kernel lets us, each attempt is born in a control group. What it starts stays there, whatever it
 * does to its group, session and environment; one write kills it all. Groups are used again: making one for each of many
 * short jobs would cost more than the fence.
 *
 * `tree`: elsewhere a worker adopts what its jobs leave behind, and knows it by its descent (see tree.ts).
 *
 * `group`: where that can't be had either, the process group of which the job's program is the leader. What leaves it is
 * found by its marks (see recovery/leftovers.ts) or not at all.
 *
 * A job that ended well may leave a daemon in a session of its own; that one is let go, into a group that names the job,
 * to be found when the job is to run again.
 */

import type { Limits } from "../core/job.ts";
import { once } from "../core/once.ts";
import type { FenceKind, ProcessIdentity } from "../core/records.ts";
import {
  cgroupMembers,
  cpuTime_ms,
  Population,
  killCgroup,
  makeCgroup,
  makeCgroupFolder,
  moveMembers,
  removeCgroup,
} from "../platform/cgroup.ts";
import { hasLimits, limit, type Limited } from "../platform/cgroup_limits.ts";
import { bootId, groupMembers, isProvenDead, ownIdentity, processGroup } from "../platform/machine.ts";
import { signalGroup, signalProcess } from "../platform/signals.ts";
import { askToEnd, groupLives } from "./group.ts";
import { Trees } from "./tree.ts";

export interface Fence {
  readonly kind: FenceKind;
  /** The control group that the program is to be born in; null: there is only its process group. */
  readonly cgroup: string | null;
  /** What holds it to the limits of its job, if it has any. */
  readonly limited: Limited | null;
  /** Processor time that was taken in it, where it is known better than by whoever waits for the program. */
  cpu_ms(): number | null;
  /** Its program runs, with that environment. What leaves its group is noted, for whoever has to find it later. */
  started(
    leader: number,
    env: Readonly<Record<string, string>>,
    note?: (left: readonly ProcessIdentity[]) => void,
  ): void;
  /** Anything of the job runs, wherever it went. */
  lives(leader: number): boolean;
  /** Asks all of it to end. */
  ask(leader: number): void;
  kill(leader: number): void;
  /** What of it runs, to be named. */
  survivors(leader: number): number[];
  /** What is left is no longer part of the job. */
  letGo(name: string): void;
  /** Nothing of the job is left: the next one may have it, unless something was killed in it. */
  release(options: { killed: boolean }): void;
}

export const GROUP_FENCE: Fence = {
  kind: "group",
  cgroup: null,
  limited: null,
  cpu_ms: () => null,
  started: () => {},
  survivors: (leader) => groupMembers(leader) ?? [],
  lives: groupLives,
  ask: askToEnd,
  kill: (leader) => void signalGroup(leader, "SIGKILL"),
  letGo: () => {},
  release: () => {},
};

/** By which a worker's control groups are found after it. */
export const FOLDER_PREFIX = "lease-";
const SEPARATOR = "~";

/** Names the process of the worker too: whether that is dead is for the kernel to say, not for a store. */
function folderName(worker_id: string, store_id: string): string {
  const { pid, pid_started } = ownIdentity();
  return FOLDER_PREFIX + [worker_id, pid, pid_started, namespaces(), store_id].join(SEPARATOR);
}

/** Those that numbers of processes and their starts can be compared in; a name has no room for a slash. */
function namespaces(): string {
  return bootId()
    .replaceAll(/[^\d:/]/g, "")
    .split("/")
    .slice(1)
    .join(".");
}

/** The worker whose folder it is, by its name, whose jobs it ran, and whether it is proven dead. */
export function ownerOf(folder_name: string): { worker_id: string; store_id: string; dead: boolean } | null {
  const [worker_id = "", pid, started, known, store_id = ""] = folder_name.slice(FOLDER_PREFIX.length).split(SEPARATOR);
  if (!folder_name.startsWith(FOLDER_PREFIX) || known === undefined) return null;
  const comparable = known === namespaces();
  const process = { boot_id: bootId(), pid: Number(pid), pid_started: Number(started) };
  return { worker_id, store_id, dead: comparable && isProvenDead(process) };
}

/** The fences of one worker. */
export class Fences {
  readonly #name: () => string;
  /** Undefined before the first job. */
  #folder: string | null | undefined;
  readonly #free: string[] = [];
  readonly #populations = new Map<string, Population>();
  readonly #adopts: boolean;
  /** What something lived in when its job was over. */
  readonly #limited: Limited[] = [];
  /** Of groups that are used again: what was taken in them before. */
  readonly #taken_ms = new Map<string, number>();
  #trees: Trees | null = null;
  #made = 0;

  /** `adopts`: this process may become the parent of what jobs leave behind; not where it has other children. */
  constructor(worker_id: string, store_id: () => string, { adopts = false }: { adopts?: boolean } = {}) {
    this.#adopts = adopts;
    // Known when there is a job to run, and not before.
    this.#name = once(() => folderName(worker_id, store_id()));
  }

  /** Throws where the job asks for a limit that can't be had. */
  take(limits: Limits): Fence {
    if (this.#folder === undefined) this.#folder = makeCgroupFolder(this.#name());
    const folder = this.#folder;
    if (hasLimits(limits)) return this.#limitedFence(folder, limits);
    if (folder === null) return this.#treeFence();
    const path = this.#free.pop() ?? makeCgroup(folder, String(++this.#made));
    return path === null ? this.#treeFence() : this.#cgroupFence(folder, path);
  }

  /** In a group of its own, which nobody has been in before. */
  #limitedFence(folder: string | null, limits: Limits): Fence {
    const name = String(++this.#made);
    const path = folder === null ? null : makeCgroup(folder, name);
    try {
      const limited = limit(path, `${this.#name()}-${name}`, limits);
      const fence = folder === null || path === null ? this.#treeFence() : this.#cgroupFence(folder, path);
      return {
        kind: fence.kind,
        cgroup: fence.cgroup,
        limited,
        cpu_ms: () => fence.cpu_ms(),
        started: (leader, env, noted) => fence.started(leader, env, noted),
        lives: (leader) => fence.lives(leader),
        ask: (leader) => fence.ask(leader),
        kill: (leader) => fence.kill(leader),
        survivors: (leader) => fence.survivors(leader),
        letGo: (of) => fence.letGo(of),
        release: () => {
          fence.release({ killed: true });
          if (!limited.remove()) this.#limited.push(limited);
        },
      };
    } catch (error) {
      if (path !== null) removeCgroup(path);
      throw error;
    }
  }

  #treeFence(): Fence {
    if (this.#adopts) this.#trees ??= Trees.adopting();
    return this.#trees?.fence() ?? GROUP_FENCE;
  }

  /** What was let go stays, with the folder around it. */
  end(): void {
    this.#trees?.end();
    for (const limited of this.#limited) limited.remove();
    for (const path of this.#free.splice(0)) this.#retire(path);
    if (typeof this.#folder === "string") removeCgroup(this.#folder);
  }

  /** It is not used again. */
  #retire(path: string): void {
    this.#taken_ms.delete(path);
    this.#populations.get(path)?.close();
    this.#populations.delete(path);
    removeCgroup(path);
  }

  #cgroupFence(folder: string, path: string): Fence {
    let released = false;
    let emptied = false;
    const population = this.#populations.get(path) ?? new Population(path);
    this.#populations.set(path, population);
    return {
      kind: "cgroup",
      cgroup: path,
      started: () => {},
      limited: null,
      cpu_ms: () => {
        const before_ms = this.#taken_ms.get(path) ?? 0;
        const now_ms = cpuTime_ms(path);
        if (now_ms === null) return null;
        this.#taken_ms.set(path, now_ms);
        return now_ms - before_ms;
      },
      survivors: () => cgroupMembers(path),
      lives() {
        const populated = !released && population.isPopulated();
        emptied = !populated;
        return populated;
      },
      ask(leader) {
        if (released) return;
        askToEnd(leader);
        for (const pid of cgroupMembers(path)) if (processGroup(pid) !== leader) askOne(pid);
      },
      // Once it is released somebody else's job may be in it.
      kill: () => void (released || killCgroup(path)),
      letGo(name) {
        const home = makeCgroup(folder, name);
        if (home !== null) moveMembers(path, home);
      },
      release: ({ killed }) => {
        released = true;
        // Some kernels kill whatever is born in a group that was killed as a whole before. Nothing is born in an empty one.
        if (killed || (!emptied && population.isPopulated())) this.#retire(path);
        else this.#free.push(path);
      },
    };
  }
}

/** As askToEnd does it, for one process that left the group. One that has changed its user waits for the kill. */
function askOne(pid: number): void {
  if (signalProcess(pid, "SIGTERM")) signalProcess(pid, "SIGCONT");
}
