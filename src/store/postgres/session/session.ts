/**
 * The way to the database: two links, and calls that are made again while it can't be reached. What holders write in a
 * hurry goes by the link that less is asked of, everything else by the first, so that a command needs one connection and no beat
 * waits behind a long read.
 */

import { sleep, type Clock, type Random } from "../../../core/clock.ts";
import type { SqlRow, SqlValue } from "../../../platform/platform.ts";
import { explain, isConnectionLoss, isPassing, isUncertain, uncertain } from "../failure.ts";
import { Hosts } from "./hosts.ts";
import { Link, type LinkListener } from "./link.ts";
import type { Target } from "./url.ts";

export type Scalar = SqlValue | boolean;
/** A list is sent as an array. */
export type Param = Scalar | readonly (Scalar | undefined)[];

/** What statements are run on: a link, or a transaction on one. `lease.` in a text stands for the schema of the store. */
export interface Connection {
  query<R = SqlRow>(text: string, params?: readonly Param[]): Promise<R[]>;
  /** Several statements without parameters in one round trip. */
  script(text: string): Promise<void>;
  /** Rows for a COPY … FROM STDIN: the one way in that no server writes into its log, whatever it is set to. */
  copyIn(text: string, rows: readonly (readonly Scalar[])[]): Promise<void>;
}

/** How long an answer may take. The server gives up on a statement a little before we give up on the server. */
const ANSWER_TIMEOUT_MS = 30_000;

export interface SessionOptions {
  clock: Clock;
  random: Random;
  /** How long a call keeps trying while the database can't be reached. */
  retry_limit_ms?: number;
  /** How long an answer may take; for tests of peers that give none. */
  answer_timeout_ms?: number;
  /** What whoever asked for the store should know. */
  notice?: (text: string) => void;
}

export interface CallOptions {
  /** Must not wait behind others. */
  quick?: boolean;
  /** Not to be asked again when it may have been carried out already. */
  once?: boolean;
}

const DEFAULT_RETRY_LIMIT_MS = 30_000;
const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 2_000;

export class Session {
  readonly location: string;
  readonly #target: Target;
  readonly #options: SessionOptions;
  readonly #hosts: Hosts;
  readonly #first: Link;
  #second: Link | null = null;
  #begin: string | null = null;
  #closed = false;
  /** How often something had to be asked again. */
  retries = 0;

  constructor(target: Target, options: SessionOptions) {
    this.location = target.location;
    this.#target = target;
    this.#options = options;
    this.#hosts = new Hosts(target, options.notice ?? (() => {}));
    this.#first = this.link();
  }

  get server(): { version: string; encoding: string } {
    return this.#first.server;
  }

  /** Every connection, of now and later, begins with this: for what a pooler in between keeps from the server. */
  beginWith(statement: string): void {
    this.#begin = statement;
    this.#first.beginWith(statement);
  }

  /** A connection of one's own. */
  link(listener: LinkListener | null = null): Link {
    const link = new Link(this.#target, this.#hosts, this.#options.answer_timeout_ms ?? ANSWER_TIMEOUT_MS, listener);
    if (this.#begin !== null) link.beginWith(this.#begin);
    return link;
  }

  /** `again`: an earlier try may have been carried out. */
  run<T>(work: (connection: Connection, again: boolean) => Promise<T>, options: CallOptions = {}): Promise<T> {
    return this.#retrying((link, again) => work(link, again), options);
  }

  transaction<T>(work: (connection: Connection, again: boolean) => Promise<T>, options: CallOptions = {}): Promise<T> {
    return this.#retrying((link, again) => link.transaction((connection) => work(connection, again)), options);
  }

  /** One try with each host, on the first link: at the start a database that is not there is an answer. */
  async first<T>(work: (link: Link) => Promise<T>): Promise<T> {
    for (let left = this.#target.hosts.length - 1; ; left--) {
      try {
        return await work(this.#first);
      } catch (error) {
        if (left === 0 || !isConnectionLoss(error)) throw explain(error, this.location);
      }
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([this.#first.end(), this.#second?.end()]);
  }

  async #retrying<T>(work: (link: Link, again: boolean) => Promise<T>, options: CallOptions): Promise<T> {
    const { clock, random, retry_limit_ms = DEFAULT_RETRY_LIMIT_MS } = this.#options;
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
        this.retries += 1;
        await sleep(clock, jittered_ms);
      }
    }
  }

  #pick(quick: boolean): Link {
    if (!quick || this.#first.waiting === 0) return this.#first;
    this.#second ??= this.link();
    return this.#second.waiting <= this.#first.waiting ? this.#second : this.#first;
  }
}
