/**
 * Wake-ups by what others commit, for a worker that waits for work. One that always finds as much as it asks for is
 * never out of work and asks by itself: there they would only cost, and in a fleet everybody's commits are everybody's.
 */

import type { Store } from "../store/store.ts";

/** So many full answers in a row show that there is work enough. */
const FULL_ANSWERS = 16;

export class Wakeups {
  readonly #store: Store;
  readonly #wake: () => void;
  #unwatch: (() => void) | null = null;
  #full_answers = 0;

  constructor(store: Store, wake: () => void) {
    this.#store = store;
    this.#wake = wake;
  }

  get listening(): boolean {
    return this.#unwatch !== null;
  }

  /** From here on. What was committed before has to be looked for. */
  listen(): void {
    this.#full_answers = 0;
    if (this.listening) return;
    try {
      this.#unwatch = this.#store.watch(this.#wake);
    } catch {
      // The system has no more watches to give: the poll is the net, and the next call tries again.
    }
  }

  /** The store had all that was asked for; after many such answers in a row it is not listened to any more. */
  countFullAnswer(): void {
    this.#full_answers += 1;
    if (this.#full_answers >= FULL_ANSWERS) this.end();
  }

  end(): void {
    this.#unwatch?.();
    this.#unwatch = null;
  }
}
