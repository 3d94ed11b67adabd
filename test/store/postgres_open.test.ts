/** Opening a PostgreSQL store: made once by any number at the same time, refused where it can't be. */

import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createServer } from "node:net";
import { LeaseError } from "../../src/core/errors.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import { MIGRATIONS } from "../../src/store/postgres/schema.ts";
import { newJob } from "../support/jobs.ts";
import { newSchema, type Schema } from "../support/postgres.ts";

setDefaultTimeout(30_000);

const clearing: (() => unknown)[] = [];
afterAll(async () => {
  for (const clear of clearing.toReversed()) await clear();
});

async function schema(): Promise<Schema> {
  const made = await newSchema();
  clearing.push(() => made.drop());
  return made;
}

const open = (url: string, create = true) =>
  openPostgres(url, { clock: systemClock, random: systemRandom, create, retry_limit_ms: 500 });

async function refusal(url: string, create = true): Promise<LeaseError> {
  const error = await open(url, create).then(
    (store) => store.close(),
    (reason: unknown) => reason,
  );
  if (error instanceof LeaseError) return error;
  throw new Error(`expected a LeaseError, got ${String(error)}`);
}

/** Three jobs that an older lease left: one has ended after a retry, one waits for its retry, one is pending. */
const OLDER_JOBS = `INSERT INTO lease.jobs (state, queue, priority, run_at_ms, token, retries, created_at_ms, finished_at_ms,
  argv, cwd) VALUES ('completed', 'mail', 0, 1, 2, 3, 1, 5, '["a"]', '/'),
  ('scheduled', 'mail', 0, 9000000000000, 1, 3, 1, NULL, '["b"]', '/'), ('pending', 'build', 0, 1, 0, 3, 1, NULL, '["c"]', '/')`;

describe("a store of an older version", () => {
  test("is brought to this one, has counted what it holds, and goes on from there", async () => {
    const { url, sql, name } = await schema();
    const own = (text: string) => text.replaceAll(/\blease\./g, `"${name}".`);
    const older = MIGRATIONS.slice(0, 2).map(own).join("\n");
    const meta = `INSERT INTO lease.meta VALUES ('version', '2')`;
    await sql.unsafe([`CREATE SCHEMA ${name};`, older, `${own(meta)};`, own(OLDER_JOBS)].join("\n"));
    const store = await open(url);
    expect(await store.counts()).toEqual([
      { queue: "build", state: "pending", count: 1 },
      { queue: "mail", state: "completed", count: 1 },
      { queue: "mail", state: "scheduled", count: 1, retrying: 1 },
    ]);
    expect(await store.retryCounts()).toEqual([{ retries: 1, jobs: 1 }]);
    await store.cancel([2], null);
    await store.retry([1]);
    expect(await store.counts({ queues: ["mail"] })).toEqual([
      { queue: "mail", state: "cancelled", count: 1 },
      { queue: "mail", state: "pending", count: 1 },
    ]);
    expect((await store.diagnose()).find((finding) => finding.name === "counts")?.level).toBe("ok");
    await store.close();
  });
});

describe("a database without a store", () => {
  test("gets one, once, however many open it at the same time", async () => {
    const { url } = await schema();
    const stores = await Promise.all(Array.from({ length: 8 }, () => open(url)));
    const ids = await Promise.all(stores.map((store) => store.enqueue([newJob()])));
    expect(new Set(ids.flat().map(({ id }) => id)).size).toBe(8);
    await Promise.all(stores.map((store) => store.close()));
  });

  test("keeps having none where none is wanted", async () => {
    const { url, sql, name } = await schema();
    expect((await refusal(url, false)).code).toBe("no_store");
    expect(await sql`SELECT 1 FROM pg_namespace WHERE nspname = ${name}`).toHaveLength(0);
  });

  test("is left alone when the schema has tables of somebody else", async () => {
    const { url, sql, name } = await schema();
    await sql.unsafe(`CREATE SCHEMA ${name}`);
    await sql.unsafe(`CREATE TABLE ${name}.jobs (id int)`);
    expect((await refusal(url)).message).toContain("belongs to another program");
  });

  test("and without the right to make one is refused with what to do", async () => {
    const { url, sql, name } = await schema();
    await sql.unsafe(`CREATE ROLE ${name} LOGIN PASSWORD 'x'`);
    clearing.push(() => sql.unsafe(`DROP ROLE ${name}`));
    const error = await refusal(url.replace("lease:secret@", `${name}:x@`));
    expect([error.code, error.message]).toEqual([
      "store_readonly",
      expect.stringContaining("`lease doctor --grants` prints what to grant"),
    ]);
  });
});

describe("a store", () => {
  test("of a newer lease is refused, and left as it is", async () => {
    const { url, sql, name } = await schema();
    await (await open(url)).close();
    await sql.unsafe(`UPDATE ${name}.meta SET value = '${MIGRATIONS.length + 1}' WHERE name = 'version'`);
    const error = await refusal(url);
    expect([error.code, error.exit_code]).toEqual(["store_newer", 125]);
    expect(error.message).toContain("use a newer lease");
  });

  test("has its own jobs in its own schema", async () => {
    const [one, two] = [await schema(), await schema()];
    const [first, second] = [await open(one.url), await open(two.url)];
    await first.enqueue([newJob()]);
    expect(await second.counts()).toEqual([]);
    await Promise.all([first.close(), second.close()]);
  });

  test("on a server that is too old is refused", async () => {
    const server = createServer((socket) => {
      const message = (type: string, ...parts: (string | Buffer)[]) => {
        const body = Buffer.concat(parts.map((part) => Buffer.from(part)));
        const head = Buffer.alloc(5);
        head.write(type);
        head.writeUInt32BE(body.length + 4, 1);
        return Buffer.concat([head, body]);
      };
      const ready = message("Z", "I");
      socket.once("data", () => {
        socket.write(
          Buffer.concat([message("R", Buffer.alloc(4)), message("S", "server_version\0", "14.11\0"), ready]),
        );
        socket.on("data", () => socket.write(Buffer.concat([message("E", "SERROR\0C42P01\0Mnone\0\0"), ready])));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    clearing.push(() => server.close());
    const { port } = server.address() as { port: number };
    const error = await refusal(`postgres://me@127.0.0.1:${port}/db?sslmode=disable`);
    expect(error.message).toContain("is on PostgreSQL 14.11, and lease needs 15 or newer");
  });
});
