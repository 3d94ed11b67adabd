/**
 * One reader of the store for all who look at the dashboard. What two tabs ask in the same moment is asked once, and what
 * is asked is counted: a budget of questions per second holds however many tabs are open.
 */

import type { Clock } from "../../core/clock.ts";
import type { Glance, Store } from "../../store/store.ts";

/** Questions per second, on average: five with what a page asks that is opened now and then. */
const RATE = 4;
/** A page that is opened asks all it needs at once: with more than this, its first ten seconds cost more than five each. */
const BURST = 3;
/** More than any page asks, or each look at that one would be for less than it costs; what many that open ask is given. */
const DEBT = 20;

export class Budget {
  readonly #clock: Clock;
  #left = BURST;
  #counted_at_ms: number;
  /** How many questions have been asked so far. */
  asked = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#counted_at_ms = clock.mono_ms();
  }

  take(): void {
    this.asked += 1;
    this.#left = Math.max(-DEBT, this.#now() - 1);
  }

  /** How long it takes until there is something left; for whoever has time. */
  get wait_ms(): number {
    return Math.max(0, Math.ceil(((1 - this.#now()) * 1_000) / RATE));
  }

  #now(): number {
    const now_ms = this.#clock.mono_ms();
    this.#left = Math.min(BURST, this.#left + ((now_ms - this.#counted_at_ms) * RATE) / 1_000);
    this.#counted_at_ms = now_ms;
    return this.#left;
  }
}

/** How long an answer is good for another tab that asks the same. */
export const FRESH_MS = 400;
/** What changes slowly, or nobody minds. */
const SLOW_MS = 10_000;

type Verb = Exclude<keyof Glance, "location" | "shares_clock" | "now" | "watch" | "onReplaced">;

const GOOD_FOR_MS: Readonly<Record<Verb, number>> = {
  jobs: FRESH_MS,
  list: FRESH_MS,
  outlines: FRESH_MS,
  search: FRESH_MS,
  attempts: FRESH_MS,
  checkpoints: FRESH_MS,
  logs: FRESH_MS,
  counts: FRESH_MS,
  leases: FRESH_MS,
  links: FRESH_MS,
  parents: FRESH_MS,
  pausedQueues: FRESH_MS,
  backlog: FRESH_MS,
  topPriority: FRESH_MS,
  nextDue: FRESH_MS,
  workers: FRESH_MS,
  expired: FRESH_MS,
  history: 2_000,
  oldestPending: FRESH_MS,
  totals: SLOW_MS,
  recovery: SLOW_MS,
  retryCounts: SLOW_MS,
  learned: SLOW_MS,
  limits: FRESH_MS,
  holdings: FRESH_MS,
  schedules: FRESH_MS,
  nextSchedule: FRESH_MS,
};

const CLOCK_READ_EVERY_MS = 60_000;

export class SharedReader {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #answers = new Map<string, { until_ms: number; answer: Promise<unknown> }>();
  readonly budget: Budget;
  readonly glance: Glance;
  #time: { read_at_ms: number; offset_ms: number } | null = null;

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
    this.budget = new Budget(clock);
    const { location, shares_clock } = store;
    const verbs = (Object.keys(GOOD_FOR_MS) as Verb[]).map((verb) => [
      verb,
      (...args: unknown[]) => this.#ask(verb, args),
    ]);
    const watch: Store["watch"] = (changed) => store.watch(changed);
    const onReplaced: Store["onReplaced"] = (fence) => store.onReplaced(fence);
    const asked: Record<Verb, never> = Object.fromEntries(verbs);
    this.glance = { location, shares_clock, now: () => this.now_ms(), watch, onReplaced, ...asked };
  }

  /** The store's clock, which is asked now and then only. */
  async now_ms(): Promise<number> {
    const mono_ms = this.#clock.mono_ms();
    if (this.#time === null || mono_ms - this.#time.read_at_ms > CLOCK_READ_EVERY_MS) {
      this.#time = { read_at_ms: mono_ms, offset_ms: (await this.#store.now()) - mono_ms };
    }
    return mono_ms + this.#time.offset_ms;
  }

  /** The same as far as it is known now. */
  get known_now_ms(): number {
    return this.#time === null ? this.#clock.wall_ms() : this.#clock.mono_ms() + this.#time.offset_ms;
  }

  /** Somebody changed something through us: what is remembered is over. */
  forget(): void {
    this.#answers.clear();
  }

  #ask(verb: Verb, args: readonly unknown[]): Promise<unknown> {
    const name = `${verb} ${JSON.stringify(args)}`;
    const now_ms = this.#clock.mono_ms();
    const known = this.#answers.get(name);
    if (known !== undefined && known.until_ms > now_ms) return known.answer;
    for (const [old, { until_ms }] of this.#answers) if (until_ms <= now_ms) this.#answers.delete(old);
    this.budget.take();
    const ask = this.#store[verb] as (...given: readonly unknown[]) => Promise<unknown>;
    const answer = ask.apply(this.#store, args as unknown[]);
    this.#answers.set(name, { until_ms: now_ms + GOOD_FOR_MS[verb], answer });
    // A failure is told to whoever asked, and not remembered.
    answer.catch(() => this.#answers.delete(name));
    return answer;
  }
}
