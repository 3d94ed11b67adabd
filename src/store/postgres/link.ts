/**
 * One connection to the database, made again when it is lost. Nothing waits for ever: a statement that is not answered
 * by its deadline has its socket destroyed, which also ends the waiting on a peer that is gone without a word.
 */

import { Socket } from "node:net";
import postgres from "postgres";
import type { SqlRow, SqlValue } from "../../platform/platform.ts";
import type { Target } from "./url.ts";

export type Param = SqlValue | boolean;

/** What statements are run on: a link, or a transaction on one. */
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

/** PostgreSQL has no NUL in texts; a noncharacter stands for it. */
const NUL = "\0";
const STAND_IN = "\uFFFF";
const withoutNul = (text: string) => (text.includes(NUL) ? text.replaceAll(NUL, STAND_IN) : text);
const withNul = (text: string) => (text.includes(STAND_IN) ? text.replaceAll(STAND_IN, NUL) : text);

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

export class Link implements Connection {
  readonly #sql: postgres.Sql;
  readonly #answer_timeout_ms: number;
  #socket: Socket | null = null;
  #waiting = 0;

  constructor(options: LinkOptions) {
    const { target } = options;
    this.#answer_timeout_ms = options.answer_timeout_ms ?? ANSWER_TIMEOUT_MS;
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
      onnotify: (_channel: string, payload: string) => options.onNotify?.(payload),
      onclose: () => options.onLost?.(),
      socket: () => this.#open(target),
    };
    this.#sql = postgres(settings as unknown as postgres.Options<Record<string, never>>) as unknown as postgres.Sql;
  }

  /** Something has been asked and is not answered yet. */
  get busy(): boolean {
    return this.#waiting > 0;
  }

  /** As the server calls it at the start of the session; empty before the first answer. */
  get server_version(): string {
    return String(this.#sql.parameters["server_version"] ?? "");
  }

  query(text: string, params: readonly Param[] = []): Promise<SqlRow[]> {
    return this.#guard(() => run(this.#sql, text, params));
  }

  async script(text: string): Promise<void> {
    await this.#guard(() => this.#sql.unsafe(text).simple());
  }

  /** Isolation is said each time: a pooler in between may have kept our wishes from the server. */
  async transaction<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    this.#waiting += 1;
    let stop = this.#watch();
    try {
      return (await this.#sql.begin("isolation level read committed read write", async (sql) => {
        stop();
        const result = await work({
          query: (text, params = []) => this.#guard(() => run(sql, text, params)),
          script: async (text) => void (await this.#guard(() => sql.unsafe(text).simple())),
        });
        stop = this.#watch();
        return result;
      })) as T;
    } finally {
      stop();
      this.#waiting -= 1;
    }
  }

  /** Gives up what is being waited for. */
  cut(): void {
    this.#socket?.destroy();
  }

  async end(): Promise<void> {
    await this.#sql.end({ timeout: 1 });
    this.cut();
  }

  async #guard<T>(ask: () => PromiseLike<T>): Promise<T> {
    this.#waiting += 1;
    const stop = this.#watch();
    try {
      return await ask();
    } finally {
      stop();
      this.#waiting -= 1;
    }
  }

  #watch(): () => void {
    const timer = setTimeout(() => this.cut(), this.#answer_timeout_ms);
    return () => clearTimeout(timer);
  }

  #open({ host, port }: Target): Socket {
    const socket = new Socket();
    this.#socket = socket;
    socket.setNoDelay(true);
    if (host.startsWith("/")) socket.connect(`${host}/.s.PGSQL.${port}`);
    else socket.connect(port, host);
    // The name that a certificate is checked against.
    return Object.assign(socket, { host, port });
  }
}

async function run(sql: Pick<postgres.Sql, "unsafe">, text: string, params: readonly Param[]): Promise<SqlRow[]> {
  const values = params.map((param) => (typeof param === "string" ? withoutNul(param) : param));
  return (await sql.unsafe(text, values as never[], { prepare: true })) as unknown as SqlRow[];
}
