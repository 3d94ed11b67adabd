/** The quick look at a store's place: it may only ever say yes where the thorough one would. */

import { afterAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  chownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  statfsSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { quickFiles } from "../../src/platform/libc.ts";
import { prepareLocation } from "../../src/store/sqlite/location.ts";
import { quickLocation } from "../../src/store/sqlite/quick_enqueue.ts";

const top = mkdtempSync(join(tmpdir(), "lease-quick-"));
afterAll(() => rmSync(top, { recursive: true }));

let places = 0;

/** A store as lease leaves it. */
function place(): string {
  const folder = join(top, String(++places));
  mkdirSync(folder, { mode: 0o700 });
  const path = join(folder, "lease.db");
  for (const part of [path, `${path}-wal`, `${path}-shm`]) writeFileSync(part, "x", { mode: 0o600 });
  return path;
}

function files() {
  const quick = quickFiles();
  if (quick === null) throw new Error("the C library can't be called here");
  return quick;
}

describe.if(process.platform === "linux")("the quick look at a store's place", () => {
  test("says yes to one of our own, and tells where it really is", () => {
    const path = place();
    const identity = files().stat(path)?.identity ?? "";
    expect(quickLocation(files(), path)).toEqual({ path, wal_bytes: 1, identity });
    const link = join(top, "link.db");
    symlinkSync(path, link);
    expect(quickLocation(files(), link)).toEqual({ path, wal_bytes: 1, identity });
    expect(prepareLocation(link, { trust: false, create: false }).path).toBe(path);
  });

  const DOUBTS: [string, (path: string) => void][] = [
    ["a file that others can write", (path) => chmodSync(path, 0o620)],
    ["a file that anybody can write", (path) => chmodSync(path, 0o602)],
    ["a folder that others can write", (path) => chmodSync(join(path, ".."), 0o770)],
    ["a folder like /tmp", (path) => chmodSync(join(path, ".."), 0o1777)],
    ["a log that others can write", (path) => chmodSync(`${path}-wal`, 0o660)],
    ["shared memory that others can write", (path) => chmodSync(`${path}-shm`, 0o666)],
    ["a journal beside it", (path) => writeFileSync(`${path}-journal`, "x", { mode: 0o600 })],
    ["a second name of the file", (path) => linkSync(path, `${path}-2`)],
    ["a folder above it that others can write", (path) => chmodSync(join(path, "../.."), 0o777)],
    [
      "a log that is a link",
      (path) => {
        renameSync(`${path}-wal`, `${path}-log`);
        symlinkSync(`${path}-log`, `${path}-wal`);
      },
    ],
    ["no log yet", (path) => rmSync(`${path}-wal`)],
    ["no store yet", (path) => rmSync(path)],
    [
      "a folder in its place",
      (path) => {
        rmSync(path);
        mkdirSync(path);
      },
    ],
    [
      "a link to nowhere",
      (path) => {
        rmSync(path);
        symlinkSync("/nowhere/lease.db", path);
      },
    ],
  ];
  for (const [what, spoil] of DOUBTS) {
    test(`leaves ${what} to the thorough one`, () => {
      const path = place();
      expect(quickLocation(files(), path)).not.toBeNull();
      spoil(path);
      expect(quickLocation(files(), path)).toBeNull();
      chmodSync(top, 0o700);
    });
  }

  test.if(process.getuid?.() === 0)("leaves what belongs to others to the thorough one", () => {
    const path = place();
    chownSync(path, 12_345, 12_345);
    expect(quickLocation(files(), path)).toBeNull();
  });

  test("leaves names to the thorough one that no file can have", () => {
    expect(quickLocation(files(), "")).toBeNull();
    expect(quickLocation(files(), `${place()}\0x`)).toBeNull();
  });
});

describe.if(process.platform === "linux")("files without node:fs", () => {
  test("are told like node:fs tells them", () => {
    const path = place();
    chmodSync(path, 0o640);
    linkSync(path, `${path}-2`);
    const { mode, uid, size, nlink: links } = statSync(path);
    expect(files().stat(path)).toMatchObject({ mode, uid, size, links });
    expect(files().stat(path)?.identity).toBe(files().stat(`${path}-2`)?.identity as string);
    expect(files().stat(path)?.identity).not.toBe(files().stat(`${path}-wal`)?.identity as string);
    symlinkSync(path, `${path}-3`);
    expect(files().lstat(`${path}-3`)?.mode).toBe(lstatSync(`${path}-3`).mode);
    expect(files().stat(join(top, "none"))).toBeNull();
    expect(files().fileSystem(top)).toBe(statfsSync(top).type >>> 0);
    expect(files().realPath(join(top, ".", "none"))).toBeNull();
  });

  test("say how much was written, and nothing where it can't be", () => {
    expect(files().write(-1, new TextEncoder().encode("x"))).toBe(0);
    expect(files().write(1, new Uint8Array(0))).toBe(0);
  });
});
