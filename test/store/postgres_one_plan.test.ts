/** Which statements keep one plan, and that the others are planned for what they are given. */

import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { ONE_PLAN } from "../../src/store/postgres/session/link.ts";
import { Session, type Connection } from "../../src/store/postgres/session/session.ts";
import { parseTarget } from "../../src/store/postgres/session/url.ts";
import { newSchema, type Schema } from "../support/postgres.ts";

// The first test starts the server.
setDefaultTimeout(60_000);

const schemas: Schema[] = [];
const sessions: Session[] = [];
afterAll(async () => {
  for (const session of sessions) await session.close();
  for (const schema of schemas) await schema.drop();
});

async function newSession(): Promise<Session> {
  const schema = await newSchema();
  schemas.push(schema);
  const session = new Session(parseTarget(schema.url, {}), { clock: systemClock, random: systemRandom });
  sessions.push(session);
  return session;
}

const HOT = `${ONE_PLAN}SELECT $1::bigint AS hot`;
const OTHER = "SELECT $1::bigint AS other";

async function plans(db: Connection): Promise<Record<string, unknown>[]> {
  return db.query(
    "SELECT generic_plans AS one, custom_plans AS own FROM pg_prepared_statements WHERE statement LIKE '%$1%' ORDER BY statement",
  );
}

test("a statement that says so keeps one plan from the first, between others that don't", async () => {
  const session = await newSession();
  for (let n = 0; n < 3; n++) {
    expect(await session.run((db) => db.query(HOT, [n]))).toEqual([{ hot: n }]);
    expect(await session.run((db) => db.query(OTHER, [n]))).toEqual([{ other: n }]);
  }
  expect(await session.run(plans)).toEqual([
    { one: 3, own: 0 },
    { one: 0, own: 3 },
  ]);
});

test("so it is in transactions, and after one that was rolled back", async () => {
  const session = await newSession();
  const both = async (db: Connection) => {
    await db.query(HOT, [1]);
    await db.query(OTHER, [1]);
    await db.query(HOT, [1]);
  };
  await session.transaction(both);
  const failing = session.transaction(async (db) => {
    await both(db);
    await db.query(OTHER, [1]);
    throw new Error("no");
  });
  await expect(failing).rejects.toThrow("no");
  await session.run((db) => db.query(HOT, [1]));
  await session.run((db) => db.query(OTHER, [1]));
  expect(await session.run(plans)).toEqual([
    { one: 5, own: 0 },
    { one: 0, own: 4 },
  ]);
});
