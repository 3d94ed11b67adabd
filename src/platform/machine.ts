/**
 * This machine and this process: clocks, and the identity that tells a live process from a reused pid.
 */

import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import process from "node:process";
import type { Clock } from "../core/clock.ts";
import type { ProcessIdentity } from "../core/records.ts";

export const systemClock: Clock = {
  wall_ms: () => Date.now(),
  mono_ms: () => performance.now(),
  after(delay_ms, fn) {
    const timer = setTimeout(fn, delay_ms);
    return () => clearTimeout(timer);
  },
};

export const systemRandom = (): number => Math.random();

export const host = hostname();

let boot_id: string | undefined;

/** Changes with every boot, so that a pid noted before one is never taken for a process after it. */
export function bootId(): string {
  boot_id ??= readOrNull("/proc/sys/kernel/random/boot_id")?.trim() ?? "unknown";
  return boot_id;
}

/** The kernel's start time of a process in clock ticks since boot; null when there is no such process (any more). */
export function processStarted(pid: number): number | null {
  const stat = readOrNull(`/proc/${pid}/stat`);
  if (stat === null) return null;
  // The command name, second field, may itself contain spaces and brackets: count from behind its last bracket.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const state = fields[0];
  return state === "Z" || state === "X" ? null : Number(fields[19]);
}

export function identify(pid: number): ProcessIdentity | null {
  const pid_started = processStarted(pid);
  return pid_started === null ? null : { boot_id: bootId(), pid, pid_started };
}

export function ownIdentity(): ProcessIdentity {
  return identify(process.pid) ?? { boot_id: bootId(), pid: process.pid, pid_started: 0 };
}

/** True only with proof: on this boot of this machine the pid is gone, or belongs to a younger process. */
export function isProvenDead(identity: ProcessIdentity): boolean {
  if (bootId() === "unknown" || identity.pid_started === 0) return false;
  if (identity.boot_id !== bootId()) return true;
  return processStarted(identity.pid) !== identity.pid_started;
}

function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return null;
  }
}
