/**
 * Control groups (version 2): a process that is born in one can't leave it by changing its group, its session or its
 * environment, and one write kills all that is in it. Null and false are answers here: a machine may have none, or may
 * not let us have any.
 */

import {
  accessSync,
  closeSync,
  constants,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmdirSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import process from "node:process";

/**
 * The folder of the control group that this process is in; null where there is none. With a controller, that of version
 * 1, where each of them has groups of its own.
 */
export function ownFolder(controller: string | null = null): string | null {
  const own = (textOf("/proc/self/cgroup") ?? "").split("\n").map((line) => /^\d+:([^:]*):(.*)$/.exec(line));
  const path = own.find((entry) => entry?.[1]?.split(",").includes(controller ?? "") === true)?.[2];
  const mount = mountOf(controller);
  if (path === undefined || mount === null) return null;
  // In a container the mount may begin somewhere below, at what is the root there.
  const { root, mounted } = mount;
  const below = root === "/" ? path : path.startsWith(root) ? path.slice(root.length) : path;
  return join(mounted, below).replace(/\/$/, "");
}

function mountOf(controller: string | null): { root: string; mounted: string } | null {
  for (const line of (textOf("/proc/self/mountinfo") ?? "").split("\n")) {
    // 31 23 0:28 ROOT MOUNTPOINT options… - TYPE source options
    const [left = "", right = ""] = line.split(" - ");
    const [, , , root = "", mounted = ""] = left.split(" ");
    const [type, , options = ""] = right.split(" ");
    const is_it =
      controller === null ? type === "cgroup2" : type === "cgroup" && options.split(",").includes(controller);
    if (is_it) return { root, mounted: unescaped(mounted) };
  }
  return null;
}

/** mountinfo writes blanks and the like as \040. */
function unescaped(path: string): string {
  return path.replaceAll(/\\([0-7]{3})/g, (_whole, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}

/**
 * Makes a folder for control groups of this process, within its own; null where that is not allowed, or where the
 * kernel can't kill a group as a whole (before 5.14).
 */
export function makeCgroupFolder(name: string): string | null {
  const own = ownFolder();
  if (own === null) return null;
  const folder = join(own, name);
  try {
    // Whoever starts something in another group must be allowed to move processes out of this one.
    accessSync(join(own, "cgroup.procs"), constants.W_OK);
    mkdirSync(folder);
  } catch {
    return null;
  }
  // The file is there where the kernel has it, and may be written where we may move processes.
  if (writeText(join(folder, "cgroup.kill"), "1")) return folder;
  removeCgroup(folder);
  return null;
}

/** Whether they are mounted where we look. */
export function seesCgroups(): boolean {
  return mountOf(null) !== null;
}

/** Whether `makeCgroupFolder` would answer one. */
export function hasCgroups(): boolean {
  const folder = makeCgroupFolder(`lease-trial-${process.pid}`);
  return folder !== null && removeCgroup(folder);
}

/** One more within a folder; null when the kernel has no room for it. */
export function makeCgroup(folder: string, name: string): string | null {
  const path = join(folder, name);
  try {
    mkdirSync(path);
    return path;
  } catch {
    return null;
  }
}

/** Whether anything lives in it, or in what was made below it. */
export function isPopulated(path: string): boolean {
  return says_populated.test(textOf(join(path, "cgroup.events")) ?? "");
}

/** The same for one that is asked about often: its file stays open. */
export class Population {
  readonly #path: string;
  readonly #buffer = new Uint8Array(256);
  #fd: number | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  isPopulated(): boolean {
    try {
      this.#fd ??= openSync(join(this.#path, "cgroup.events"), "r");
      const count = readSync(this.#fd, this.#buffer, 0, this.#buffer.length, 0);
      return says_populated.test(decoder.decode(this.#buffer.subarray(0, count)));
    } catch {
      return isPopulated(this.#path);
    }
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }
}

const decoder = new TextDecoder();
const says_populated = /^populated 1$/m;

/** All processes in it and below; zombies are not among them. */
export function cgroupMembers(path: string): number[] {
  // Zero stands for one that this container has no number for.
  const own = (textOf(join(path, "cgroup.procs")) ?? "").split("\n").filter((line) => line !== "" && line !== "0");
  return [...own.map(Number), ...cgroupsIn(path).flatMap(cgroupMembers)];
}

/** Processor time of all that was ever in it; null where the kernel does not tell. */
export function cpuTime_ms(path: string): number | null {
  const usage_us = /^usage_usec (\d+)/m.exec(textOf(join(path, "cpu.stat")) ?? "")?.[1];
  return usage_us === undefined ? null : Math.round(Number(usage_us) / 1_000);
}

/** Kills all that is in it and below, also what is being born meanwhile. */
export function killCgroup(path: string): boolean {
  return writeText(join(path, "cgroup.kill"), "1");
}

const MOST_MOVES = 100;

/** Moves all that is in one into another, also what is born meanwhile; true when nothing is left. */
export function moveMembers(from: string, to: string): boolean {
  for (let turn = 0; turn < MOST_MOVES && isPopulated(from); turn++) {
    for (const pid of cgroupMembers(from)) writeText(join(to, "cgroup.procs"), String(pid));
  }
  return !isPopulated(from);
}

/** The control group that a process is in, as a folder; null when it is gone, or there is none. */
export function cgroupOf(pid: number): string | null {
  const [own, path] = [ownFolder(), cgroupNameOf(pid)];
  return own === null || path === null ? null : join(rootOf(own), path);
}

/** The same as the kernel calls it, which it also does where they can't be seen. */
export function cgroupNameOf(pid: number): string | null {
  return /^0::(.*)$/m.exec(textOf(`/proc/${pid}/cgroup`) ?? "")?.[1] ?? null;
}

/** Of one that nothing lives in, with what a job may have made below; false when something does. */
export function removeCgroup(path: string): boolean {
  for (const child of cgroupsIn(path)) removeCgroup(child);
  try {
    rmdirSync(path);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT";
  }
}

/** The folders of control groups that `makeCgroupFolder` of any process made beside ours, by name. */
export function cgroupFolders(prefix: string): string[] {
  const own = ownFolder();
  // A sweep may run in one of its own while the worker ran elsewhere: all of the machine's are looked at.
  return own === null ? [] : found(rootOf(own), prefix, 0);
}

/** The highest folder that is still a control group. */
function rootOf(folder: string): string {
  const above = dirname(folder);
  return above !== folder && textOf(join(above, "cgroup.procs")) !== null ? rootOf(above) : folder;
}

/** Deeper than systemd puts anything. */
const DEEPEST = 8;

function found(folder: string, prefix: string, depth: number): string[] {
  if (depth > DEEPEST) return [];
  return cgroupsIn(folder).flatMap((child) =>
    basename(child).startsWith(prefix) ? [child] : found(child, prefix, depth + 1),
  );
}

/** Those that were made in a folder. */
export function cgroupsIn(folder: string): string[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(folder, name));
  } catch {
    return [];
  }
}

function textOf(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}

function writeText(path: string, text: string): boolean {
  try {
    writeFileSync(path, text);
    return true;
  } catch {
    return false;
  }
}
