/**
 * A simulated process: it can be frozen (SIGSTOP) and crash (SIGKILL), and its store fails now and then. While it is
 * frozen its timers and the answers of its store wait; once it has crashed nothing of it goes on, though what it had
 * asked of the store may still happen.
 */

import type { Clock } from "../../src/core/clock.ts";
import type { Store } from "../../src/store/store.ts";
import type { Chance } from "./chance.ts";

export interface Faults {
  /** How likely a call to the store fails before it does anything, or after it has. */
  before: number;
  after: number;
}

export class SimProcess {
  readonly clock: Clock;
  readonly store: Store;
  #state: "alive" | "frozen" | "crashed" = "alive";
  #waiting: (() => void)[] = [];

  constructor(base: Clock, store: Store, chance: Chance, faults: Faults) {
    this.clock = {
      wall_ms: () => base.wall_ms(),
      mono_ms: () => base.mono_ms(),
      after: (delay_ms, fn) => {
        let cancelled = false;
        const cancel = base.after(delay_ms, () => this.#go(() => cancelled || fn()));
        return () => {
          cancelled = true;
          cancel();
        };
      },
    };
    this.store = this.#unreliable(store, chance, faults);
  }

  get state(): "alive" | "frozen" | "crashed" {
    return this.#state;
  }

  freeze(): void {
    if (this.#state === "alive") this.#state = "frozen";
  }

  /** Everything that was due meanwhile happens now, in order. */
  thaw(): void {
    if (this.#state !== "frozen") return;
    this.#state = "alive";
    for (const go of this.#waiting.splice(0)) go();
  }

  crash(): void {
    this.#state = "crashed";
    this.#waiting = [];
  }

  #go(fn: () => void): void {
    if (this.#state === "alive") fn();
    else if (this.#state === "frozen") this.#waiting.push(() => this.#go(fn));
  }

  #unreliable(store: Store, chance: Chance, faults: Faults): Store {
    const resumed = (): Promise<void> => new Promise((resolve) => this.#go(resolve));
    return new Proxy(store, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        return async (...args: unknown[]) => {
          await resumed();
          const fails_before = chance.of(faults.before);
          const fails_after = chance.of(faults.after);
          if (fails_before) throw new Error("store trouble");
          const answer: unknown = await value.apply(target, args);
          await resumed();
          if (fails_after) throw new Error("the answer was lost");
          return answer;
        };
      },
    });
  }
}
