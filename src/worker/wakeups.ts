/**
 * Wake-ups by what others commit, for a worker that waits for work. One that always finds as much as it asks for is
 * never out of work and asks by itself: there news would only cost, and in a fleet everybody's commits are everybody's.
 */

import type { Store } from "../store/store.ts";

/** So many full answers in a row show that there is work enough. */
const FULL_ANSWERS = 16;

export class Wakeups {
  readonly #store: Store;
  readonly #onNews: () => void;
  #unwatch: (() => void) | null = null;
  #full = 0;

  constructor(store: Store, onNews: () => void) {
    this.#store = store;
    this.#onNews = onNews;
  }

  /**
   * Listens, or stops to when there was enough work for a while. True when something may have been missed: it did not
   * listen before, and what was committed until now has to be looked for once more.
   */
  missed(had_enough: boolean): boolean {
    this.#full = had_enough ? this.#full + 1 : 0;
    if (this.#full >= FULL_ANSWERS) this.end();
    if (had_enough || this.#unwatch !== null) return false;
    try {
      this.#unwatch = this.#store.watch(this.#onNews);
      return true;
    } catch {
      // The system has no more watches to give: the poll is the net, and the next call tries again.
      return false;
    }
  }

  end(): void {
    this.#unwatch?.();
    this.#unwatch = null;
  }
}
