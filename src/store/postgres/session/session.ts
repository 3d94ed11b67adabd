/**
 * The way to the database: two links, and calls that are made again while it can't be reached. What holders write in a hurry goes by whichever link
 * is free, everything else by the first, so that a command needs one connection and no beat waits behind a long read.
 */

import { sleep, type Clock, type Random } from "../../../core/clock.ts";
import { explain, isPassing, isUncertain, uncertain } from "../failure.ts";
import { Link, type Connection, type LinkOptions } from "./link.ts";
import type { Target } from "./url.ts";

export interface SessionOptions {
  target: Target;
  clock: Clock;
  random: Random;
  /** How long a call keeps trying while the database can't be reached. */
  retry_limit_ms: number;
  answer_timeout_ms?: number | undefined;
}

export interface CallOptions {
  /** Must not wait behind others. */
  quick?: boolean;
  /** Not to be asked again when it may have been carried out already. */
  once?: boolean;
}

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 2_000;

export class Session {
  readonly location: string;
  readonly #options: SessionOptions;
  readonly #first: Link;
  #second: Link | null = null;
  #closed = false;

  constructor(options: SessionOptions) {
    this.location = options.target.location;
    this.#options = options;
    this.#first = this.link();
  }

  get server_version(): string {
    return this.#first.server_version;
  }

  /** A connection of one's own. */
  link(more: Partial<LinkOptions> = {}): Link {
    const { target, answer_timeout_ms } = this.#options;
    return new Link({ target, answer_timeout_ms, ...more });
  }

  /** `again`: an earlier try may have been carried out. */
  run<T>(work: (connection: Connection, again: boolean) => Promise<T>, options: CallOptions = {}): Promise<T> {
    return this.#retrying((link, again) => work(link, again), options);
  }

  transaction<T>(work: (connection: Connection, again: boolean) => Promise<T>, options: CallOptions = {}): Promise<T> {
    return this.#retrying((link, again) => link.transaction((connection) => work(connection, again)), options);
  }

  /** One try, on the first link: at the start a database that is not there is an answer. */
  async first<T>(work: (link: Link) => Promise<T>): Promise<T> {
    try {
      return await work(this.#first);
    } catch (error) {
      throw explain(error, this.location);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([this.#first.end(), this.#second?.end()]);
  }

  async #retrying<T>(work: (link: Link, again: boolean) => Promise<T>, options: CallOptions): Promise<T> {
    const { clock, random, retry_limit_ms } = this.#options;
    const deadline_ms = clock.mono_ms() + retry_limit_ms;
    let again = false;
    for (let pause_ms = FIRST_PAUSE_MS; ; pause_ms = Math.min(2 * pause_ms, LONGEST_PAUSE_MS)) {
      try {
        return await work(this.#pick(options.quick === true), again);
      } catch (error) {
        if (!isPassing(error) || this.#closed) throw explain(error, this.location);
        if (isUncertain(error)) {
          if (options.once === true) throw uncertain(this.location, error);
          again = true;
        }
        // Many clients lose their connections at the same moment and must not all come back at another.
        const jittered_ms = pause_ms * (0.5 + random());
        if (clock.mono_ms() + jittered_ms > deadline_ms) throw explain(error, this.location);
        await sleep(clock, jittered_ms);
      }
    }
  }

  #pick(quick: boolean): Link {
    if (!quick || !this.#first.busy) return this.#first;
    this.#second ??= this.link();
    return this.#second;
  }
}
