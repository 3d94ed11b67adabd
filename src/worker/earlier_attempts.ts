/** What earlier attempts of a job left running on this machine: it must be gone before the next one starts. */

import { processText } from "../platform/machine.ts";
import { killLeftovers, LeftoverSearch } from "../recovery/leftovers.ts";
import type { Lease } from "../leasing/lease.ts";
import type { AttemptOptions } from "./attempt_options.ts";
import type { AttemptOwner } from "./owner.ts";

const OTHER_LIVES = new WeakMap<AttemptOwner, LeftoverSearch>();

/** What it is told of its attempts: one that calls functions leaves nothing running. */
type Told = Pick<AttemptOptions, "clock" | "store_url" | "handling">;

export function mayHaveLeftovers({ job, token, grant }: Lease, owner: AttemptOwner, told: Told): boolean {
  if (told.handling !== undefined && grant.previous === null) return false;
  // Nothing new comes of another life of the store: the search is kept, and most often finds that there was none.
  const kept = OTHER_LIVES.get(owner) ?? new LeftoverSearch(owner.store_id, told.store_url);
  OTHER_LIVES.set(owner, kept);
  return token > 1 || kept.hasOtherLives(job.id);
}

/** Answers what could not be killed; null: nothing is left. */
export async function clearLeftovers(lease: Lease, owner: AttemptOwner, told: Told): Promise<string | null> {
  const { job, token, grant } = lease;
  const leftovers = { job: job.id, before_token: token, process: grant.previous };
  const search = new LeftoverSearch(owner.store_id, told.store_url);
  const { survivors } = await killLeftovers(leftovers, search, told.clock);
  if (survivors.length === 0) return null;
  return `${survivors.map(processText).join(", ")} of an earlier attempt can't be killed`;
}
