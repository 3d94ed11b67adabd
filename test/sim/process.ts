/**
 * A simulated process: it can be frozen (SIGSTOP) and crash (SIGKILL), at any await too, and its store fails now and then,
 * or takes its time. While it is frozen its timers and the answers of its store wait; once it has crashed nothing of it
 * goes on, though what it had asked of the store may still happen.
 */

import { sleep, type Clock } from "../../src/core/clock.ts";
import type { Store } from "../../src/store/store.ts";
import type { Chance } from "./chance.ts";

/** How likely it is, for each call to the store. */
export interface Faults {
  /** It fails before it has done anything, or after it has. */
  before: number;
  after: number;
  /** It takes its time, on the way there or back. */
  slow: number;
  /** The process is frozen, or killed, while it waits. */
  freeze: number;
  crash: number;
  /** Awaits of calls to the store so far, and at which of them what happens; null: at none. */
  awaits: number;
  at_await: { await: number; what: "freeze" | "crash" | "fail" } | null;
}

export interface ProcessOptions {
  clock: Clock;
  store: Store;
  chance: Chance;
  faults: Faults;
  /** Its store is on another machine: every call takes a while. */
  far: boolean;
  note: (what: string) => void;
  /** Nobody freezes or kills it: for people, and for jobs that are frozen with their worker. */
  steady?: boolean;
}

const SLOWEST_MS = 3_000;
const FAR_MS = 40;

export class SimProcess {
  readonly clock: Clock;
  readonly store: Store;
  readonly #options: ProcessOptions;
  #state: "alive" | "frozen" | "crashed" = "alive";
  #waiting: (() => void)[] = [];
  #extending: Promise<unknown> = Promise.resolve();

  constructor(options: ProcessOptions) {
    const { clock: base } = options;
    this.#options = options;
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
    this.store = this.#unreliable(options.store);
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

  #atAwait(): void {
    const { faults, steady = false } = this.#options;
    faults.awaits += 1;
    if (faults.awaits !== faults.at_await?.await || steady) return;
    const { what } = faults.at_await;
    if (what === "fail") throw new Error("store trouble");
    if (what === "crash") this.crash();
    else this.freeze();
  }

  /** While it waits for the store, on the way there or back. */
  async #onTheWay(): Promise<void> {
    const { chance, faults, far, clock, note, steady = false } = this.#options;
    this.#atAwait();
    const late = chance.of(faults.slow);
    const ms = late ? chance.between(1, SLOWEST_MS) : far && faults.slow > 0 ? chance.between(0, FAR_MS) : 0;
    if (ms > 0) await sleep(clock, ms);
    if (late) note("slow");
    if (!steady && chance.of(faults.freeze)) {
      note("froze at an await");
      this.freeze();
    }
    if (!steady && chance.of(faults.crash)) {
      note("crashed at an await");
      this.crash();
    }
    await new Promise<void>((resolve) => this.#go(resolve));
  }

  #inOrder<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#extending.then(work);
    this.#extending = result.catch(() => {});
    return result;
  }

  #unreliable(store: Store): Store {
    const { chance, faults, clock } = this.#options;
    return new Proxy(store, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        // These two watch for other processes, and answer at once.
        if (typeof value !== "function" || name === "watch" || name === "onReplaced") return value;
        const call = async (args: unknown[]): Promise<unknown> => {
          await this.#onTheWay();
          if (chance.of(faults.before)) throw new Error("store trouble");
          // It compares two clocks, which are read in the same moment: the way to a store on this machine is no way.
          if (name === "noticeClockJump") args[0] = { ...(args[0] as object), uptime_ms: Math.round(clock.mono_ms()) };
          const answer: unknown = await value.apply(target, args);
          await this.#onTheWay();
          if (chance.of(faults.after)) throw new Error("the answer was lost");
          return answer;
        };
        // Extensions of one process come and are answered in order, as both engines have it.
        return (...args: unknown[]) => (name === "extend" ? this.#inOrder(() => call(args)) : call(args));
      },
    });
  }
}
