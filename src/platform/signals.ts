/**
 * The one place from which other processes are signalled. A number that came from elsewhere may be anything: below two it
 * would mean "everybody" or "my own group", and our own group is never meant.
 */

import { constants } from "node:os";
import process from "node:process";
import { platform } from "#platform";
import { processGroup } from "./machine.ts";

let own_group: number | null | undefined;

/** Whether a process or a group of that number may be signalled at all. */
export function isSignallable(pid: number): boolean {
  own_group ??= processGroup(process.pid);
  return Number.isSafeInteger(pid) && pid > 1 && pid !== process.pid && pid !== own_group;
}

/** True when there was somebody to receive it. */
export function signalProcess(pid: number, signal: NodeJS.Signals): boolean {
  return isSignallable(pid) && send(pid, signal) === "sent";
}

/** The whole group that this process leads, or led. */
export function signalGroup(leader: number, signal: NodeJS.Signals): boolean {
  return isSignallable(leader) && send(-leader, signal) === "sent";
}

/** Whether anybody is in the group, zombies too: one that changed its user is there, though we may not signal it. */
export function groupExists(leader: number): boolean {
  return isSignallable(leader) && send(-leader, 0) !== "nobody";
}

function send(pid: number, signal: NodeJS.Signals | 0): "sent" | "forbidden" | "nobody" {
  try {
    process.kill(pid, signal);
    return "sent";
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM" ? "forbidden" : "nobody";
  }
}

/**
 * Kills a process, or the group that it leads, if it is still the one that `isSame` knows. Where the kernel can hold on to
 * a process, nobody else can get its number between the look and the kill.
 */
export function killIfSame(pid: number, isSame: () => boolean, { group }: { group: boolean }): boolean {
  if (!isSignallable(pid)) return false;
  const held = platform.processCalls()?.hold(pid) ?? null;
  try {
    if (!isSame()) return false;
    if (held?.signal(constants.signals.SIGKILL, { group }) === true) return true;
    return group ? signalGroup(pid, "SIGKILL") : signalProcess(pid, "SIGKILL");
  } finally {
    held?.release();
  }
}
