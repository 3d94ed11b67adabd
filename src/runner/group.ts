/**
 * A job's whole process group: its child leads it, and what the child starts belongs to it. Signals go to all of them.
 */

import process from "node:process";
import { groupMembers } from "../platform/machine.ts";

/** True when there was somebody to receive it. */
export function signalGroup(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-pid, signal);
    return true;
  } catch {
    return false;
  }
}

/** Whether anything of the group still runs. */
export function groupLives(pid: number): boolean {
  try {
    process.kill(-pid, 0);
  } catch (error) {
    // A member that changed its user is there, though we may not signal it.
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return false;
  }
  return groupMembers(pid)?.length !== 0;
}

/** Asks the group to end. CONT behind it, because a stopped process would not hear. */
export function askToEnd(pid: number): void {
  signalGroup(pid, "SIGTERM");
  signalGroup(pid, "SIGCONT");
}
