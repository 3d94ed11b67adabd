import { describe, expect, test } from "bun:test";
import { isStoreTrouble, LeaseError } from "../../src/core/errors.ts";
import { explain, isBusy, isStoreFailure } from "../../src/store/sqlite/failure.ts";

/** As each runtime's driver throws it. */
const onBun = (message: string): Error => Object.assign(new Error(message), { name: "SQLiteError", code: "SQLITE_X" });
const onDeno = (message: string): Error => Object.assign(new Error(message), { code: "ERR_SQLITE_ERROR" });

describe("an error of the engine", () => {
  test.each([
    ["database is locked", "store_busy"],
    ["database table is locked", "store_busy"],
    ["database or disk is full", "store_full"],
    ["attempt to write a readonly database", "store_readonly"],
    ["database disk image is malformed", "store_corrupt"],
    ["malformed database schema (jobs)", "store_corrupt"],
    ["file is not a database", "store_not_database"],
    ["unable to open database file", "store_path"],
    ["disk I/O error", "store_failed"],
  ])("%j is %s: one line that names the store, code 125, and the cause behind it", (message, code) => {
    for (const cause of [onBun(message), onDeno(message)]) {
      const error = explain(cause, "/x/lease.db");
      expect(error).toBeInstanceOf(LeaseError);
      expect(error).toMatchObject({ code, exit_code: 125, cause });
      expect((error as Error).message).toMatch(/^store \/x\/lease\.db [^\n]+$/);
      expect(isStoreFailure(cause)).toBe(true);
    }
  });

  test("that is about one statement is about what is in the store, and fails that one alone", () => {
    const error = onBun("UNIQUE constraint failed: jobs.key");
    const explained = explain(error, "/x");
    expect(explained).toMatchObject({ code: "damaged_row", cause: error });
    expect(isStoreFailure(error)).toBe(false);
    expect(isStoreTrouble(explained)).toBe(false);
  });

  test("is busy only when somebody else has the lock", () => {
    expect(isBusy(onBun("database is locked"))).toBe(true);
    expect(isBusy(onDeno("database is locked"))).toBe(true);
    expect(isBusy(onBun("database or disk is full"))).toBe(false);
    expect(isBusy("database is locked")).toBe(false);
  });
});

describe("an error of ours", () => {
  test("stays as it is, also when it sounds like the engine's", () => {
    for (const words of ["there is no job 7", "key malformed is taken", "task 'disk is full' has no jobs"]) {
      const error = new LeaseError("no_such_job", words);
      expect(explain(error, "/x")).toBe(error);
      expect(isStoreFailure(error)).toBe(false);
      expect(isBusy(error)).toBe(false);
    }
  });
});
