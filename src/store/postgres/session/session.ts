/**
 * The way to the database: two links, and calls that are made again while it can't be reached. What holders write in a
 * hurry goes by whichever link is free, everything else by the first, so that a command needs one connection and no beat
 * waits behind a long read.
 *
 * A link is one connection, made again when it is lost. Nothing waits for ever: a statement that is not answered by its
 * deadline has its socket destroyed, which also ends the waiting on a peer that is gone without a word.
 */

import { Socket } from "node:net";
import postgres from "postgres";
import { sleep, type Clock, type Random } from "../../../core/clock.ts";
import type { SqlRow, SqlValue } from "../../../platform/platform.ts";
import { explain, isConnectionLoss, isPassing, isUncertain, uncertain } from "../failure.ts";
import { toList } from "./arrays.ts";
import type { Target } from "./url.ts";

export type Scalar = SqlValue | boolean;
/** A list is sent as an array. */
export type Param = Scalar | readonly (Scalar | undefined)[];

/** What statements are run on: a link, or a transaction on one. `lease.` in a text stands for the schema of the store. */
export interface Connection {
  query<R = SqlRow>(text: string, params?: readonly Param[]): Promise<R[]>;
  /** Several statements without parameters in one round trip. */
  script(text: string): Promise<void>;
}

/** How long an answer may take. The server gives up on a statement a little before we give up on the server. */
const ANSWER_TIMEOUT_MS = 30_000;

/**
 * The server's own defaults may be anything. Plans are kept for long, and one that was right for an empty table must not
 * survive its growth: every statement of ours has an index to go by.
 */
function sessionOptions(answer_timeout_ms: number): string {
  const statement_timeout_ms = Math.floor(answer_timeout_ms * 0.9);
  return [
    "default_transaction_isolation=read\\ committed",
    "default_transaction_read_only=off",
    `statement_timeout=${statement_timeout_ms}`,
    `lock_timeout=${Math.floor(statement_timeout_ms / 3)}`,
    `idle_in_transaction_session_timeout=${2 * answer_timeout_ms}`,
    "bytea_output=hex",
    "jit=off",
    "enable_seqscan=off",
    "enable_hashjoin=off",
    "enable_mergejoin=off",
  ]
    .map((setting) => `-c ${setting}`)
    .join(" ");
}

/**
 * PostgreSQL has no NUL in texts, and what a program prints may hold one: two noncharacters stand for it, M Z. A text
 * that holds these itself gets an E between them, and one more if it has some there. All other texts are stored as they
 * are, a lone M too: so names compare with what anybody else wrote, and what an earlier version wrote stays readable.
 * Nothing of this is a character of an array's or of JSON's own, so it may be done to any text and to a list of them.
 */
const NUL = "\0";
const [M, E, Z] = ["\uFFFF", "\uFDD1", "\uFDD0"];
const UNSTORABLE = new RegExp(`${NUL}|${M}(?=${E}*${Z})`, "g");
const STAND_IN = new RegExp(`${M}(${E}*)${Z}`, "g");

function withoutNul(text: string): string {
  if (!text.includes(NUL) && !text.includes(M)) return text;
  return text.replaceAll(UNSTORABLE, (found) => (found === NUL ? M + Z : M + E));
}

function withNul(text: string): string {
  if (!text.includes(M)) return text;
  return text.replaceAll(STAND_IN, (_, escapes: string) => (escapes === "" ? NUL : M + escapes.slice(E.length) + Z));
}

const TYPES = {
  text: { to: 25, from: [25], parse: withNul, serialize: (value: unknown) => String(value) },
  // Times and ids stay far below 2^53.
  bigint: { to: 20, from: [20, 1700], parse: Number, serialize: (value: unknown) => String(value) },
};

interface Listener {
  onNotify: (payload: string) => void;
  onLost: () => void;
}

/** A client of the driver, for one connection. */
interface Client {
  sql: postgres.Sql;
  socket: Socket | null;
}

class Link implements Connection {
  readonly #target: Target;
  readonly #answer_timeout_ms: number;
  readonly #listener: Listener | null;
  /** Statements with the schema of the store in them. */
  readonly #texts = new Map<string, string>();
  #client: Client;
  #waiting = 0;

  constructor(target: Target, answer_timeout_ms: number, listener: Listener | null) {
    this.#target = target;
    this.#answer_timeout_ms = answer_timeout_ms;
    this.#listener = listener;
    this.#client = this.#newClient();
  }

  /** Something has been asked and is not answered yet. */
  get busy(): boolean {
    return this.#waiting > 0;
  }

  /** As the server calls it at the start of the session; empty before the first answer. */
  get server_version(): string {
    return String(this.#client.sql.parameters["server_version"] ?? "");
  }

  query<R = SqlRow>(text: string, params?: readonly Param[]): Promise<R[]> {
    return this.#on(this.#client).query(text, params);
  }

  script(text: string): Promise<void> {
    return this.#on(this.#client).script(text);
  }

  async listen(channel: string): Promise<void> {
    const client = this.#client;
    await this.#guard(client, () => client.sql.unsafe(`LISTEN "${channel}"`, [], { prepare: true }));
  }

  /** Isolation is said each time: a pooler in between may have kept our wishes from the server. */
  transaction<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const client = this.#client;
    return this.#asking(client, async () => {
      let stop = this.#watch(client);
      try {
        const done = await client.sql.begin("isolation level read committed read write", async (sql) => {
          stop();
          const result = await work(this.#on(client, sql));
          stop = this.#watch(client);
          return result;
        });
        return done as T;
      } finally {
        stop();
      }
    });
  }

  async end(): Promise<void> {
    const { sql, socket } = this.#client;
    await sql.end({ timeout: 1 });
    socket?.destroy();
  }

  /** `sql` is that of a transaction, if there is one. */
  #on(client: Client, sql: Pick<postgres.Sql, "unsafe"> = client.sql): Connection {
    const ask = <R>(text: string, params: readonly Param[] = []) =>
      sql.unsafe(this.#inSchema(text), params.map(bound) as never[], { prepare: true }) as unknown as PromiseLike<R[]>;
    return {
      query: <R>(text: string, params?: readonly Param[]) => this.#guard(client, () => ask<R>(text, params)),
      script: async (text) => void (await this.#guard(client, () => sql.unsafe(this.#inSchema(text)).simple())),
    };
  }

  #guard<T>(client: Client, ask: () => PromiseLike<T>): Promise<T> {
    return this.#asking(client, async () => {
      const stop = this.#watch(client);
      try {
        return await ask();
      } finally {
        stop();
      }
    });
  }

  #inSchema(template: string): string {
    let text = this.#texts.get(template);
    if (text === undefined) {
      text = template.replaceAll(/\blease\./g, `"${this.#target.schema.replaceAll('"', '""')}".`);
      this.#texts.set(template, text);
    }
    return text;
  }

  async #asking<T>(client: Client, ask: () => Promise<T>): Promise<T> {
    this.#waiting += 1;
    try {
      return await ask();
    } catch (error) {
      if (isConnectionLoss(error)) this.#replace(client);
      throw error;
    } finally {
      this.#waiting -= 1;
    }
  }

  #watch(client: Client): () => void {
    const timer = setTimeout(() => this.#replace(client), this.#answer_timeout_ms);
    return () => clearTimeout(timer);
  }

  /**
   * A client that has lost its connection is not used again: the driver may be left with a write that it takes for
   * scheduled and never makes, and begins again without end when a connection is closed before its first answer.
   */
  #replace(client: Client): void {
    if (client !== this.#client) return;
    this.#client = this.#newClient();
    client.socket?.destroy();
    client.sql.end({ timeout: 0 }).catch(() => {});
  }

  #newClient(): Client {
    const target = this.#target;
    const client: Client = { sql: null as unknown as postgres.Sql, socket: null };
    const settings = {
      host: target.host,
      port: target.port,
      database: target.database,
      username: target.user,
      password: target.password,
      ssl: target.ssl,
      max: 1,
      prepare: true,
      fetch_types: false,
      backoff: 0,
      connect_timeout: Math.ceil(Math.min(target.connect_timeout_ms, this.#answer_timeout_ms) / 1_000),
      keep_alive: 15,
      connection: { application_name: target.application_name, options: sessionOptions(this.#answer_timeout_ms) },
      types: TYPES,
      onnotice: () => {},
      onnotify: (_channel: string, payload: string) => this.#listener?.onNotify(payload),
      onclose: () => {
        this.#replace(client);
        this.#listener?.onLost();
      },
      socket: () => openSocket(client, target),
    };
    client.sql = postgres(settings as unknown as postgres.Options<Record<string, never>>) as unknown as postgres.Sql;
    return client;
  }
}

/** Connects, and hands out a socket in any case: the driver never recovers from a failure here. */
async function openSocket(client: Client, target: Target): Promise<Socket> {
  const again = client.socket !== null;
  const socket = new Socket();
  client.socket = socket;
  const failure = again ? lost("ECONNRESET") : await connected(socket, target);
  if (failure === null) return Object.assign(socket, { host: target.host, port: target.port });
  const dead = new Socket();
  setImmediate(() => dead.destroy(failure));
  return dead;
}

function lost(code: string): Error {
  return Object.assign(new Error("the connection was lost"), { code });
}

function connected(socket: Socket, { host, port, connect_timeout_ms }: Target): Promise<Error | null> {
  return new Promise((resolve) => {
    const done = (failure: Error | null) => {
      clearTimeout(timer);
      socket.removeAllListeners();
      // One that failed may have more to say, to nobody.
      if (failure !== null) socket.on("error", () => {});
      resolve(failure);
    };
    const timer = setTimeout(() => {
      done(lost("CONNECT_TIMEOUT"));
      socket.destroy();
    }, connect_timeout_ms);
    socket.once("connect", () => done(null));
    socket.once("error", done);
    socket.once("close", () => done(lost("ECONNRESET")));
    socket.setNoDelay(true);
    if (host.startsWith("/")) socket.connect(`${host}/.s.PGSQL.${port}`);
    else socket.connect(port, host);
  });
}

function bound(param: Param): Scalar {
  const value = Array.isArray(param) ? toList(param) : (param as Scalar);
  return typeof value === "string" ? withoutNul(value) : value;
}

export interface SessionOptions {
  clock: Clock;
  random: Random;
  /** How long a call keeps trying while the database can't be reached. */
  retry_limit_ms?: number;
  /** How long an answer may take; for tests of peers that give none. */
  answer_timeout_ms?: number;
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
  readonly #first: Link;
  #second: Link | null = null;
  #closed = false;

  constructor(target: Target, options: SessionOptions) {
    this.location = target.location;
    this.#target = target;
    this.#options = options;
    this.#first = this.link();
  }

  get server_version(): string {
    return this.#first.server_version;
  }

  /** A connection of one's own. */
  link(listener: Listener | null = null): Link {
    return new Link(this.#target, this.#options.answer_timeout_ms ?? ANSWER_TIMEOUT_MS, listener);
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
