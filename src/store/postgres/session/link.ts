/**
 * One connection to the database, made again when it is lost. Nothing waits for ever: a statement that is not answered by
 * its deadline has its socket destroyed, which also ends the waiting on a peer that is gone without a word.
 */

import { Socket } from "node:net";
import postgres from "postgres";
import type { SqlRow } from "../../../platform/platform.ts";
import { READ_ONLY, codeOf, isConnectionLoss } from "../failure.ts";
import { TYPES, bound, copyLine } from "./cells.ts";
import { lost, type Hosts, type Way } from "./hosts.ts";
import type { Connection, Param, Scalar } from "./session.ts";
import type { Target } from "./url.ts";

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
    // Whatever the role or the database is set to: what we say is done is on disk.
    "synchronous_commit=on",
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
 * Begins a statement for which one plan is right whatever it is given. For few jobs at a time the server would take a plan
 * of its own each time for cheaper, and making it takes longer than carrying it out.
 */
export const ONE_PLAN = "/* one plan */ ";

export interface LinkListener {
  onNotify: (payload: string) => void;
  onLost: () => void;
}

/** How statements are planned from here on. */
interface Planned {
  /** Whether each keeps one plan; null: nobody knows. */
  one_plan: boolean | null;
}

/** A client of the driver, for one connection. */
interface Client extends Planned {
  sql: postgres.Sql;
  /** All that were opened on the way. */
  sockets: Socket[];
  /** Null: there is no connection yet. */
  way: Way | null;
  given_up: boolean;
  begun: boolean;
  /** Rejected when it is given up. */
  gone: PromiseWithResolvers<never>;
}

export class Link implements Connection {
  readonly #target: Target;
  readonly #hosts: Hosts;
  readonly #answer_timeout_ms: number;
  readonly #listener: LinkListener | null;
  /** Statements with the schema of the store in them. */
  readonly #texts = new Map<string, string>();
  #client: Client;
  #waiting = 0;
  #begin: string | null = null;

  constructor(target: Target, hosts: Hosts, answer_timeout_ms: number, listener: LinkListener | null) {
    this.#target = target;
    this.#hosts = hosts;
    this.#answer_timeout_ms = answer_timeout_ms;
    this.#listener = listener;
    this.#client = this.#newClient();
  }

  /** How much has been asked that is not answered yet. */
  get waiting(): number {
    return this.#waiting;
  }

  /** As the server says at the start of the session; empty before the first answer. */
  get server(): { version: string; encoding: string } {
    const { server_version = "", server_encoding = "" } = this.#client.sql.parameters;
    return { version: String(server_version), encoding: String(server_encoding) };
  }

  beginWith(statement: string): void {
    this.#begin = statement;
  }

  query<R = SqlRow>(text: string, params?: readonly Param[]): Promise<R[]> {
    return this.#on(this.#client).query(text, params);
  }

  script(text: string): Promise<void> {
    return this.#on(this.#client).script(text);
  }

  copyIn(text: string, rows: readonly (readonly Scalar[])[]): Promise<void> {
    return this.#on(this.#client).copyIn(text, rows);
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
      // What is asked beside it comes before or after it, and finds what it leaves.
      client.one_plan = null;
      try {
        const done = await client.sql.begin("isolation level read committed read write", async (sql) => {
          stop();
          const result = await work(this.#on(client, sql, { one_plan: null }));
          stop = this.#watch(client);
          return result;
        });
        return done as T;
      } finally {
        client.one_plan = null;
        stop();
      }
    });
  }

  async end(): Promise<void> {
    const client = this.#client;
    await client.sql.end({ timeout: 1 });
    giveUp(client);
  }

  /** `sql` is that of a transaction, if there is one. */
  #on(client: Client, sql: Pick<postgres.Sql, "unsafe"> = client.sql, planned: Planned = client): Connection {
    const ask = <R>(text: string, params: readonly Param[] = []) => {
      if (params.length > 0) planFor(planned, sql, text.startsWith(ONE_PLAN));
      return sql.unsafe(this.#inSchema(text), params.map(bound) as never[], {
        prepare: true,
      }) as unknown as PromiseLike<R[]>;
    };
    return {
      query: <R>(text: string, params?: readonly Param[]) => this.#guard(client, () => ask<R>(text, params)),
      copyIn: (text, rows) =>
        this.#guard(client, async () => {
          const copy = await sql.unsafe(this.#inSchema(text)).writable();
          const written = new Promise<void>(
            (resolve, reject) => void copy.once("finish", resolve).once("error", reject),
          );
          copy.end(rows.map(copyLine).join(""));
          // The driver does not say when the server refuses it in the end; then the connection is given up in time.
          await Promise.race([written, client.gone.promise]);
        }),
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
      this.#beginOn(client);
      return await ask();
    } catch (error) {
      if (isConnectionLoss(error)) this.#replace(client);
      if (codeOf(error) === READ_ONLY && client.way !== null) this.#hosts.leave(client.way.host);
      throw error;
    } finally {
      this.#waiting -= 1;
    }
  }

  /** Goes out ahead of what is asked. */
  #beginOn(client: Client): void {
    if (this.#begin === null || client.begun) return;
    client.begun = true;
    client.sql.unsafe(this.#begin).then(undefined, () => {});
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
    giveUp(client);
    client.sql.end({ timeout: 0 }).catch(() => {});
  }

  /** It says so before it takes the first statement. */
  #refuseStandby(client: Client): void {
    if (client.way === null) return;
    this.#hosts.leave(client.way.host);
    client.way.socket.destroy(lost("STANDBY"));
  }

  #newClient(): Client {
    const target = this.#target;
    const fresh = {
      sockets: [],
      way: null,
      given_up: false,
      begun: false,
      one_plan: false,
      gone: Promise.withResolvers<never>(),
    };
    fresh.gone.promise.catch(() => {});
    const client: Client = { sql: null as unknown as postgres.Sql, ...fresh };
    const settings = {
      // Which host it is, and whether that is encrypted, is the socket's affair.
      host: "localhost",
      port: 0,
      ssl: false,
      database: target.database,
      username: target.user,
      password: () => client.way?.host.password ?? "",
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
      onparameter: (name: string, value: string) => {
        if (name === "in_hot_standby" && value === "on" && target.writable) this.#refuseStandby(client);
      },
      onclose: () => {
        this.#replace(client);
        this.#listener?.onLost();
      },
      socket: () => openSocket(client, this.#hosts),
    };
    client.sql = postgres(settings as unknown as postgres.Options<Record<string, never>>) as unknown as postgres.Sql;
    return client;
  }
}

/** A socket in any case: the driver never recovers from a failure here. */
async function openSocket(client: Client, hosts: Hosts): Promise<Socket> {
  try {
    // It is not to connect again: a client that was lost is replaced.
    if (client.way !== null) throw lost("ECONNRESET");
    client.way = await hosts.connect((socket) => {
      client.sockets.push(socket);
      return !client.given_up;
    });
    client.sockets.push(client.way.socket);
    return client.way.socket;
  } catch (failure) {
    const dead = new Socket();
    setImmediate(() => dead.destroy(failure as Error));
    return dead;
  }
}

/** Goes out ahead of a statement, where it has to be said. */
function planFor(planned: Planned, sql: Pick<postgres.Sql, "unsafe">, one_plan: boolean): void {
  if (planned.one_plan === one_plan) return;
  planned.one_plan = one_plan;
  const mode = one_plan ? "force_generic_plan" : "auto";
  sql
    .unsafe(`SET plan_cache_mode = ${mode}`)
    .simple()
    .then(undefined, () => (planned.one_plan = null));
}

function giveUp(client: Client): void {
  client.given_up = true;
  client.gone.reject(lost("ECONNRESET"));
  for (const socket of client.sockets) socket.destroy();
}
