/**
 * How many questions the store may be asked by all who look: no ten seconds cost more than fifty, from the first page that
 * is opened on, whoever opens what. Within that, whoever waits for a page is served before what has time.
 */

import type { Clock } from "../../core/clock.ts";

/** `now`: for an empty page, what somebody changed, a log that grows. `soon`: the rest of a page. `later`: news. */
export type Lane = "now" | "soon" | "later";

const WINDOW_MS = 10_000;
/** Of each lane, in a window; what is above is left to the lane before, for a page that is opened next. */
const MOST = { now: 50, soon: 45, later: 42 } as const satisfies Record<Lane, number>;
/** The last ones are spread over the time until there is room again: nobody waits for all of it. */
const SPREAD = { now: 6, soon: 12, later: 6 } as const satisfies Record<Lane, number>;
/** A page of any kind is less than this. */
const CROWD = 15;
/** News per second, on average: what else is asked comes out of it too. */
const NEWS_RATE = 3;
/** Questions that news may save up: more, and a page that is opened into a quiet store would cost too much at once. */
const NEWS_SAVED = 3;
/** And questions that they wait for others at the most: who has opened many pages wants to see them move, too. */
const NEWS_OWED = 9;

export interface Waiter {
  lane: Lane;
  start: () => void;
}

const LANES: readonly Lane[] = ["now", "soon", "later"];

export class Budget {
  readonly #clock: Clock;
  /** When the questions of this window were asked. */
  #window: number[] = [];
  #saved = NEWS_SAVED;
  #counted_at_ms: number;
  readonly #waiters: Waiter[] = [];
  #unplan = () => {};
  /** How many questions have been asked so far. */
  asked = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#counted_at_ms = clock.mono_ms();
  }

  /** Calls `start` when it is this question's turn: at once, where there is room. */
  take(lane: Lane, start: () => void): Waiter {
    const waiter = { lane, start };
    this.#waiters.push(waiter);
    this.#serve();
    return waiter;
  }

  /** Somebody else waits for the same, and has less time. */
  hurry(waiter: Waiter, lane: Lane): void {
    if (LANES.indexOf(lane) >= LANES.indexOf(waiter.lane)) return;
    waiter.lane = lane;
    this.#serve();
  }

  /** Much has been asked in this window: what is not needed at once does not come before what is. */
  get isCrowded(): boolean {
    return this.#asked().length >= CROWD;
  }

  /** How long it takes until there is something left for news. */
  get wait_ms(): number {
    return Math.max(0, Math.ceil(((1 - this.#savedNow()) * 1_000) / NEWS_RATE));
  }

  #savedNow(): number {
    const now_ms = this.#clock.mono_ms();
    this.#saved = Math.min(NEWS_SAVED, this.#saved + ((now_ms - this.#counted_at_ms) * NEWS_RATE) / 1_000);
    this.#counted_at_ms = now_ms;
    return this.#saved;
  }

  #asked(): readonly number[] {
    const from_ms = this.#clock.mono_ms() - WINDOW_MS;
    this.#window = this.#window.filter((at_ms) => at_ms > from_ms);
    return this.#window;
  }

  #dueIn(lane: Lane): number {
    const now_ms = this.#clock.mono_ms();
    const asked_ms = this.#asked();
    const room = MOST[lane] - asked_ms.length;
    if (room > SPREAD[lane]) return 0;
    const [oldest_ms = now_ms] = asked_ms;
    if (room <= 0) return (asked_ms[-room] ?? oldest_ms) + WINDOW_MS - now_ms;
    const last_ms = asked_ms.at(-1) ?? now_ms;
    return Math.max(0, last_ms + (oldest_ms + WINDOW_MS - last_ms) / (room + 1) - now_ms);
  }

  /** Nobody is served any more. */
  stop(): void {
    this.#waiters.length = 0;
    this.#unplan();
  }

  #serve(): void {
    for (;;) {
      const next = LANES.values()
        .map((lane) => this.#waiters.find((waiter) => waiter.lane === lane))
        .find((waiter) => waiter !== undefined);
      if (next === undefined) return;
      const due_ms = this.#dueIn(next.lane);
      if (due_ms > 0) {
        this.#unplan();
        this.#unplan = this.#clock.after(Math.ceil(due_ms), () => this.#serve());
        return;
      }
      this.#waiters.splice(this.#waiters.indexOf(next), 1);
      this.asked += 1;
      this.#saved = Math.max(-NEWS_OWED, this.#savedNow() - 1);
      this.#window.push(this.#clock.mono_ms());
      next.start();
    }
  }
}
