/**
 * This machine and its processes, with the identity that tells a live process from a reused pid.
 */

import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import process from "node:process";
import type { MachineTime } from "../core/clock.ts";
import type { ProcessIdentity } from "../core/records.ts";

export const host = hostname();

function machineBoot(): string {
  return readOrNull("/proc/sys/kernel/random/boot_id")?.trim() ?? "unknown";
}

let boot_id: string | undefined;

/**
 * Changes with every boot, so that a pid noted before one is never taken for a process after it. Names the namespace of
 * pids too: containers of one machine may share its name and its boot, and have other processes of that pid. And the
 * machine: two may have the same name, and the boot of the one says nothing about the other.
 */
export function bootId(): string {
  const namespace = () => orNull(() => readlinkSync("/proc/self/ns/pid")) ?? "";
  return (boot_id ??= `${machineBoot()}/${namespace()}/${readOrNull("/etc/machine-id")?.trim() ?? ""}`);
}

const bootOf = (id: string): string => id.split("/", 1)[0] ?? id;
const machineOf = (id: string): string => id.split("/")[2] ?? "";

/** What processes of one machine can compare to notice that its clock was set, or that it slept. */
export function machineTime(): MachineTime {
  return {
    boot_id: machineBoot(),
    uptime_ms: Math.round(Number(readOrNull("/proc/uptime")?.split(" ")[0] ?? Number.NaN) * 1_000),
    suspends: Number(readOrNull("/sys/power/suspend_stats/success") ?? 0),
  };
}

interface ProcessStat {
  group: number;
  /** In clock ticks since boot. */
  started: number;
}

/** What the kernel knows of a process; null when there is none, or only its zombie. */
function processStat(pid: number | string): ProcessStat | null {
  const stat = readOrNull(`/proc/${pid}/stat`);
  if (stat === null) return null;
  // The command name, second field, may itself contain spaces and brackets: count from behind its last bracket.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  if (fields[0] === "Z" || fields[0] === "X") return null;
  return { group: Number(fields[2]), started: Number(fields[19]) };
}

/** The start time stays 0 where the system does not tell it: nothing can be proven about such a process. */
export function identify(pid: number): ProcessIdentity {
  return { boot_id: bootId(), pid, pid_started: processStat(pid)?.started ?? 0 };
}

export function ownIdentity(): ProcessIdentity {
  return identify(process.pid);
}

/**
 * The living members of a process group. Zombies do not count: in a container without an init they stay for ever.
 * Null where the system does not tell.
 */
export function groupMembers(group: number): number[] | null {
  return livingProcesses()?.filter((pid) => processStat(pid)?.group === group) ?? null;
}

/** The group that a process belongs to; null when it is gone. */
export function processGroup(pid: number): number | null {
  return processStat(pid)?.group ?? null;
}

/** The environment of every process that this user may look into, as `NAME=value` texts. */
export function* environments(): Generator<{ pid: number; environment: readonly string[] }> {
  for (const pid of livingProcesses() ?? []) {
    const environment = readOrNull(`/proc/${pid}/environ`);
    if (environment !== null && environment !== "") yield { pid, environment: environment.split("\0") };
  }
}

function livingProcesses(): number[] | null {
  const names = orNull(() => readdirSync("/proc"));
  return names?.filter((name) => /^\d+$/.test(name)).map(Number) ?? null;
}

/** True only with proof: on this boot of this machine the pid is gone, or belongs to a younger process. */
export function isProvenDead(identity: ProcessIdentity): boolean {
  if (bootOf(bootId()) === "unknown" || identity.pid_started === 0) return false;
  // Of another container all that can be known from here is whether it is from before the last boot of this machine.
  if (identity.boot_id !== bootId()) {
    const here = machineOf(bootId()) !== "" && machineOf(identity.boot_id) === machineOf(bootId());
    return here && bootOf(identity.boot_id) !== bootOf(bootId());
  }
  return processStat(identity.pid)?.started !== identity.pid_started;
}

/** True only with proof, too: of a process in another container neither this nor the opposite can be known. */
export function isProvenAlive({ boot_id: boot, pid, pid_started }: ProcessIdentity): boolean {
  return pid_started !== 0 && boot === bootId() && processStat(pid)?.started === pid_started;
}

/** Linux counts a process's start in hundredths of a second, whatever its own clock ticks at. */
const TICK_MS = 10;

/** How long a process has been running, by the clock that nobody can set; null when it is gone or can't be known. */
export function runningFor_ms(identity: ProcessIdentity): number | null {
  const uptime_s = Number.parseFloat(readOrNull("/proc/uptime") ?? "");
  if (Number.isNaN(uptime_s) || !isProvenAlive(identity)) return null;
  return uptime_s * 1_000 - identity.pid_started * TICK_MS;
}

const readOrNull = (path: string): string | null => orNull(() => readFileSync(path, "latin1"));

function orNull<T>(read: () => T): T | null {
  try {
    return read();
  } catch {
    return null;
  }
}
