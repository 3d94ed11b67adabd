/** Whom a PostgreSQL store belongs to, who may use it, and what the database must be. */

import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { connect, createServer } from "node:net";
import postgres from "postgres";
import { LeaseError } from "../../src/core/errors.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import type { Store } from "../../src/store/store.ts";
import { newJob } from "../support/jobs.ts";
import { newSchema, postgresUrl, type Schema } from "../support/postgres.ts";

setDefaultTimeout(30_000);

const clearing: (() => unknown)[] = [];
afterAll(async () => {
  for (const clear of clearing.toReversed()) await clear();
});

/** An empty place, and roles for it. */
class Place {
  readonly schema: Schema;
  #roles = 0;

  constructor(schema: Schema) {
    this.schema = schema;
  }

  get name(): string {
    return this.schema.name;
  }

  sql(text: string) {
    return this.schema.sql.unsafe(text);
  }

  async role(more = ""): Promise<{ name: string; url: string }> {
    const name = `${this.schema.name}_r${++this.#roles}`;
    await this.sql(`CREATE ROLE ${name} LOGIN PASSWORD 'x' ${more}`);
    clearing.push(async () => {
      const sql = postgres(await postgresUrl(), { max: 1, onnotice: () => {} });
      await sql.unsafe(`DROP OWNED BY ${name} CASCADE`);
      await sql.unsafe(`DROP ROLE ${name}`);
      await sql.end();
    });
    return { name, url: this.schema.url.replace("lease:secret@", `${name}:x@`) };
  }
}

async function newPlace(): Promise<Place> {
  const schema = await newSchema();
  clearing.push(() => schema.drop());
  return new Place(schema);
}

const OPTIONS = { clock: systemClock, random: systemRandom, retry_limit_ms: 500, env: { HOME: "/nowhere" } };

async function use(url: string, trust = false, work: (store: Store) => Promise<unknown> = enqueueOne): Promise<void> {
  const store = await openPostgres(url, { ...OPTIONS, trust });
  try {
    await work(store);
  } finally {
    await store.close();
  }
}

const enqueueOne = (store: Store) => store.enqueue([newJob()]);

async function refusal(url: string): Promise<LeaseError> {
  const error = await use(url).then(
    () => null,
    (reason: unknown) => reason,
  );
  if (error instanceof LeaseError) return error;
  throw new Error(`expected a LeaseError, got ${String(error)}`);
}

describe("a schema", () => {
  test("that somebody else made first is refused, until they are named or trusted", async () => {
    const place = await newPlace();
    const [stranger, us] = [await place.role(), await place.role()];
    await place.sql(`CREATE SCHEMA ${place.name} AUTHORIZATION ${stranger.name}`);
    await use(stranger.url);
    await place.sql(`GRANT ALL ON SCHEMA ${place.name} TO ${us.name}`);
    await place.sql(`GRANT ALL ON ALL TABLES IN SCHEMA ${place.name} TO ${us.name}`);
    const error = await refusal(us.url);
    expect([error.code, error.exit_code]).toEqual(["store_untrusted", 125]);
    expect(error.message).toContain(`schema ${place.name} of store postgres://${us.name}@`);
    expect(error.message).toContain(`belongs to role ${stranger.name}`);
    expect(error.message).toContain(`owner=${stranger.name}`);
    // Nor does a superuser's power make it one of its own.
    expect((await refusal(place.schema.url)).code).toBe("store_untrusted");
    await use(`${us.url}&owner=${stranger.name}`);
    await use(us.url, true);
    expect((await refusal(`${us.url}&owner=nobody`)).code).toBe("store_untrusted");
  });

  test("that belongs to a role of which we are a member is ours", async () => {
    const place = await newPlace();
    const [team, us] = [await place.role(), await place.role()];
    await place.sql(`GRANT ${team.name} TO ${us.name}`);
    await place.sql(`CREATE SCHEMA ${place.name} AUTHORIZATION ${team.name}`);
    await use(us.url);
  });

  test("that a DBA made for us is used without the right to make one", async () => {
    const place = await newPlace();
    const us = await place.role();
    const database = new URL(place.schema.url).pathname.slice(1);
    await place.sql(`CREATE SCHEMA ${place.name} AUTHORIZATION ${us.name}`);
    const [may] = await place.sql(`SELECT has_database_privilege('${us.name}', '${database}', 'CREATE') AS may`);
    expect(may?.["may"]).toBe(false);
    await use(us.url);
  });

  test.each([
    ["the schema", (name: string) => `GRANT CREATE ON SCHEMA ${name} TO PUBLIC`, "schema"],
    ["a table", (name: string) => `GRANT INSERT ON ${name}.jobs TO PUBLIC`, "table jobs"],
    ["a column", (name: string) => `GRANT UPDATE (argv) ON ${name}.jobs TO PUBLIC`, "table jobs"],
    ["a trigger", (name: string) => `GRANT TRIGGER ON ${name}.inputs TO PUBLIC`, "table inputs"],
  ])("in which PUBLIC may write %s is refused", async (_, grant, part) => {
    const place = await newPlace();
    await use(place.schema.url);
    await place.sql(grant(place.name));
    const error = await refusal(place.schema.url);
    expect(error.message).toContain(part);
    expect(error.message).toContain("can be written by PUBLIC");
    await use(place.schema.url, true);
  });

  test("in which somebody else has put a table or a function of theirs is refused", async () => {
    for (const [alter, part] of [
      [(name: string, role: string) => `ALTER TABLE ${name}.meta OWNER TO ${role}`, "table meta"],
      [(name: string, role: string) => `ALTER FUNCTION ${name}.now_ms() OWNER TO ${role}`, "function now_ms"],
    ] as const) {
      const place = await newPlace();
      const stranger = await place.role();
      await use(place.schema.url);
      await place.sql(alter(place.name, stranger.name));
      expect((await refusal(place.schema.url)).message).toContain(`${part} of store`);
    }
  });
});

describe("a role that may read and write, and no more", () => {
  test("is told who makes the store, and who brings it to a newer version", async () => {
    const place = await newPlace();
    const url = await place.schema.grant(`${place.name}_app`);
    clearing.push(async () => {
      await place.sql(`DROP OWNED BY ${place.name}_app`);
      await place.sql(`DROP ROLE ${place.name}_app`);
    });
    // The SQL makes the schema, and not what is in it.
    const none = await refusal(url);
    expect([none.code, none.message]).toEqual(["store_readonly", expect.stringContaining("there is no store")]);
    await use(place.schema.url);
    await use(url);
    await place.sql(`UPDATE ${place.name}.meta SET value = '1' WHERE name = 'version'`);
    const old = await refusal(url);
    expect([old.code, old.message]).toEqual([
      "store_readonly",
      expect.stringContaining("has schema 1, this lease needs"),
    ]);
    expect(old.message).toContain("`lease doctor --grants` prints what to grant");
  });
});

describe("a database", () => {
  test("that is not in UTF-8 is refused, and nothing is made in it", async () => {
    const place = await newPlace();
    for (const encoding of ["LATIN1", "SQL_ASCII"]) {
      const database = `${place.name}_${encoding.toLowerCase()}`;
      await place.sql(
        `CREATE DATABASE ${database} TEMPLATE template0 ENCODING ${encoding} LC_COLLATE 'C' LC_CTYPE 'C'`,
      );
      clearing.push(() => place.sql(`DROP DATABASE ${database}`));
      const url = new URL(place.schema.url);
      url.pathname = `/${database}`;
      const error = await refusal(url.href);
      expect(error.message).toContain(`in a database that is in ${encoding}`);
      const sql = postgres(url.href.replace(/\?.*/, ""), { max: 1 });
      expect(await sql`SELECT 1 FROM pg_namespace WHERE nspname = ${place.name}`).toHaveLength(0);
      await sql.end();
    }
  });
});

/** What the connections of a store are set to. */
async function commits(place: Place, url: string): Promise<string[]> {
  const found: string[] = [];
  await use(url, false, async (store) => {
    // All of its connections: two that write, one that listens.
    await Promise.all([store.enqueue([newJob()]), store.now(), store.now()]);
    // The trigger writes down what holds where the job was written.
    const rows = await place.sql(`SELECT message FROM ${place.name}.jobs`);
    found.push(...rows.map(({ message }) => String(message)));
  });
  return [...new Set(found)];
}

async function noteCommits(place: Place): Promise<void> {
  await place.sql(`CREATE FUNCTION ${place.name}.noted() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN NEW.message := current_setting(''synchronous_commit''); RETURN NEW; END'`);
  await place.sql(
    `CREATE TRIGGER noted BEFORE INSERT ON ${place.name}.jobs FOR EACH ROW EXECUTE FUNCTION ${place.name}.noted()`,
  );
}

describe("what is acknowledged", () => {
  test("is on disk, whatever the role says about synchronous_commit", async () => {
    const place = await newPlace();
    const us = await place.role();
    await place.sql(`CREATE SCHEMA ${place.name} AUTHORIZATION ${us.name}`);
    await place.sql(`ALTER ROLE ${us.name} SET synchronous_commit = off`);
    await use(us.url, false, async () => {});
    await noteCommits(place);
    await place.sql(`ALTER FUNCTION ${place.name}.noted() OWNER TO ${us.name}`);
    expect(await commits(place, us.url)).toEqual(["on"]);
  });

  test("is on disk also where a pooler keeps our settings from the server", async () => {
    const place = await newPlace();
    const us = await place.role();
    await place.sql(`CREATE SCHEMA ${place.name} AUTHORIZATION ${us.name}`);
    await place.sql(`ALTER ROLE ${us.name} SET synchronous_commit = off`);
    await use(us.url, false, async () => {});
    await noteCommits(place);
    await place.sql(`ALTER FUNCTION ${place.name}.noted() OWNER TO ${us.name}`);
    const url = new URL(us.url);
    url.port = String(await pooler(Number(url.port)));
    url.searchParams.set("sslmode", "disable");
    expect(await commits(place, url.href)).toEqual(["on"]);
  });
});

/** Stands before the server as pgbouncer does that ignores the start-up parameter `options`. */
async function pooler(server: number): Promise<number> {
  const listener = createServer((client) => {
    const behind = connect(server, "127.0.0.1");
    client.once("data", (first: Buffer) => {
      behind.write(withoutOptions(first));
      client.pipe(behind);
      behind.pipe(client);
    });
    for (const socket of [client, behind]) socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  clearing.push(() => listener.close());
  return (listener.address() as { port: number }).port;
}

function withoutOptions(startup: Buffer): Buffer {
  const words = startup.subarray(8).toString("latin1").split("\0");
  const at = words.indexOf("options");
  if (at < 0) throw new Error("there are no options to leave out");
  words.splice(at, 2);
  const body = Buffer.from(words.join("\0"), "latin1");
  const head = Buffer.from(startup.subarray(0, 8));
  head.writeUInt32BE(body.length + 8);
  return Buffer.concat([head, body]);
}
