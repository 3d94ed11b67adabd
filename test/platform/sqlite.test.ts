import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { platform } from "#platform";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "lease-sqlite-"));
  path = join(folder, "test.db");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Files of this process that are open below the folder of the test. */
function openFiles(): string[] {
  const links = readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)];
    } catch {
      return [];
    }
  });
  return links.filter((link) => link.startsWith(folder));
}

describe("a connection", () => {
  test("takes and gives back every kind of value, texts and bytes with NUL included", () => {
    const database = platform.openSqlite(path);
    database.exec("CREATE TABLE t (n INTEGER, x REAL, s TEXT, b BLOB, z TEXT) STRICT");
    const bytes = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    const insert = database.prepare("INSERT INTO t VALUES (?1, ?2, ?3, ?4, ?5)");
    expect(insert.run(Number.MAX_SAFE_INTEGER, 0.5, "a\0ü😀", bytes, null)).toEqual({ changes: 1, last_id: 1 });
    const row = database.prepare("SELECT * FROM t").get();
    expect(row).toMatchObject({ n: Number.MAX_SAFE_INTEGER, x: 0.5, s: "a\0ü😀", z: null });
    expect(Buffer.from(row?.["b"] as Uint8Array).equals(Buffer.from(bytes))).toBe(true);
    database.close();
  });

  test("answers null for no row, an empty list for no rows, and how many a statement changed", () => {
    const database = platform.openSqlite(path);
    database.exec("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1), (2), (3)");
    expect(database.prepare("SELECT n FROM t WHERE n > ?").get(3)).toBeNull();
    expect(database.prepare("SELECT n FROM t WHERE n > ?").all(3)).toEqual([]);
    expect(database.prepare("UPDATE t SET n = n + 1 WHERE n > ?").run(1).changes).toBe(2);
    expect(database.prepare("UPDATE t SET n = 0 WHERE n > ?").run(9).changes).toBe(0);
    database.close();
  });

  test("throws the engine's own words", () => {
    const database = platform.openSqlite(path);
    expect(() => database.exec("SELECT nonsense")).toThrow("no such column");
    expect(() => platform.openSqlite(join(folder, "no/such/folder.db"))).toThrow("unable to open");
    database.close();
  });

  test("leaves the log in place when it closes, so that the next one need not make it anew", () => {
    const database = platform.openSqlite(path);
    database.exec("PRAGMA journal_mode = WAL");
    database.exec("CREATE TABLE t (n INTEGER)");
    database.close();
    expect(existsSync(`${path}-wal`)).toBe(true);
  });

  test.skipIf(!existsSync("/proc/self/fd"))("lets go of its files when it is closed, not some time later", () => {
    const database = platform.openSqlite(path);
    database.exec("CREATE TABLE t (n INTEGER)");
    const statement = database.prepare("SELECT n FROM t");
    statement.all();
    expect(openFiles()).toContain(path);
    database.close();
    expect(openFiles()).toEqual([]);
  });
});
