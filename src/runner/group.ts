/**
 * A job's whole process group: its child leads it, and what the child starts belongs to it. Signals go to all of them.
 */

import { groupMembers } from "../platform/machine.ts";
import { groupExists, signalGroup } from "../platform/signals.ts";

/** Whether anything of the group still runs. */
export function groupLives(pid: number): boolean {
  return groupExists(pid) && groupMembers(pid)?.length !== 0;
}

/** Asks the group to end. CONT behind it, because a stopped process would not hear. */
export function askToEnd(pid: number): void {
  signalGroup(pid, "SIGTERM");
  signalGroup(pid, "SIGCONT");
}
