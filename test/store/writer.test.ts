import assert from "node:assert";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { platform } from "#platform";
import { LeaseError } from "../../src/core/errors.ts";
import type { SqlDatabase } from "../../src/platform/platform.ts";
import { RANK, Writer } from "../../src/store/sqlite/writer.ts";

/** A database that only remembers what was asked of it, and fails when it is told to. */
class Script implements SqlDatabase {
  readonly said: string[] = [];
  /** For each statement, the errors that it fails with before it works. */
  readonly failures = new Map<string, Error[]>();

  exec(sql: string): void {
    this.said.push(sql);
    const error = this.failures.get(sql)?.shift();
    if (error !== undefined) throw error;
  }

  prepare(sql: string) {
    const run = () => {
      this.exec(sql);
      return { changes: 0, last_id: 0 };
    };
    return { run, get: () => null, all: () => [] };
  }

  closeKeepingWal(): void {}

  close(): void {}
}

/** As the driver throws it. */
const engineError = (message: string): Error => Object.assign(new Error(message), { name: "SQLiteError" });
const BUSY = () => engineError("database is locked");
const writerOf = (database: SqlDatabase, busy_limit_ms = 1_000) =>
  new Writer(database, { path: "/x/lease.db", random: () => 0, busy_limit_ms });

const failure = async (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "no failure",
    (error) => error,
  );

describe("a commit", () => {
  test("holds all that was asked for in one turn, what must not wait first, the rest as it came", async () => {
    const database = new Script();
    const writer = writerOf(database);
    const note = (text: string) => () => {
      database.said.push(text);
      return text;
    };
    const results = await Promise.all([
      writer.write(RANK.housekeeping, note("housekeeping 1")),
      writer.write(RANK.normal, note("normal 1")),
      writer.write(RANK.holder, note("holder 1")),
      writer.write(RANK.normal, note("normal 2")),
      writer.write(RANK.housekeeping, note("housekeeping 2")),
      writer.write(RANK.holder, note("holder 2")),
    ]);
    expect(database.said).toEqual([
      "BEGIN IMMEDIATE",
      "holder 1",
      "holder 2",
      "normal 1",
      "normal 2",
      "housekeeping 1",
      "housekeeping 2",
      "COMMIT",
    ]);
    // Each gets its own answer, whatever the order.
    expect(results).toEqual(["housekeeping 1", "normal 1", "holder 1", "normal 2", "housekeeping 2", "holder 2"]);
  });

  test("is done before anybody hears of it", async () => {
    const database = new Script();
    await writerOf(database)
      .write(RANK.normal, () => "written")
      .then(() => database.said.push("heard"));
    expect(database.said).toEqual(["BEGIN IMMEDIATE", "COMMIT", "heard"]);
  });

  test("that fails is heard of as a failure by all whose work was in it", async () => {
    const database = new Script();
    database.failures.set("COMMIT", [engineError("database or disk is full")]);
    const writer = writerOf(database);
    const errors = await Promise.all([
      failure(writer.write(RANK.normal, () => 1)),
      failure(writer.write(RANK.holder, () => 2)),
    ]);
    for (const error of errors) {
      expect(error).toBeInstanceOf(LeaseError);
      expect(error).toMatchObject({ code: "store_full", message: expect.stringContaining("/x/lease.db") });
    }
    expect(database.said.at(-1)).toBe("ROLLBACK");
    // The next one is on its own.
    expect(await writer.write(RANK.normal, () => 3)).toBe(3);
  });

  test("survives a rollback that SQLite has done already", async () => {
    const database = new Script();
    database.failures.set("COMMIT", [engineError("disk I/O error")]);
    database.failures.set("ROLLBACK", [engineError("cannot rollback - no transaction is active")]);
    const writer = writerOf(database);
    expect(await failure(writer.write(RANK.normal, () => 1))).toMatchObject({ code: "store_failed" });
    expect(await writer.write(RANK.normal, () => 2)).toBe(2);
  });

  test("can begin although a read before it could not end its snapshot", async () => {
    const database = platform.openSqlite(":memory:");
    database.exec("SAVEPOINT page");
    const writer = writerOf(database);
    expect(await failure(writer.write(RANK.normal, () => 1))).toMatchObject({ code: "damaged_row" });
    expect(await writer.write(RANK.normal, () => 2)).toBe(2);
    database.exec("SAVEPOINT page");
    expect(await failure(writer.writeLong(async () => 3))).toMatchObject({ code: "damaged_row" });
    expect(await writer.writeLong(async () => 4)).toBe(4);
    database.close();
  });

  test("is one per turn: what comes later waits for the next", async () => {
    const database = new Script();
    const writer = writerOf(database);
    await writer.write(RANK.normal, () => 1);
    await writer.write(RANK.normal, () => 2);
    expect(database.said).toEqual(["BEGIN IMMEDIATE", "COMMIT", "BEGIN IMMEDIATE", "COMMIT"]);
  });
});

describe("a write that fails by itself", () => {
  let folder: string;
  let database: SqlDatabase;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "lease-writer-"));
    database = platform.openSqlite(join(folder, "test.db"));
    database.exec("CREATE TABLE notes (text TEXT UNIQUE) STRICT");
  });
  afterEach(() => {
    database.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const insert = (text: string) => () => {
    database.prepare("INSERT INTO notes VALUES (?)").run(text);
    return text;
  };
  const stored = () =>
    database
      .prepare("SELECT text FROM notes ORDER BY text")
      .all()
      .map((row) => row["text"]);

  test("leaves nothing of itself, and takes none of the others along", async () => {
    const writer = writerOf(database);
    const [first, refused, doubled, last] = await Promise.all([
      writer.write(RANK.normal, insert("first")),
      failure(
        writer.write(RANK.holder, () => {
          insert("half")();
          throw new LeaseError("key_exists", "key taken");
        }),
      ),
      failure(
        writer.write(RANK.housekeeping, () => {
          insert("other half")();
          insert("first")();
        }),
      ),
      writer.write(RANK.normal, insert("last")),
    ]);
    expect([first, last]).toEqual(["first", "last"]);
    expect(refused).toMatchObject({ code: "key_exists" });
    expect((doubled as Error).message).toContain("UNIQUE");
    expect(stored()).toEqual(["first", "last"]);
  });

  test("takes none of the others along when its own words sound like the engine's", async () => {
    const writer = writerOf(database);
    const [kept, refused] = await Promise.all([
      failure(writer.write(RANK.normal, insert("kept"))),
      failure(
        writer.write(RANK.normal, () => {
          // A user may call a key "malformed".
          throw new LeaseError("key_exists", "key malformed is taken by job 1 (pending)");
        }),
      ),
    ]);
    expect(refused).toMatchObject({ code: "key_exists" });
    expect(kept).toBe("no failure");
    expect(stored()).toEqual(["kept"]);
  });

  test("lets the writer come to rest", async () => {
    const writer = writerOf(database);
    const refused = failure(
      writer.write(RANK.normal, () => {
        throw new Error("no");
      }),
    );
    const kept = writer.write(RANK.normal, insert("kept"));
    await writer.settled();
    expect(stored()).toEqual(["kept"]);
    expect(await refused).toBeInstanceOf(Error);
    await kept;
  });
});

describe("requests of one verb", () => {
  /** Answers each with what it is; throws when there is one that can't be. */
  const verb = (calls: number[][]) => (requests: readonly number[]) => {
    calls.push([...requests]);
    if (requests.includes(-1)) throw engineError("CHECK constraint failed");
    return requests.map((request) => request * 10);
  };

  test("that share a commit are one call, after what holders say and before the rest", async () => {
    const database = new Script();
    const writer = writerOf(database);
    const calls: number[][] = [];
    const ask = writer.together(RANK.end, verb(calls));
    const answers = await Promise.all([
      ask([1, 2], 0),
      writer.write(RANK.normal, () => database.said.push("normal")),
      ask([3], 5),
      writer.write(RANK.holder, () => calls.length),
      ask([], 0),
    ]);
    expect([answers[0], answers[2], answers[3], answers[4]]).toEqual([[10, 20], [30], 0, []]);
    expect(calls).toEqual([[1, 2, 3]]);
    expect(database.said).toEqual(["BEGIN IMMEDIATE", "normal", "COMMIT"]);
    expect(await ask([4], 0)).toEqual([40]);
    expect(calls).toEqual([[1, 2, 3], [4]]);
  });

  test("fail one by one when one of them can't be", async () => {
    const writer = writerOf(new Script());
    const ask = writer.together(RANK.end, verb([]));
    const [first, culprit, last] = await Promise.all([ask([1], 0), failure(ask([-1], 0)), ask([3], 0)]);
    expect([first, last]).toEqual([[10], [30]]);
    expect(culprit).toMatchObject({ code: "damaged_row" });
  });

  test("fail all at once with the store", async () => {
    const database = new Script();
    database.failures.set("COMMIT", [engineError("database or disk is full")]);
    const ask = writerOf(database).together(RANK.end, verb([]));
    const errors = await Promise.all([failure(ask([1], 0)), failure(ask([2], 0))]);
    expect(errors).toEqual([
      expect.objectContaining({ code: "store_full" }),
      expect.objectContaining({ code: "store_full" }),
    ]);
    expect(database.said).toEqual(["BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"]);
  });

  test("wait together for a lock, and those that come later are not forgotten", async () => {
    const database = new Script();
    database.failures.set("BEGIN IMMEDIATE", [BUSY(), BUSY()]);
    const calls: number[][] = [];
    const writer = writerOf(database);
    const ask = writer.together(RANK.end, verb(calls));
    const first = ask([1], 0);
    const second = writer.write(RANK.holder, () => 0).then(() => ask([2], 0));
    expect(await Promise.all([first, second])).toEqual([[10], [20]]);
  });
});

describe("a store that is busy", () => {
  test("is tried again until its turn comes, and nobody hears of it", async () => {
    const database = new Script();
    database.failures.set("BEGIN IMMEDIATE", [BUSY(), BUSY(), BUSY()]);
    const runs: number[] = [];
    expect(await writerOf(database).write(RANK.normal, () => runs.push(1))).toBe(1);
    expect(database.said).toEqual([...Array.from({ length: 4 }, () => "BEGIN IMMEDIATE"), "COMMIT"]);
  });

  test("lets what came in the meantime join the same commit, in its rank", async () => {
    const database = new Script();
    database.failures.set("BEGIN IMMEDIATE", [BUSY()]);
    const writer = writerOf(database);
    const first = writer.write(RANK.normal, () => database.said.push("normal"));
    await new Promise((done) => setImmediate(done));
    expect(database.said).toEqual(["BEGIN IMMEDIATE"]);
    await Promise.all([first, writer.write(RANK.holder, () => database.said.push("holder"))]);
    expect(database.said).toEqual(["BEGIN IMMEDIATE", "BEGIN IMMEDIATE", "holder", "normal", "COMMIT"]);
  });

  test("is reported after the limit, with the limit and what to do, and the writer is at rest", async () => {
    const database = new Script();
    database.failures.set("BEGIN IMMEDIATE", Array.from({ length: 10_000 }, BUSY));
    const writer = writerOf(database, 20);
    const error = await failure(writer.write(RANK.normal, () => 1));
    expect(error).toMatchObject({
      code: "store_busy",
      message: "store /x/lease.db has been locked by another process for 20ms: `fuser` on it tells which",
    });
    await writer.settled();
    expect(database.said).not.toContain("COMMIT");
    database.failures.clear();
    expect(await writer.write(RANK.normal, () => 2)).toBe(2);
  });

  test("gives each write its whole limit: a late one does not fail with an early one", async () => {
    const database = new Script();
    database.failures.set("BEGIN IMMEDIATE", Array.from({ length: 100_000 }, BUSY));
    const writer = writerOf(database, 500);
    const early = failure(writer.write(RANK.normal, () => 1));
    const halfway = performance.now() + 250;
    while (performance.now() < halfway) await new Promise((done) => setImmediate(done));
    const late = writer.write(RANK.normal, () => 2);
    expect(await early).toMatchObject({ code: "store_busy" });
    database.failures.clear();
    expect(await late).toBe(2);
  });

  test("keeps settled waiting until what was asked for is written", async () => {
    const database = new Script();
    database.failures.set("BEGIN IMMEDIATE", [BUSY(), BUSY()]);
    const writer = writerOf(database);
    const write = writer.write(RANK.normal, () => 1);
    await writer.settled();
    expect(database.said.at(-1)).toBe("COMMIT");
    await write;
    await writer.settled();
  });
});

describe("a write that others may make needless", () => {
  const noted = (database: Script, text: string) => () => {
    database.said.push(text);
    return text;
  };

  test("is answered by reading where another had the lock, and then never begins", async () => {
    const database = new Script();
    database.failures.set("BEGIN IMMEDIATE", [BUSY()]);
    const writer = writerOf(database);
    const [taken, kept] = await Promise.all([
      writer.writeUnless(RANK.normal, noted(database, "acquire"), () => "nothing left"),
      writer.write(RANK.holder, noted(database, "settle")),
    ]);
    expect([taken, kept]).toEqual(["nothing left", "settle"]);
    expect(database.said).toEqual(["BEGIN IMMEDIATE", "BEGIN IMMEDIATE", "settle", "COMMIT"]);
  });

  test("is made where there is still something to write, or that can't be told", async () => {
    for (const moot of [() => undefined, () => assert.fail("unreadable")]) {
      const database = new Script();
      database.failures.set("BEGIN IMMEDIATE", [BUSY()]);
      expect(await writerOf(database).writeUnless(RANK.normal, noted(database, "acquire"), moot)).toBe("acquire");
    }
  });

  test("is not asked about where the lock is free", async () => {
    const database = new Script();
    const done = writerOf(database).writeUnless(RANK.normal, noted(database, "acquire"), () => "nothing left");
    expect(await done).toBe("acquire");
  });
});
