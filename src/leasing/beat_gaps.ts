/** How long a job is silent between two beats, for leases that learn from it (`--lease auto`). */

import type { Clock } from "../core/clock.ts";
import type { Cause } from "../core/job.ts";
import { addGap } from "../core/learning.ts";
import type { Gaps } from "../core/learning.ts";
import type { Heartbeat } from "./heartbeat.ts";

export class BeatGaps {
  readonly #gaps: Record<string, number> = {};
  #last_beat_ms: number;

  constructor(heartbeat: Heartbeat, clock: Clock) {
    this.#last_beat_ms = clock.mono_ms();
    heartbeat.addCallback(() => {
      addGap(this.#gaps, heartbeat.last_beat_ms - this.#last_beat_ms);
      this.#last_beat_ms = heartbeat.last_beat_ms;
    });
  }

  /** What the run has shown. One that was stopped says nothing about how long it would have been silent. */
  shown(cause: Cause): Gaps | null {
    return cause === "success" || cause === "exit" ? this.#gaps : null;
  }
}

/** Calls back at every beat, with the time since the one before. */
export function tellBeats(heartbeat: Heartbeat, clock: Clock, tell: (gap_ms: number) => void): void {
  let last_ms = clock.mono_ms();
  heartbeat.addCallback(() => {
    const now_ms = clock.mono_ms();
    tell(Math.round(now_ms - last_ms));
    last_ms = now_ms;
  });
}
