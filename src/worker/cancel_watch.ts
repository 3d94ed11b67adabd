/** Hears of cancel requests: told to look by every wake-up, it looks a few times a second at the most. */

import type { Clock } from "../core/clock.ts";
import type { Store } from "../store/store.ts";
import type { Attempt } from "./attempt.ts";

const LOOK_EVERY_MS = 200;

export class CancelWatch {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #worker_id: string;
  readonly #running: ReadonlySet<Attempt>;
  #waiting = false;

  constructor(options: { store: Store; clock: Clock; worker_id: string; running: ReadonlySet<Attempt> }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#worker_id = options.worker_id;
    this.#running = options.running;
  }

  lookSoon(): void {
    if (this.#waiting || this.#running.size === 0) return;
    this.#waiting = true;
    this.#clock.after(LOOK_EVERY_MS, () => {
      this.#waiting = false;
      // A store that can't be read now is read again at the next wake-up.
      this.#look().catch(() => {});
    });
  }

  async #look(): Promise<void> {
    const requests = await this.#store.cancelRequests(this.#worker_id);
    for (const { id, token, grace } of requests) {
      for (const attempt of this.#running) {
        if (attempt.lease.job.id === id && attempt.lease.token === token) attempt.cancel(grace);
      }
    }
  }
}
