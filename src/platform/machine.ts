/**
 * This machine and its processes, with the identity that tells a live process from a reused pid.
 */

import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { constants, hostname } from "node:os";
import process from "node:process";
import { platform } from "#platform";
import type { MachineTime } from "../core/clock.ts";
import type { ProcessIdentity } from "../core/records.ts";

export const host = hostname();

/** Where there is no /proc; see mac.ts. */
const mac = () => (process.platform === "darwin" ? platform.macProcesses() : null);

function machineBoot(): string {
  if (process.platform === "darwin") return mac()?.bootSession() ?? UNKNOWN;
  return readOrNull("/proc/sys/kernel/random/boot_id")?.trim() ?? UNKNOWN;
}

let boot_id: string | undefined;

/**
 * Changes with every boot, so that a pid noted before one is never taken for a process after it. Names the namespace of
 * pids too: containers of one machine may share its name and its boot, and have other processes of that pid. And the
 * machine: two may have the same name, and the boot of the one says nothing about the other. And the namespace of time,
 * because the start of a process is another number in each.
 */
export function bootId(): string {
  if (boot_id !== undefined) return boot_id;
  const machine = mac()?.machine() ?? readOrNull("/etc/machine-id")?.trim() ?? "";
  boot_id = [machineBoot(), namespace("pid"), machine, namespace("time")].join("/");
  return boot_id;
}

const UNKNOWN = "unknown";

/** Empty where it can't be known. A Mac has but one of each. */
function namespace(kind: "pid" | "time"): string {
  if (process.platform === "darwin") return mac() === null ? "" : "mac";
  return readlinkOrNull(`/proc/self/ns/${kind}`) ?? "";
}

interface Surroundings {
  boot: string;
  pids: string;
  machine: string;
  times: string;
}

function surroundings(id: string): Surroundings {
  const [boot = "", pids = "", machine = "", times = ""] = id.split("/");
  return { boot, pids, machine, times };
}

/** What processes of one machine can compare to notice that its clock was set, or that it slept. */
export function machineTime(): MachineTime {
  const found = mac();
  if (found) return { boot_id: machineBoot(), uptime_ms: found.uptime_ms(), suspends: found.woken_at_s() };
  return {
    boot_id: machineBoot(),
    uptime_ms: Math.round(
      (Number(readOrNull("/proc/uptime")?.split(" ")[0] ?? Number.NaN) - addedToUptime_s()) * 1_000,
    ),
    suspends: Number(readOrNull("/sys/power/suspend_stats/success") ?? 0),
  };
}

let added_s: number | undefined;

/** In a namespace of time: what it adds. Else every look from another one would seem to show that the clock was set. */
function addedToUptime_s(): number {
  added_s ??= Number(/^boottime\s+(-?\d+)/m.exec(readOrNull("/proc/self/timens_offsets") ?? "")?.[1] ?? 0);
  return added_s;
}

export interface ProcessStat {
  parent: number;
  group: number;
  session: number;
  /** In clock ticks since boot; on a Mac, by the clock as it was then. */
  started: number;
}

/** Whether the pids of /proc are ours: it may be that of another container, or none at all. */
let proc_is_ours: boolean | undefined;

function procIsOurs(): boolean {
  proc_is_ours ??= readlinkOrNull("/proc/self") === String(process.pid);
  return proc_is_ours;
}

/** What the kernel tells of a process; null when there is none, or when it does not tell us. */
function processStat(pid: number | string): (ProcessStat & { zombie: boolean }) | null {
  if (process.platform === "darwin") return mac()?.process(Number(pid)) ?? null;
  const stat = procIsOurs() ? readOrNull(`/proc/${pid}/stat`) : null;
  if (stat === null) return null;
  // The command name, second field, may itself contain spaces and brackets: count from behind its last bracket.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const zombie = fields[0] === "Z" || fields[0] === "X";
  const [, parent, group, session] = fields.map(Number) as [number, number, number, number];
  return { parent, group, session, started: Number(fields[19]), zombie };
}

/** The same of one that lives. */
export function livingStat(pid: number | string): ProcessStat | null {
  const stat = processStat(pid);
  return stat === null || stat.zombie ? null : stat;
}

/** Whether there is a process of that number, or the zombie of one: asked of the kernel, not of what /proc shows. */
function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // It is there, and somebody else's.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

const SIGNAL_NAMES = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]));

/**
 * How a child of ours ended that nobody has waited for yet, as the kernel tells it of a zombie; null while it lives, or
 * when nothing can be told. Where it is gone altogether, nobody knows any more.
 */
export function endOfChild(pid: number): { exit_code: number | null; signal: string | null } | null {
  if (!procIsOurs()) return null;
  if (!exists(pid)) return { exit_code: null, signal: null };
  const stat = readOrNull(`/proc/${pid}/stat`);
  const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ") ?? [];
  if (fields[0] !== "Z") return null;
  const status = Number(fields[49]);
  const number = status & 0x7f;
  return { exit_code: number === 0 ? status >> 8 : null, signal: SIGNAL_NAMES.get(number) ?? null };
}

/** The start time stays 0 where the system does not tell it: nothing can be proven about such a process. */
export function identify(pid: number): ProcessIdentity {
  return { boot_id: bootId(), pid, pid_started: livingStat(pid)?.started ?? 0 };
}

export function ownIdentity(): ProcessIdentity {
  return identify(process.pid);
}

/**
 * The living members of a process group. Zombies do not count: in a container without an init they stay for ever.
 * Null where the system does not tell.
 */
export function groupMembers(group: number): number[] | null {
  return livingProcesses()?.filter((pid) => livingStat(pid)?.group === group) ?? null;
}

/** The group that a process belongs to; null when it is gone. */
export function processGroup(pid: number): number | null {
  return livingStat(pid)?.group ?? null;
}

/** The environment of every process that this user may look into, as `NAME=value` texts. */
export function* environments(): Generator<{ pid: number; environment: readonly string[] }> {
  for (const pid of livingProcesses() ?? []) {
    const environment = environmentOf(pid);
    if (environment !== null && environment[0] !== "") yield { pid, environment };
  }
}

/** Of one process; null when we may not look into it. */
export function environmentOf(pid: number): readonly string[] | null {
  if (process.platform === "darwin") return mac()?.environment(pid) ?? null;
  return readOrNull(`/proc/${pid}/environ`)?.split("\0") ?? null;
}

/** Those that a process started, or that were given to it when theirs ended. Whatever thread did it, it is the first. */
export function childrenOf(pid: number): number[] {
  const found = mac();
  if (found) return found.pids()?.filter((other) => found.process(other)?.parent === pid) ?? [];
  const text = procIsOurs() ? readOrNull(`/proc/${pid}/task/${pid}/children`) : null;
  return (
    text
      ?.split(" ")
      .filter((word) => word !== "")
      .map(Number) ?? []
  );
}

/** Since boot, in hundredths of a second, as the start of a process is counted. */
export function uptime_cs(): number {
  const found = mac();
  if (found) return Math.round(found.uptime_ms() / 10);
  const [seconds = "0"] = (readOrNull("/proc/uptime") ?? "").split(" ");
  return Math.round(Number(seconds) * 100);
}

/** Whoever started it, whatever it may do by now; null when that can't be known. */
export function userOf(pid: number): number | null {
  if (process.platform === "darwin") return mac()?.process(pid)?.user ?? null;
  const real = /^Uid:\s+(\d+)/m.exec(readOrNull(`/proc/${pid}/status`) ?? "")?.[1];
  return real === undefined ? null : Number(real);
}

/** What it is called by and what it is doing, for people: `sleep (pid 77)`. */
export function processText(pid: number): string {
  const stat = readOrNull(`/proc/${pid}/stat`) ?? "";
  const name = mac()?.process(pid)?.name ?? stat.slice(stat.indexOf("(") + 1, stat.lastIndexOf(")"));
  return `${name === "" ? "a process" : name} (pid ${pid})`;
}

export function livingProcesses(): number[] | null {
  if (process.platform === "darwin") return mac()?.pids() ?? null;
  const names = orNull(() => readdirSync("/proc"));
  return names?.filter((name) => /^\d+$/.test(name)).map(Number) ?? null;
}

/**
 * True only with proof: the machine was booted since, or on this boot nobody has the pid any more, or a younger process
 * has it, or it is a zombie. What /proc does not show (hidepid, a subset of it) proves nothing, nor does a start that
 * was read in another namespace of time.
 */
export function isProvenDead({ boot_id: id, pid, pid_started }: ProcessIdentity): boolean {
  const [here, there] = [surroundings(bootId()), surroundings(id)];
  if (here.boot === UNKNOWN || there.boot === UNKNOWN) return false;
  if (here.boot !== there.boot) return here.machine !== "" && here.machine === there.machine;
  if (here.machine !== there.machine || here.pids !== there.pids || here.pids === "") return false;
  if (!exists(pid)) return true;
  const stat = processStat(pid);
  if (stat === null || pid_started === 0 || here.times !== there.times) return false;
  return stat.zombie || stat.started !== pid_started;
}

/** True only with proof, too: of a process in another container neither this nor the opposite can be known. */
export function isProvenAlive({ boot_id: id, pid, pid_started }: ProcessIdentity): boolean {
  return pid_started !== 0 && id === bootId() && livingStat(pid)?.started === pid_started;
}

/** Linux counts a process's start in hundredths of a second, whatever its own clock ticks at. */
const TICK_MS = 10;

/** How long a process has been running, by the clock that nobody can set; null when it is gone or can't be known. */
export function runningFor_ms(identity: ProcessIdentity): number | null {
  // There it began at a time of the wall.
  if (mac() !== null) return isProvenAlive(identity) ? Date.now() - identity.pid_started * TICK_MS : null;
  const uptime_s = Number.parseFloat(readOrNull("/proc/uptime") ?? "");
  if (Number.isNaN(uptime_s) || !isProvenAlive(identity)) return null;
  return uptime_s * 1_000 - identity.pid_started * TICK_MS;
}

const readlinkOrNull = (path: string): string | null => orNull(() => readlinkSync(path));
const readOrNull = (path: string): string | null => orNull(() => readFileSync(path, "latin1"));

function orNull<T>(read: () => T): T | null {
  try {
    return read();
  } catch {
    return null;
  }
}
