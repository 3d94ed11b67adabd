import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, spyOn, test } from "bun:test";
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { platform } from "#platform";
import { LeaseError } from "../../src/core/errors.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import type { OpenSqliteOptions } from "../../src/store/sqlite/open.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { MIGRATIONS } from "../../src/store/sqlite/schema.ts";
import { APPLICATION_ID, quickLocation } from "../../src/store/sqlite/quick_enqueue.ts";
import type { Store } from "../../src/store/store.ts";
import { newJob } from "../support/jobs.ts";

let folder: string;
let path: string;
let opened: Store[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "lease-open-"));
  path = join(folder, "lease.db");
  opened = [];
});
afterEach(async () => {
  for (const store of opened) await store.close();
  rmSync(folder, { recursive: true, force: true });
});

async function open(options: Partial<OpenSqliteOptions> = {}): Promise<Store> {
  const store = await openSqlite(path, { clock: systemClock, random: systemRandom, ...options });
  opened.push(store);
  return store;
}

const failure = async (promise: Promise<unknown>): Promise<LeaseError> => {
  const error: unknown = await promise.then(
    () => null,
    (reason) => reason,
  );
  if (error instanceof LeaseError) return error;
  throw new Error(`no LeaseError: ${String(error)}`);
};

const pragma = (name: string): unknown => {
  const database = new Database(path);
  try {
    return Object.values(database.query(`PRAGMA ${name}`).get() as object)[0];
  } finally {
    database.close();
  }
};

describe("a new store", () => {
  test("carries our mark and the version of its schema, and is durable by default", async () => {
    await open();
    expect(pragma("application_id")).toBe(APPLICATION_ID);
    expect(pragma("user_version")).toBe(MIGRATIONS.length);
    expect(pragma("journal_mode")).toBe("wal");
    expect(pragma("integrity_check")).toBe("ok");
  });

  test("is made once when many open it at the same time", async () => {
    const stores = await Promise.all(Array.from({ length: 8 }, () => open()));
    await Promise.all(stores.map((store) => store.enqueue([newJob()])));
    expect(await stores[0]?.list({ limit: 100, newest_first: false })).toHaveLength(8);
  });

  test("is not taken for another program's when somebody else makes it while we look", async () => {
    const openReal = platform.openSqlite;
    const others: Promise<Store>[] = [];
    const spy = spyOn(platform, "openSqlite").mockImplementationOnce((file) => {
      const database = openReal(file);
      return {
        ...database,
        prepare(sql) {
          // Between our look at the mark, which is not there yet, and our look at the tables, another process is done.
          if (sql.includes("count(*) FROM sqlite_schema")) others.push(open());
          return database.prepare(sql);
        },
      };
    });
    try {
      const store = await open();
      expect(await store.enqueue([newJob()])).toEqual([{ id: 1, created: true }]);
      expect(await Promise.all(others)).toHaveLength(1);
    } finally {
      spy.mockRestore();
    }
  });
});

describe.skipIf(!existsSync("/proc/locks"))("the locks of a store that is open", () => {
  /** By inode, those that this process has. */
  const locksOn = (file: string): number => {
    const inode = statSync(file).ino;
    const own = new RegExp(` ${process.pid} [^ ]*:${inode} `);
    return readFileSync("/proc/locks", "utf8")
      .split("\n")
      .filter((line) => own.test(line)).length;
  };

  test("hold for as long as it is, also when it is opened once more", async () => {
    for (let handles = 1; handles <= 3; handles++) {
      await open();
      // Without it the next process would take the store for its own, and cut the index that we have mapped.
      expect(locksOn(`${path}-shm`)).toBe(1);
      expect(locksOn(path)).toBe(1);
    }
  });
});

describe("a store of another version", () => {
  test("that is newer is refused, and not changed", async () => {
    await (await open()).close();
    opened = [];
    const database = new Database(path);
    database.run("PRAGMA user_version = 99");
    database.close();
    const error = await failure(open());
    expect(error).toMatchObject({ code: "store_newer", exit_code: 125 });
    expect(error.message).toContain(`has schema 99 and this lease knows ${MIGRATIONS.length}`);
    expect(pragma("user_version")).toBe(99);
  });

  test("that is empty is brought to ours", async () => {
    writeFileSync(path, "", { mode: 0o600 });
    await open();
    expect(pragma("user_version")).toBe(MIGRATIONS.length);
  });

  test("that was left half-made is made whole", async () => {
    // As after a kill between the switch to WAL and the tables.
    const database = new Database(path);
    database.run("PRAGMA journal_mode = WAL");
    database.close();
    const store = await open({ trust: true });
    expect(await store.enqueue([newJob()])).toEqual([{ id: 1, created: true }]);
  });
});

describe("a store that another process has locked", () => {
  test("refuses writes after the limit and not before, says so, and reads go on", async () => {
    const store = await open({ busy_limit_ms: 50 });
    await store.enqueue([newJob()]);
    const stuck = new Database(path);
    stuck.run("BEGIN EXCLUSIVE");
    const started_ms = performance.now();
    const error = await failure(store.enqueue([newJob()]));
    expect(performance.now() - started_ms).toBeGreaterThanOrEqual(49);
    expect(error).toMatchObject({ code: "store_busy", exit_code: 125 });
    expect(error.message).toBe(
      `store ${path} has been locked by another process for 50ms: \`fuser\` on it tells which`,
    );
    expect(await store.jobs([1, 2])).toEqual([expect.objectContaining({ id: 1 }), null]);
    stuck.run("ROLLBACK");
    stuck.close();
    expect(await store.enqueue([newJob()])).toEqual([{ id: 2, created: true }]);
  });

  test("takes a write whose turn comes within the limit", async () => {
    const store = await open({ busy_limit_ms: 20_000 });
    const stuck = new Database(path);
    stuck.run("BEGIN EXCLUSIVE");
    const write = store.enqueue([newJob()]);
    await new Promise((done) => setImmediate(done));
    stuck.run("ROLLBACK");
    stuck.close();
    expect(await write).toEqual([{ id: 1, created: true }]);
  });

  test("and can't even be opened is given up on after the same limit", async () => {
    writeFileSync(path, "", { mode: 0o600 });
    const stuck = new Database(path);
    stuck.run("PRAGMA locking_mode = EXCLUSIVE");
    stuck.run("PRAGMA journal_mode = WAL");
    stuck.run("CREATE TABLE anything (value TEXT)");
    const error = await failure(open({ busy_limit_ms: 50 }));
    expect(error).toMatchObject({ code: "store_busy", exit_code: 125 });
    expect(error.message).toContain(`store ${path} is locked by another process`);
    stuck.close();
  });

  test("while it is made is waited for", async () => {
    writeFileSync(path, "", { mode: 0o600 });
    const stuck = new Database(path);
    stuck.run("BEGIN EXCLUSIVE");
    const opening = open({ busy_limit_ms: 20_000 });
    await new Promise((done) => setImmediate(done));
    stuck.run("ROLLBACK");
    stuck.close();
    expect(await (await opening).enqueue([newJob()])).toEqual([{ id: 1, created: true }]);
  });
});

describe("what a store does not take", () => {
  const NUL = "\0";
  const LIMIT = 1024 * 1024;

  test.each([
    ["a command with NUL", { argv: ["echo", `a${NUL}b`] }, "invalid_job"],
    ["no command and no input", { argv: [] }, "invalid_job"],
    ["an empty command", { argv: [""] }, "invalid_job"],
    ["a folder with NUL", { cwd: `/a${NUL}b` }, "invalid_job"],
    ["a variable with NUL", { env: { A: NUL } }, "invalid_job"],
    ["an input over 1 MiB", { input: new Uint8Array(LIMIT + 1) }, "input_too_large"],
    ["a job that waits for an unknown one", { after: [99] }, "dependency"],
    ["a job that waits for itself", { after: [2] }, "dependency"],
  ] as const)("%s is refused, and with it the whole batch", async (_what, overrides, code) => {
    const store = await open();
    await store.enqueue([newJob()]);
    const error = await failure(store.enqueue([newJob(), newJob(overrides)].toReversed()));
    expect(error.code).toBe(code);
    expect(error.message).not.toContain("\n");
    expect(await store.list({ limit: 10, newest_first: false })).toHaveLength(1);
    // The ids go on without a gap: nothing of it was written.
    expect(await store.enqueue([newJob()])).toEqual([{ id: 2, created: true }]);
  });

  test("an input of exactly 1 MiB is taken", async () => {
    const store = await open();
    const input = Uint8Array.from({ length: LIMIT }, (_, index) => 1 + (index % 255));
    await store.enqueue([newJob({ input })]);
    const [job] = await store.jobs([1]);
    expect(Buffer.from(job?.input ?? []).equals(Buffer.from(input))).toBe(true);
  });
});

describe("a store whose file is deleted while it is open", () => {
  const failed = { code: "store_replaced", message: expect.stringContaining("was deleted or replaced") };

  test("takes nothing more that nobody would ever see, and has no jobs to give", async () => {
    const store = await open();
    rmSync(path);
    expect(await failure(store.enqueue([newJob({})]))).toMatchObject(failed);
    const nobody = { holder: "w", host: "h", lease_ms: 1_000, count: 1, queues: null, task: null };
    expect(await failure(store.acquire(nobody))).toMatchObject(failed);
  });

  test("is not mixed up with the one that took its place", async () => {
    const store = await open();
    for (const suffix of ["", "-wal", "-shm"]) rmSync(path + suffix, { force: true });
    const other = await open();
    expect(await failure(store.enqueue([newJob({})]))).toMatchObject(failed);
    expect(await other.enqueue([newJob({})])).toMatchObject([{ id: 1 }]);
  });
});

describe("a store that is the same as ever", () => {
  test("is not taken for another when others fold its log back, rewrite it, and close it", async () => {
    const store = await open();
    await store.enqueue([newJob({})]);
    const other = await open();
    await other.enqueue([newJob({})]);
    await other.close();
    const tool = new Database(path);
    for (const sql of ["PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "PRAGMA wal_checkpoint(RESTART)"]) tool.run(sql);
    tool.close();
    expect(await store.enqueue([newJob({})])).toMatchObject([{ id: 3 }]);
  });
});

describe("a store that is replaced", () => {
  test.each(["", "-wal", "-shm"])("tells whoever asked, once, of its file%s", async (suffix) => {
    const store = await open();
    const told = Promise.withResolvers<LeaseError>();
    let calls = 0;
    store.onReplaced((error) => {
      calls += 1;
      told.resolve(error);
    });
    const unasked = store.onReplaced(() => told.reject(new Error("it does not want to know any more")));
    unasked();
    rmSync(path + suffix);
    expect(await told.promise).toMatchObject({ code: "store_replaced" });
    rmSync(path, { force: true });
    expect(await failure(store.enqueue([newJob({})]))).toMatchObject({ code: "store_replaced" });
    expect(calls).toBe(1);
  });
});

describe("a store that is swapped while it is being opened", () => {
  /** Quick: as a command leaves it. Thorough: without a log, which takes a closer look. */
  test.each([true, false])("is refused; after the quick look: %s", async (quick) => {
    const store = await open();
    await store.enqueue([newJob({})]);
    await store.close();
    if (!quick) for (const suffix of ["-wal", "-shm"]) rmSync(path + suffix, { force: true });
    copyFileSync(path, `${path}-other`);
    const genuine = platform.openSqlite;
    const opening = spyOn(platform, "openSqlite").mockImplementation((file) => {
      renameSync(`${path}-other`, path);
      return genuine(file);
    });
    try {
      const files = platform.quickFiles();
      if (files !== null) expect(quickLocation(files, path) !== null).toBe(quick);
      expect(await failure(open())).toMatchObject({ code: "store_replaced" });
    } finally {
      opening.mockRestore();
    }
  });
});
