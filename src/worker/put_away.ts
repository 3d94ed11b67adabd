/** The end of what a worker had made for its attempts: it has done its work, and ends well whatever can't be removed. */

import type { AttemptOwner } from "./attempt.ts";

export async function putAway({ fences, enforcer, scratch }: AttemptOwner): Promise<void> {
  for (const end of [() => fences.end(), () => enforcer.end(), () => scratch.remove()]) {
    try {
      await end();
    } catch {
      // A sweep on this machine removes what is left.
    }
  }
}
