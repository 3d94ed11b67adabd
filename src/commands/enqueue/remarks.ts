/** What a person may want to know about a job that was queued as asked: on stderr, because stdout has the id alone. */

import { statSync } from "node:fs";
import type { Enqueued, Store } from "../../store/store.ts";
import type { NewJob } from "../../core/job.ts";
import { spell } from "../../cli/strict.ts";
import type { FlagsDef } from "../../cli/flags.ts";
import { reasonOf, NO_FACTS } from "../../view/reason.ts";
import { commandText, quote } from "../../view/text.ts";
import { readable, relative } from "../../view/time.ts";

/** Before it is queued: what of the line may not be meant. */
export function lineRemarks(job: NewJob, at: boolean, now_ms: number): string[] {
  const { cwd, run_at_ms } = job;
  return [
    ...folderRemarks(cwd),
    ...(at && run_at_ms !== null && run_at_ms > now_ms
      ? [`due ${readable(run_at_ms)} (${relative(run_at_ms, now_ms)})`]
      : []),
  ];
}

function folderRemarks(cwd: string): string[] {
  const there = statSync(cwd, { throwIfNoEntry: false });
  if (there === undefined) return [`${quote(cwd)} does not exist here; the job fails unless it does where it runs`];
  return there.isDirectory()
    ? []
    : [`${quote(cwd)} is not a folder here; the job fails unless it is one where it runs`];
}

/** `lease enqueue ./x.sh -q gpu`: a flag of ours among the words of the command, which got it. */
export function strayFlagRemark([command = "", ...words]: readonly string[], flags: FlagsDef): string | null {
  const spellings = spell(flags);
  const stray = words.find((word) => spellings.has(word.replace(/=.*$/, "")));
  if (stray === undefined) return null;
  return `${stray} went to ${quote(command)}; flags of lease stand before the command, and -- between them`;
}

/** Afterwards: another job may have the key, or one it waits for has ended already. */
export async function queuedRemarks(store: Store, job: NewJob, { id, created }: Enqueued): Promise<string[]> {
  const [found] = await store.jobs([id]);
  if (!found) return [];
  const other = commandText(found);
  if (!created && other !== commandText(job)) return [`job ${id} has this key and another command: ${other}`];
  if (!created || found.state.name !== "cancelled") return [];
  return [`job ${id} will not run: ${reasonOf(found, NO_FACTS, 0) ?? "it is cancelled"}`];
}
