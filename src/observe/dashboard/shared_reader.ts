/**
 * One reader of the store for all who look at the dashboard. What two tabs ask in the same moment is asked once, and each
 * question waits until the budget has room for it.
 */

import { sleep, type Clock } from "../../core/clock.ts";
import type { Job } from "../../core/job.ts";
import type { Glance, Store } from "../../store/store.ts";
import { Budget, type Lane, type Waiter } from "./budget.ts";

/** How long an answer is good for another tab that asks the same. */
const FRESH_MS = 400;
/** Where figures of a moment ago are good enough, unless somebody here has changed them. */
const NEAR_MS = 1_000;
/** What is not looked at to the second. Whoever wants to know all of a change looks again after so long. */
export const CALM_MS = 1_500;
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
  counts: NEAR_MS,
  leases: NEAR_MS,
  links: FRESH_MS,
  parents: FRESH_MS,
  pausedQueues: FRESH_MS,
  backlog: FRESH_MS,
  topPriority: FRESH_MS,
  nextDue: FRESH_MS,
  workers: CALM_MS,
  expired: NEAR_MS,
  history: CALM_MS,
  oldestPending: CALM_MS,
  totals: SLOW_MS,
  recovery: SLOW_MS,
  retryCounts: SLOW_MS,
  learned: SLOW_MS,
  limits: NEAR_MS,
  holdings: FRESH_MS,
  schedules: FRESH_MS,
  nextSchedule: FRESH_MS,
};

const TOGETHER_MS = 10;
const CLOCK_READ_EVERY_MS = 60_000;

/** One question, which whoever asks the same shares. */
interface Asked {
  verb: Verb;
  /** Null: it waits for its turn. */
  until_ms: number | null;
  waiter: Waiter | null;
  answer: Promise<unknown>;
}

export class SharedReader {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #asked = new Map<string, Asked>();
  /** Jobs that somebody wants to be asked for together, while that waits for its turn. */
  readonly #wanted = new Map<Lane, Set<number>>();
  readonly budget: Budget;
  #time: { read_at_ms: number; offset_ms: number } | null = null;

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
    this.budget = new Budget(clock);
  }

  /** What can be asked, by somebody who is in such a hurry. */
  glance(lane: Lane): Glance {
    const { location, shares_clock } = this.#store;
    const verbs = (Object.keys(GOOD_FOR_MS) as Verb[]).map((verb) => [
      verb,
      (...args: unknown[]) => this.#ask(lane, verb, args),
    ]);
    const watch: Store["watch"] = (changed) => this.#store.watch(changed);
    const onReplaced: Store["onReplaced"] = (fence) => this.#store.onReplaced(fence);
    const asked: Record<Verb, never> = Object.fromEntries(verbs);
    const jobs: Store["jobs"] = (ids) => this.#jobs(lane, ids);
    return { location, shares_clock, now: () => this.now_ms(), watch, onReplaced, ...asked, jobs };
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

  /** Somebody changed something through us: what is remembered is over, but for what nobody can change here. */
  forget(): void {
    for (const [name, { verb }] of this.#asked) if (GOOD_FOR_MS[verb] <= NEAR_MS) this.#asked.delete(name);
  }

  /** A queue was paused, or resumed: that changes no job. */
  forgetPauses(): void {
    for (const [name, { verb }] of this.#asked) if (verb === "pausedQueues") this.#asked.delete(name);
  }

  /** What was tried of a job has moved on since it was asked for. */
  forgetPast(job: number): void {
    for (const name of this.#asked.keys()) {
      if (name === `attempts [${job}]` || name.startsWith(`checkpoints [{"job":${job},`)) this.#asked.delete(name);
    }
  }

  /** Pages of many jobs that are opened in the same moment are one question. */
  async #jobs(lane: Lane, ids: readonly number[]): Promise<(Job | null)[]> {
    const [id] = ids;
    if (ids.length !== 1 || id === undefined) return this.#ask(lane, "jobs", [ids]) as Promise<(Job | null)[]>;
    const wanted = this.#wanted.get(lane) ?? new Set<number>();
    this.#wanted.set(lane, wanted);
    wanted.add(id);
    // All that begin in this moment have named theirs by then; where there are many, their browsers need a little.
    if (this.budget.isCrowded) await sleep(this.#clock, TOGETHER_MS);
    else await Promise.resolve();
    if (this.#wanted.get(lane) === wanted) this.#wanted.delete(lane);
    const together = [...wanted].toSorted((a, b) => a - b);
    const found = (await this.#ask(lane, "jobs", [together])) as (Job | null)[];
    return [found[together.indexOf(id)] ?? null];
  }

  #ask(lane: Lane, verb: Verb, args: readonly unknown[]): Promise<unknown> {
    const name = `${verb} ${JSON.stringify(args)}`;
    const now_ms = this.#clock.mono_ms();
    const known = this.#asked.get(name);
    if (known?.until_ms === null) {
      if (known.waiter !== null) this.budget.hurry(known.waiter, lane);
      return known.answer;
    }
    if (known !== undefined && known.until_ms > now_ms) return known.answer;
    for (const [old, { until_ms }] of this.#asked) if (until_ms !== null && until_ms <= now_ms) this.#asked.delete(old);
    const turn = Promise.withResolvers<unknown>();
    const asked: Asked = { verb, until_ms: null, waiter: null, answer: turn.promise };
    this.#asked.set(name, asked);
    asked.waiter = this.budget.take(lane, () => {
      asked.until_ms = this.#clock.mono_ms() + GOOD_FOR_MS[verb];
      const ask = this.#store[verb] as (...given: readonly unknown[]) => Promise<unknown>;
      turn.resolve(ask.apply(this.#store, args as unknown[]));
    });
    // A failure is told to whoever asked, and not remembered.
    turn.promise.catch(() => {
      if (this.#asked.get(name) === asked) this.#asked.delete(name);
    });
    return turn.promise;
  }
}
