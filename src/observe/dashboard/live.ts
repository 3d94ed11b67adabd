/**
 * Keeps open tabs up to date. A tab names the answers that it shows, by their paths; tabs that show the same share one
 * look. An answer is looked up again when the store has changed, when there is room in the budget of questions, in turns,
 * and sent on where it differs. An answer that says what its next path is (a log that grows) moves its tabs there.
 */

import type { Clock } from "../../core/clock.ts";
import { errorText } from "../../core/errors.ts";
import { FRESH_MS, type Budget } from "./shared_reader.ts";

/** What is looked up: a status, a body in JSON, and the path that leads on, where there is one. */
export interface Answer {
  status: number;
  body: string;
  next: string | null;
}

export type Send = (path: string, answer: Answer) => void;

interface LiveOptions {
  look: (path: string) => Promise<Answer>;
  watch: (changed: () => void) => () => void;
  budget: Budget;
  clock: Clock;
}

interface Topic {
  path: string;
  /** Each with the path by which its tab knows it. */
  tabs: Map<Send, string>;
  answer: Answer | null;
  /** The change of the store that it knows of. */
  change: number;
  looked_at_ms: number;
  /** It has been left behind, or nobody shows it any more. */
  over: boolean;
}

/** Between two looks at the same thing. */
const PERIOD_MS = 700;
/** A log that grows is what people watch. */
const FOLLOW_MS = 350;
/** And they want it to move also when there is no room: it takes one question, which the others wait for. */
const STILL_MS = 1_000;
/** Even if the store says nothing: other machines' clocks, workers that stopped to beat. */
const IDLE_MS = 10_000;

export class Live {
  readonly #options: LiveOptions;
  readonly #topics = new Map<string, Topic>();
  #change = 0;
  #changed_at_ms = -Infinity;
  #our_change = 0;
  #unwatch: (() => void) | null = null;
  #wake = Promise.withResolvers<void>();
  #running = false;
  #stopped = false;

  constructor(options: LiveOptions) {
    this.#options = options;
  }

  /** The returned function ends it. */
  follow(paths: readonly string[], send: Send): () => void {
    for (const path of paths) this.#join(path, send, path);
    this.#unwatch ??= this.#options.watch(() => this.changed());
    void this.#run();
    return () => {
      for (const topic of this.#topics.values()) if (topic.tabs.delete(send)) this.#leave(topic);
    };
  }

  /** The store is not as it was; `by_us`: somebody who looks has changed it, and wants to see that. */
  changed(by_us = false): void {
    this.#change += 1;
    this.#changed_at_ms = this.#options.clock.mono_ms();
    if (by_us) this.#our_change = this.#change;
    this.#wake.resolve();
  }

  stop(): void {
    this.#stopped = true;
    this.#unwatch?.();
    this.#unwatch = null;
    this.#wake.resolve();
  }

  #join(path: string, send: Send, known_as: string): void {
    const topic = this.#topics.get(path) ?? {
      path,
      tabs: new Map<Send, string>(),
      answer: null,
      change: -1,
      looked_at_ms: -Infinity,
      over: false,
    };
    this.#topics.set(path, topic);
    topic.tabs.set(send, known_as);
    if (topic.answer !== null && topic.answer.body !== "") send(known_as, topic.answer);
    this.#wake.resolve();
  }

  #leave(topic: Topic): void {
    if (topic.tabs.size > 0) return;
    topic.over = true;
    this.#topics.delete(topic.path);
    this.#wake.resolve();
  }

  async #run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    while (!this.#stopped && this.#topics.size > 0) {
      this.#wake = Promise.withResolvers();
      const next = this.#next();
      if (next.wait_ms > 0) await this.#pause(next.wait_ms);
      else await this.#look(next.topic);
    }
    this.#running = false;
    if (this.#topics.size > 0) return;
    this.#unwatch?.();
    this.#unwatch = null;
  }

  /** Whose turn it is, and when. */
  #next(): { topic: Topic; wait_ms: number } {
    const { clock, budget } = this.#options;
    const now_ms = clock.mono_ms();
    const room_at_ms = now_ms + budget.wait_ms;
    const turns = [...this.#topics.values()].map((topic) => {
      const { looked_at_ms } = topic;
      // Where somebody waits for it, it is looked up at once; everything else can wait for its turn.
      if (this.#isUrgent(topic)) return { topic, turn_ms: -Infinity, due_ms: -Infinity };
      const grows = topic.answer?.next !== null;
      const turn_ms = looked_at_ms + (topic.change < this.#change ? (grows ? FOLLOW_MS : PERIOD_MS) : IDLE_MS);
      const free_ms = grows ? Math.min(room_at_ms, looked_at_ms + STILL_MS) : room_at_ms;
      return { topic, turn_ms, due_ms: Math.max(turn_ms, free_ms) };
    });
    const [next] = turns.toSorted((a, b) => (a.due_ms === b.due_ms ? a.turn_ms - b.turn_ms : a.due_ms - b.due_ms));
    const { topic, due_ms } = next as (typeof turns)[0];
    return { topic, wait_ms: Math.max(0, due_ms - now_ms) };
  }

  #isUrgent({ answer, change }: Topic): boolean {
    return answer === null || change < this.#our_change;
  }

  async #pause(wait_ms: number): Promise<void> {
    const passed = Promise.withResolvers<void>();
    const cancel = this.#options.clock.after(wait_ms, passed.resolve);
    await Promise.race([passed.promise, this.#wake.promise]);
    cancel();
  }

  async #look(topic: Topic): Promise<void> {
    // What it is told may be as old as an answer that another tab got.
    const settled = this.#options.clock.mono_ms() - this.#changed_at_ms >= FRESH_MS;
    const fresh = settled || (topic.answer !== null && topic.change < this.#our_change);
    topic.change = fresh ? this.#change : this.#change - 1;
    const answer = await this.#options.look(topic.path).catch(failed);
    topic.looked_at_ms = this.#options.clock.mono_ms();
    const same = topic.answer?.body === answer.body && topic.answer.status === answer.status;
    topic.answer = answer;
    if (same) return;
    for (const [send, known_as] of topic.tabs) send(known_as, answer);
    if (answer.next === null || answer.next === topic.path) return;
    const tabs = [...topic.tabs];
    topic.tabs.clear();
    this.#leave(topic);
    for (const [send, known_as] of tabs) this.#moveOn(answer, send, known_as);
  }

  /** Where others are there already, what they saw before is not for this one. */
  #moveOn({ next, status }: Answer, send: Send, known_as: string): void {
    const path = next as string;
    const topic = this.#topics.get(path);
    if (topic !== undefined) return void topic.tabs.set(send, known_as);
    this.#join(path, send, known_as);
    const joined = this.#topics.get(path);
    if (joined === undefined) return;
    // It is at the end as far as anybody knows: no hurry.
    joined.answer = { status, body: "", next: path };
    joined.change = this.#change - 1;
    joined.looked_at_ms = this.#options.clock.mono_ms();
  }
}

function failed(error: unknown): Answer {
  return { status: 500, body: JSON.stringify({ error: errorText(error) }), next: null };
}
