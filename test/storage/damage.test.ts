/**
 * A store whose file or log is cut, or has a bit flipped, at every page: what was acknowledged is still there, or whoever
 * asks is told; never a stack. What SQLite can't see, for it keeps no sums of its pages, is a bit within a text or a number,
 * and a file of which nothing is left.
 */

import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeProof } from "../../scripts/proof/report.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { platform } from "#platform";
import { findFile, noticeNewLife } from "../../src/store/sqlite/identity.ts";
import { isNeeded } from "../../src/store/sqlite/lost_log.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { BINARY } from "../support/process.ts";
import { contentOf, PAGE_BYTES, tellOf, type Told } from "./damage.ts";
import { OPERATIONS } from "./operations.ts";

setDefaultTimeout(300_000);

const root = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "lease-damage-"));
const whole = join(root, "whole");
const counts: Record<Told["kind"], number> = { same: 0, named: 0, silent: 0, stack: 0 };
let content = "";
let copies = 0;

beforeAll(async () => {
  mkdirSync(whole, { mode: 0o700 });
  OPERATIONS.find(({ name }) => name === "an enqueue")?.prepare(whole);
  // Acknowledged, and in the log alone.
  for (let n = 0; n < 8; n++) {
    const words = ["enqueue", "--store", join(whole, "lease.db"), "--", "echo", String(n)];
    expect(Bun.spawnSync([BINARY, ...words]).exitCode).toBe(0);
  }
  const store = await openSqlite(join(copyOf(), "lease.db"), { clock: systemClock, random: systemRandom, trust: true });
  content = await contentOf(store);
  await store.close();
});
afterAll(() => {
  rmSync(root, { recursive: true, force: true });
  writeProof("damage", {
    order: 51,
    title: "Store and log cut, or with a bit flipped, at every page",
    command: "bun test test/storage/damage.test.ts",
    counts: {
      "files damaged": Object.values(counts).reduce((a, b) => a + b, 0),
      "as before": counts.same,
      "named as damaged": counts.named,
      "seen by nobody (a bit within a text; an empty file)": counts.silent,
    },
    violations: { stacks: counts.stack },
  });
});

function copyOf(): string {
  const folder = join(root, `copy-${++copies}`);
  cpSync(whole, folder, { recursive: true, preserveTimestamps: true });
  return folder;
}

type Change = (bytes: Buffer) => Buffer;
const cut =
  (at: number): Change =>
  (bytes) =>
    bytes.subarray(0, at);
const flip =
  (at: number, bit: number): Change =>
  (bytes) => {
    bytes[at] = (bytes[at] ?? 0) ^ (1 << bit);
    return bytes;
  };

/** Of the log folded back into the file, which is then all there is. */
function folded(): string {
  const folder = copyOf();
  const database = new Database(join(folder, "lease.db"));
  database.run("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
  for (const beside of ["-wal", "-shm"]) rmSync(join(folder, `lease.db${beside}`), { force: true });
  return folder;
}

async function damaged(
  folder: string,
  file: string,
  change: Change,
  meanwhile: (folder: string) => unknown = () => {},
): Promise<Told> {
  const path = join(folder, file);
  writeFileSync(path, change(readFileSync(path)));
  meanwhile(folder);
  const told = await tellOf(join(folder, "lease.db"), content);
  counts[told.kind] += 1;
  rmSync(folder, { recursive: true, force: true });
  return told;
}

const enqueue = (folder: string) =>
  Bun.spawnSync([BINARY, "enqueue", "--store", join(folder, "lease.db"), "--", "true"]);

const kindsOf = (all: readonly Told[]) => new Set(all.map(({ kind, why }) => (kind === "stack" ? why : kind)));

test("a log that is cut anywhere is what it was, or is named as damaged", async () => {
  const size = statSync(join(whole, "lease.db-wal")).size;
  const all: Told[] = [];
  for (let at = 0; at < size; at += PAGE_BYTES / 2 + 12) all.push(await damaged(copyOf(), "lease.db-wal", cut(at)));
  expect(all.length).toBeGreaterThan(20);
  expect(kindsOf(all)).toEqual(new Set(["named"]));
});

test("a log with a bit flipped anywhere is what it was, or is named as damaged", async () => {
  const size = statSync(join(whole, "lease.db-wal")).size;
  const all: Told[] = [];
  // The log's own head, and about twice on each page.
  const places = Array.from({ length: 32 }, (_, at) => at);
  for (let at = 32; at < size; at += PAGE_BYTES / 2 + 12) places.push(at);
  for (const at of places) all.push(await damaged(copyOf(), "lease.db-wal", flip(at, at % 8)));
  expect(all.length).toBeGreaterThan(20);
  expect([...kindsOf(all)].filter((kind) => kind !== "same")).toEqual(["named"]);
});

test("an enqueue that is the first to come after that hides none of it", async () => {
  const size = statSync(join(whole, "lease.db-wal")).size;
  const all: Told[] = [];
  // Within the log's own header each field by itself.
  const places = [
    0,
    8,
    12,
    16,
    19,
    20,
    23,
    24,
    31,
    ...Array.from({ length: 9 }, (_, n) => 40 + Math.floor((n * size) / 9)),
  ];
  for (const change of places.flatMap((at) => [cut(at), flip(at, at % 8)])) {
    all.push(await damaged(copyOf(), "lease.db-wal", change, enqueue));
  }
  expect([...kindsOf(all)]).toEqual(["named"]);
});

test("a log that was removed is named", async () => {
  const all: Told[] = [];
  for (const next of [enqueue, () => {}]) {
    const folder = copyOf();
    rmSync(join(folder, "lease.db-wal"));
    next(folder);
    all.push(await damaged(folder, "lease.db", (bytes) => bytes));
  }
  expect([...kindsOf(all)]).toEqual(["named"]);
});

test("an index of before a power failure, beside a log that was folded and emptied, is no sign of a loss", async () => {
  for (const next of [enqueue, () => {}]) {
    const [folder, after] = [copyOf(), folded()];
    cpSync(join(after, "lease.db"), join(folder, "lease.db"), { preserveTimestamps: true });
    truncateSync(join(folder, "lease.db-wal"), 0);
    utimesSync(join(folder, "lease.db-shm"), 1, 1);
    next(folder);
    expect((await tellOf(join(folder, "lease.db"), content)).why).toBe("");
  }
});

test("a log that another process folds and empties while a store is being opened has lost nothing", () => {
  const path = join(copyOf(), "lease.db");
  const found = findFile(path, Date.now());
  expect(isNeeded(found.index)).toBe(true);
  const other = platform.openSqlite(path);
  other.prepare("PRAGMA wal_checkpoint(TRUNCATE)").all();
  other.close();
  expect(statSync(`${path}-wal`).size).toBe(0);
  const ours = platform.openSqlite(path);
  noticeNewLife(ours, path, found, false);
  expect(ours.prepare("SELECT value FROM meta WHERE name = 'log_lost'").get()).toBeNull();
  ours.close();
});

test("a file that is cut at any page is named as damaged, but for one of which nothing is left", async () => {
  const pages = statSync(join(folded(), "lease.db")).size / PAGE_BYTES;
  const all: Told[] = [];
  for (let page = 1; page < pages; page++) {
    all.push(await damaged(folded(), "lease.db", cut(page * PAGE_BYTES + (page % 3) * 100)));
  }
  expect(all.length).toBeGreaterThan(20);
  // Behind the last page in use there is nothing to lose.
  expect([...kindsOf(all)].filter((kind) => kind !== "same")).toEqual(["named"]);
});

test("a file with a bit flipped at any page is what it was, or is named as damaged, but for a bit within a text", async () => {
  const pages = statSync(join(folded(), "lease.db")).size / PAGE_BYTES;
  const all: Told[] = [];
  for (let page = 0; page < pages; page++) {
    // The head of the page, its table of cells, and what is in them.
    for (const at of [0, 3, 7, 12, 4_000])
      all.push(await damaged(folded(), "lease.db", flip(page * PAGE_BYTES + at, page % 8)));
  }
  expect([...kindsOf(all)].filter((kind) => !["same", "named", "silent"].includes(kind))).toEqual([]);
  expect(all.filter(({ kind }) => kind === "silent").length).toBeLessThan(all.length / 20);
});
