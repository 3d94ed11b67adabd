/**
 * Limits of memory, processes and processors, by control groups. In version 2 they are of the group that a job is born
 * in, if its controllers are ours to give; in version 1, which many machines still have beside it, of one more group per
 * controller, that the job's program is moved into before it begins.
 *
 * What can't be had is said, by name: a job that asked for a limit is not run without it.
 */

import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import type { Limits } from "../core/job.ts";
import { LeaseError } from "../core/errors.ts";
import { ownFolder } from "./cgroup.ts";

type Controller = "memory" | "pids" | "cpu";

const CONTROLLERS = { memory_bytes: "memory", pids: "pids", cpus: "cpu" } as const satisfies Record<
  keyof Limits,
  Controller
>;

/** The time within which processors are counted. */
const PERIOD_US = 100_000;

/** What is written for a limit, in each version. */
const SETTINGS = {
  memory: {
    // Without the second one a job would go on in the swap.
    v2: (bytes: number) => [["memory.max", bytes] as const, ["memory.swap.max", 0] as const],
    v1: (bytes: number) => [["memory.limit_in_bytes", bytes] as const, ["memory.memsw.limit_in_bytes", bytes] as const],
  },
  pids: {
    v2: (count: number) => [["pids.max", count] as const],
    v1: (count: number) => [["pids.max", count] as const],
  },
  cpu: {
    v2: (cpus: number) => [["cpu.max", `${Math.round(cpus * PERIOD_US)} ${PERIOD_US}`] as const],
    v1: (cpus: number) => [
      ["cpu.cfs_period_us", PERIOD_US] as const,
      ["cpu.cfs_quota_us", Math.round(cpus * PERIOD_US)] as const,
    ],
  },
};
/** There only where the kernel counts swap. */
const OPTIONAL = new Set(["memory.swap.max", "memory.memsw.limit_in_bytes"]);

export interface Limited {
  /** Files into which the program writes its number before it begins; none in version 2. */
  readonly joins: readonly string[];
  peakMemory(): number | null;
  /** The kernel killed something in it because it had no more memory to give. */
  ranOutOfMemory(): boolean;
  /** False while something lives in it. */
  remove(): boolean;
}

export function hasLimits(limits: Limits): boolean {
  return limits.memory_bytes !== null || limits.pids !== null || limits.cpus !== null;
}

/** Limits what will be born in the control group (null: there is none), or throws with the one that can't be had. */
export function limit(cgroup: string | null, name: string, limits: Limits): Limited {
  const made: Partial<Record<Controller, string>> = {};
  const own: string[] = [];
  const remove = () => own.every(removed);
  try {
    for (const [field, controller] of Object.entries(CONTROLLERS) as [keyof Limits, Controller][]) {
      const value = limits[field];
      if (value === null) continue;
      const v2 = cgroup !== null && hasController(cgroup, controller);
      const group = v2 ? cgroup : makeV1(controller, name);
      if (group === null) throw refusal(controller);
      if (!v2) own.push(group);
      made[controller] = group;
      for (const [file, text] of SETTINGS[controller][v2 ? "v2" : "v1"](value))
        write(join(group, file), text, controller);
    }
  } catch (error) {
    remove();
    throw error;
  }
  const { memory } = made;
  return {
    joins: own.map((group) => join(group, "cgroup.procs")),
    peakMemory: () => (memory === undefined ? null : peakMemory(memory)),
    ranOutOfMemory: () => memory !== undefined && ranOutOfMemory(memory),
    remove,
  };
}

function refusal(controller: Controller): LeaseError {
  const flag = { memory: "--memory", pids: "--pids", cpu: "--cpus" }[controller];
  const how =
    "run the worker as root, or in a delegated cgroup: systemd-run --user --scope -p Delegate=yes lease worker";
  const message = `${flag} can't be had here: there is no ${controller} controller that this worker may use; ${how}`;
  return new LeaseError("not_executable", message);
}

function write(path: string, text: string | number, controller: Controller): void {
  try {
    writeFileSync(path, String(text));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT" || !OPTIONAL.has(path.slice(path.lastIndexOf("/") + 1)))
      throw refusal(controller);
  }
}

/** Whether groups here have it, after asking for it all the way down from the one that we are in. */
function hasController(cgroup: string, controller: Controller): boolean {
  const folder = join(cgroup, "..");
  const own = join(folder, "..");
  if (!enabled(folder, controller) && enabled(own, controller) && !enable(own, controller))
    enableAround(own, controller);
  if (!enabled(cgroup, controller) && enabled(folder, controller)) enable(folder, controller);
  return enabled(cgroup, controller);
}

const enabled = (group: string, controller: Controller) => hasWord(join(group, "cgroup.controllers"), controller);
const enable = (group: string, controller: Controller) =>
  written(join(group, "cgroup.subtree_control"), `+${controller}`);

/** Groups that share out memory have no processes of their own: we move into one beside those of the jobs. */
function enableAround(own: string, controller: Controller): void {
  const leaf = join(own, `lease-worker-${process.pid}`);
  try {
    mkdirSync(leaf);
  } catch {
    return;
  }
  const moved = written(join(leaf, "cgroup.procs"), String(process.pid));
  if (moved && enable(own, controller)) return;
  if (moved) written(join(own, "cgroup.procs"), String(process.pid));
  removed(leaf);
}

/** A group of version 1 within the one that we are in; null where there is none, or none for us. */
function makeV1(controller: Controller, name: string): string | null {
  const own = ownFolder(controller);
  if (own === null) return null;
  try {
    const group = join(own, name);
    mkdirSync(group);
    return group;
  } catch {
    return null;
  }
}

function peakMemory(group: string): number | null {
  const text = textOf(join(group, "memory.peak")) ?? textOf(join(group, "memory.max_usage_in_bytes"));
  return text === null ? null : Number(text);
}

function ranOutOfMemory(group: string): boolean {
  const events = textOf(join(group, "memory.events")) ?? textOf(join(group, "memory.oom_control")) ?? "";
  return /^oom_kill [1-9]/m.test(events);
}

function hasWord(path: string, word: string): boolean {
  return (textOf(path) ?? "").trim().split(/\s+/).includes(word);
}

function textOf(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}

function written(path: string, text: string): boolean {
  try {
    writeFileSync(path, text);
    return true;
  } catch {
    return false;
  }
}

function removed(group: string): boolean {
  try {
    rmdirSync(group);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT";
  }
}
