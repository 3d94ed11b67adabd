/**
 * One connection to the database, made again when it is lost. Nothing waits for ever: a statement that is not answered
 * by its deadline has its socket destroyed, which also ends the waiting on a peer that is gone without a word.
 */

import { Socket } from "node:net";
import postgres from "postgres";
import type { SqlRow, SqlValue } from "../../../platform/platform.ts";
import { isConnectionLoss } from "../failure.ts";
import { toList } from "./arrays.ts";
import type { Target } from "./url.ts";

export type Scalar = SqlValue | boolean;
/** A list is sent as an array. */
export type Param = Scalar | readonly (Scalar | undefined)[];

/** What statements are run on: a link, or a transaction on one. `lease.` in a text stands for the schema of the store. */
export interface Connection {
  query(text: string, params?: readonly Param[]): Promise<SqlRow[]>;
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

export interface LinkOptions {
  target: Target;
  /** How long an answer may take; for tests of peers that give none. */
  answer_timeout_ms?: number | undefined;
  onNotify?: (payload: string) => void;
  onLost?: () => void;
}

/** Statements with the schema of one store in them. */
class SchemaTexts {
  readonly #prefix: string;
  readonly #texts = new Map<string, string>();

  constructor(schema: string) {
    this.#prefix = `"${schema.replaceAll('"', '""')}".`;
  }

  get(template: string): string {
    let text = this.#texts.get(template);
    if (text === undefined) {
      text = template.replaceAll(/\blease\./g, this.#prefix);
      this.#texts.set(template, text);
    }
    return text;
  }
}

/** A client of the driver, for one connection. */
interface Client {
  sql: postgres.Sql;
  socket: Socket | null;
}

export class Link implements Connection {
  readonly #options: LinkOptions;
  readonly #answer_timeout_ms: number;
  readonly #texts: SchemaTexts;
  #client: Client;
  #waiting = 0;

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#answer_timeout_ms = options.answer_timeout_ms ?? ANSWER_TIMEOUT_MS;
    this.#texts = new SchemaTexts(options.target.schema);
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

  query(text: string, params: readonly Param[] = []): Promise<SqlRow[]> {
    return this.#guard(this.#client, ({ sql }) => run(sql, this.#texts.get(text), params));
  }

  async script(text: string): Promise<void> {
    await this.#guard(this.#client, ({ sql }) => sql.unsafe(this.#texts.get(text)).simple());
  }

  async listen(channel: string): Promise<void> {
    await this.#guard(this.#client, ({ sql }) => run(sql, `LISTEN "${channel}"`, []));
  }

  /** Isolation is said each time: a pooler in between may have kept our wishes from the server. */
  async transaction<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const client = this.#client;
    this.#waiting += 1;
    let stop = this.#watch(client);
    try {
      return (await client.sql.begin("isolation level read committed read write", async (sql) => {
        stop();
        const result = await work({
          query: (text, params = []) => this.#guard(client, () => run(sql, this.#texts.get(text), params)),
          script: async (text) => void (await this.#guard(client, () => sql.unsafe(this.#texts.get(text)).simple())),
        });
        stop = this.#watch(client);
        return result;
      })) as T;
    } catch (error) {
      if (isConnectionLoss(error)) this.#replace(client);
      throw error;
    } finally {
      stop();
      this.#waiting -= 1;
    }
  }

  async end(): Promise<void> {
    const { sql, socket } = this.#client;
    await sql.end({ timeout: 1 });
    socket?.destroy();
  }

  async #guard<T>(client: Client, ask: (client: Client) => PromiseLike<T>): Promise<T> {
    this.#waiting += 1;
    const stop = this.#watch(client);
    try {
      return await ask(client);
    } catch (error) {
      if (isConnectionLoss(error)) this.#replace(client);
      throw error;
    } finally {
      stop();
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
    const { target, onNotify, onLost } = this.#options;
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
      onnotify: (_channel: string, payload: string) => onNotify?.(payload),
      onclose: () => {
        this.#replace(client);
        onLost?.();
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

async function run(sql: Pick<postgres.Sql, "unsafe">, text: string, params: readonly Param[]): Promise<SqlRow[]> {
  const values = params.map((param) => {
    const value = Array.isArray(param) ? toList(param) : param;
    return typeof value === "string" ? withoutNul(value) : value;
  });
  return (await sql.unsafe(text, values as never[], { prepare: true })) as unknown as SqlRow[];
}
