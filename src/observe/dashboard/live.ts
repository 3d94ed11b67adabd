/**
 * Keeps open tabs up to date. A tab names the answers that it shows, by their paths; tabs that show the same share one
 * look. An answer is looked up at once for a page that is opened, and again when the store has changed and there is room
 * in the budget of questions, in turns, and sent on where it differs. An answer that says what its next path is (a log
 * that grows) moves its tabs there.
 */

import type { Clock } from "../../core/clock.ts";
import { errorText } from "../../core/errors.ts";
import type { Budget, Lane } from "./budget.ts";
import { CALM_MS } from "./shared_reader.ts";

/** What is looked up: a status, a body in JSON, and the path that leads on, where there is one. */
export interface Answer {
  status: number;
  body: string;
  next: string | null;
  /** There is more of it than there was room to ask for. */
  partial?: boolean;
  /** It will not change any more. */
  final?: boolean;
}

export type Send = (path: string, answer: Answer) => void;

interface LiveOptions {
  look: (path: string, lane: Lane) => Promise<Answer>;
  watch: (changed: () => void) => () => void;
  budget: Budget;
  clock: Clock;
}

/** One who looks: by which name a browser's tab is known to us, and how it is told. */
interface Seat {
  /** The path by which its tab knows the topic. */
  known_as: string;
  tab: string | null;
}

interface Topic {
  path: string;
  tabs: Map<Send, Seat>;
  answer: Answer | null;
  /** The change of the store that it knows of. */
  change: number;
  looked_at_ms: number;
  is_looking: boolean;
  /** Somebody has come back to it, who has not seen what has changed. */
  is_awaited: boolean;
  /** Since when nobody has shown it. */
  left_at_ms: number | null;
}

/** When a topic is looked up next, and for whom: with `turn_ms` the one that has waited longest comes first. */
interface Turn {
  topic: Topic;
  lane: Lane;
  due_ms: number;
  turn_ms: number;
}

/** Between two looks at the same thing. */
const PERIOD_MS = 700;
/** A log that grows is what people watch. */
const FOLLOW_MS = 350;
/** And they want it to move also when there is no room: it takes one question, which the others wait for. */
const STILL_MS = 700;
/** But of many logs together no more than this. */
const STILL_TOGETHER_MS = 400;
/** Even if the store says nothing: other machines' clocks, workers that stopped to beat. */
const IDLE_MS = 10_000;
/** What somebody has just begun goes on: a job that is cancelled has to end. */
const HOT_MS = 4_000;
const HOT_PERIOD_MS = 450;
/** A tab that shows one thing more comes back at once. */
const LINGER_MS = 1_000;

export class Live {
  readonly #options: LiveOptions;
  readonly #topics = new Map<string, Topic>();
  #change = 0;
  #changed_at_ms = -Infinity;
  /** The last change that was made through us: which, in which tab, and until when more is expected to come of it. */
  #ours = { change: 0, tab: null as string | null, hot_until_ms: -Infinity };
  #unwatch: (() => void) | null = null;
  #wake = Promise.withResolvers<void>();
  #running = false;
  #is_at_news = false;
  #stopped = false;

  constructor(options: LiveOptions) {
    this.#options = options;
  }

  /** The returned function ends it. */
  follow(paths: readonly string[], send: Send, tab: string | null = null): () => void {
    for (const path of paths) this.#join(path, send, { known_as: path, tab });
    this.#unwatch ??= this.#options.watch(() => this.changed());
    void this.#run();
    return () => {
      for (const topic of this.#topics.values()) if (topic.tabs.delete(send)) this.#leave(topic);
    };
  }

  /** The store is not as it was. */
  changed(): void {
    this.#change += 1;
    this.#changed_at_ms = this.#options.clock.mono_ms();
    this.#wake.resolve();
  }

  /** Somebody who looks has changed it, and wants to see that; and what comes of it, where it `goes_on`. */
  changedByUs(tab: string | null, goes_on: boolean): void {
    this.changed();
    this.#ours = { change: this.#change, tab, hot_until_ms: goes_on ? this.#changed_at_ms + HOT_MS : -Infinity };
  }

  stop(): void {
    this.#stopped = true;
    this.#unwatch?.();
    this.#unwatch = null;
    this.#wake.resolve();
  }

  #join(path: string, send: Send, seat: Seat): void {
    const topic = this.#topics.get(path) ?? {
      path,
      tabs: new Map<Send, Seat>(),
      answer: null,
      change: -1,
      looked_at_ms: -Infinity,
      is_looking: false,
      is_awaited: false,
      left_at_ms: null,
    };
    this.#topics.set(path, topic);
    topic.tabs.set(send, seat);
    topic.is_awaited ||= topic.left_at_ms !== null && topic.change < this.#change;
    topic.left_at_ms = null;
    if (topic.answer !== null && topic.answer.body !== "") send(seat.known_as, topic.answer);
    this.#wake.resolve();
  }

  #leave(topic: Topic): void {
    if (topic.tabs.size > 0) return;
    topic.left_at_ms = this.#options.clock.mono_ms();
    this.#wake.resolve();
  }

  async #run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    for (;;) {
      this.#sweep();
      if (this.#stopped || this.#topics.size === 0) break;
      this.#wake = Promise.withResolvers();
      const next_ms = this.#start();
      if (next_ms > 0) await this.#pause(next_ms);
    }
    this.#running = false;
    if (this.#topics.size > 0) return;
    this.#unwatch?.();
    this.#unwatch = null;
  }

  /** What nobody has shown for a while. */
  #sweep(): void {
    const before_ms = this.#options.clock.mono_ms() - LINGER_MS;
    for (const topic of this.#topics.values()) {
      if (topic.left_at_ms !== null && topic.left_at_ms <= before_ms) this.#topics.delete(topic.path);
    }
  }

  /** Begins each look whose turn it is; answers how long it takes until the next. */
  #start(): number {
    const { clock } = this.#options;
    const now_ms = clock.mono_ms();
    const left_ms = [...this.#topics.values()].map(({ left_at_ms }) => (left_at_ms ?? Infinity) + LINGER_MS);
    const turns = this.#turns(now_ms);
    for (const { topic, lane, due_ms } of turns) if (due_ms === -Infinity) void this.#look(topic, lane);
    // One after the other: each is charged for before the next begins.
    const [next] = turns
      .filter(({ due_ms }) => due_ms > -Infinity)
      .toSorted((a, b) => (a.due_ms === b.due_ms ? a.turn_ms - b.turn_ms : a.due_ms - b.due_ms));
    if (next === undefined || this.#is_at_news) return Math.min(...left_ms, now_ms + IDLE_MS) - now_ms;
    if (next.due_ms <= now_ms) void this.#lookForNews(next);
    return Math.min(next.due_ms <= now_ms ? Infinity : next.due_ms, ...left_ms, now_ms + IDLE_MS) - now_ms;
  }

  async #lookForNews({ topic, lane }: Turn): Promise<void> {
    this.#is_at_news = true;
    await this.#look(topic, lane);
    this.#is_at_news = false;
    this.#wake.resolve();
  }

  #turns(now_ms: number): Turn[] {
    const shown = [...this.#topics.values()].filter(({ tabs }) => tabs.size > 0);
    const logs = shown.filter(({ answer }) => grows(answer)).length;
    const still_ms = Math.max(STILL_MS, logs * STILL_TOGETHER_MS);
    const room_at_ms = now_ms + this.#options.budget.wait_ms;
    return shown
      .filter(({ is_looking, answer }) => !is_looking && answer?.final !== true)
      .map((topic) => {
        const { looked_at_ms, answer, change } = topic;
        // Where somebody waits for it, it is looked up at once; everything else can wait for its turn.
        const lane = this.#urgentLane(topic);
        if (lane !== null) return { topic, lane, turn_ms: -Infinity, due_ms: -Infinity };
        const turn_ms = change < this.#ours.change ? -Infinity : looked_at_ms + this.#periodOf(topic, now_ms);
        if (this.#isHot(topic, now_ms)) return { topic, lane: "now", turn_ms, due_ms: turn_ms };
        const free_ms = grows(answer) ? Math.min(room_at_ms, looked_at_ms + still_ms) : room_at_ms;
        return { topic, lane: grows(answer) ? "now" : "later", turn_ms, due_ms: Math.max(turn_ms, free_ms) };
      });
  }

  #periodOf(topic: Topic, now_ms: number): number {
    if (topic.change >= this.#change) return IDLE_MS;
    if (grows(topic.answer)) return FOLLOW_MS;
    return this.#isHot(topic, now_ms) ? HOT_PERIOD_MS : PERIOD_MS;
  }

  /** Null: nobody waits for it. */
  #urgentLane({ answer, change, tabs, is_awaited }: Topic): Lane | null {
    if (answer === null || is_awaited) return "now";
    if (answer.partial === true) return "soon";
    return change < this.#ours.change && this.#isOfTab(tabs) ? "now" : null;
  }

  /** What its tab has changed a moment ago. */
  #isHot({ tabs }: Topic, now_ms: number): boolean {
    return now_ms < this.#ours.hot_until_ms && this.#isOfTab(tabs);
  }

  #isOfTab(tabs: Topic["tabs"]): boolean {
    const ours = this.#ours.tab;
    return ours !== null && tabs.values().some(({ tab }) => tab === ours);
  }

  async #pause(wait_ms: number): Promise<void> {
    const passed = Promise.withResolvers<void>();
    const cancel = this.#options.clock.after(wait_ms, passed.resolve);
    await Promise.race([passed.promise, this.#wake.promise]);
    cancel();
  }

  async #look(topic: Topic, lane: Lane): Promise<void> {
    topic.is_looking = true;
    topic.is_awaited = false;
    // What it is told may be as old as an answer that was given before.
    const settled = this.#options.clock.mono_ms() - this.#changed_at_ms >= CALM_MS;
    const fresh = settled || (topic.answer !== null && topic.change < this.#ours.change);
    topic.change = fresh ? this.#change : this.#change - 1;
    const answer = await this.#options.look(topic.path, lane).catch(failed);
    topic.is_looking = false;
    topic.looked_at_ms = this.#options.clock.mono_ms();
    const same = topic.answer?.body === answer.body && topic.answer.status === answer.status;
    topic.answer = answer;
    this.#wake.resolve();
    if (same) return;
    for (const [send, { known_as }] of topic.tabs) send(known_as, answer);
    if (answer.next === null || answer.next === topic.path) return;
    const tabs = [...topic.tabs];
    this.#topics.delete(topic.path);
    for (const [send, seat] of tabs) this.#moveOn(answer, send, seat);
  }

  /** Where others are there already, what they saw before is not for this one. */
  #moveOn({ next, status }: Answer, send: Send, seat: Seat): void {
    const path = next as string;
    const topic = this.#topics.get(path);
    if (topic !== undefined) {
      topic.tabs.set(send, seat);
      topic.left_at_ms = null;
      return;
    }
    this.#join(path, send, seat);
    const joined = this.#topics.get(path);
    if (joined === undefined) return;
    // It is at the end as far as anybody knows: no hurry.
    joined.answer = { status, body: "", next: path };
    joined.change = this.#change - 1;
    joined.looked_at_ms = this.#options.clock.mono_ms();
  }
}

/** A log that may go on. */
function grows(answer: Answer | null): boolean {
  return answer !== null && answer.next !== null;
}

function failed(error: unknown): Answer {
  return { status: 500, body: JSON.stringify({ error: errorText(error) }), next: null };
}
