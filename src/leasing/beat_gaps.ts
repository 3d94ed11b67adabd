/** Records how long a job is silent between two beats, for leases that learn from it. */

import type { Clock } from "../core/clock.ts";
import { addGap } from "../core/learning.ts";
import type { Gaps } from "../core/learning.ts";
import type { Heartbeat } from "./heartbeat.ts";

export class GapRecorder {
  readonly #gaps: Record<string, number> = {};
  #last_beat_ms: number;

  constructor(heartbeat: Heartbeat, clock: Clock) {
    this.#last_beat_ms = clock.mono_ms();
    heartbeat.addCallback(() => {
      addGap(this.#gaps, heartbeat.last_beat_ms - this.#last_beat_ms);
      this.#last_beat_ms = heartbeat.last_beat_ms;
    });
  }

  get gaps(): Gaps {
    return this.#gaps;
  }
}
