/** A worker's own folder: beside the store, for us alone, and never somebody else's. */

import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, lstatSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Scratch, othersWorkHere, removeScratch, scratchFolders } from "../../src/runner/scratch.ts";
import { temporaryFolder } from "../leasing/fixture.ts";

const home = temporaryFolder();
afterAll(() => rmSync(home, { recursive: true }));

let stores = 0;
const newStore = () => join(home, `${++stores}.db`);

describe("a place that can't be looked at", () => {
  const before = process.env["XDG_STATE_HOME"];
  afterEach(() => {
    if (before === undefined) delete process.env["XDG_STATE_HOME"];
    else process.env["XDG_STATE_HOME"] = before;
  });

  test("is somebody else's, and no error: nothing of ours is in it", () => {
    // Other users' folders are closed to all but root, who is stopped by this alone.
    const circle = join(home, "circle");
    symlinkSync(circle, circle);
    process.env["XDG_STATE_HOME"] = circle;
    expect(scratchFolders("postgres://db/jobs")).toEqual([]);
    expect(othersWorkHere("postgres://db/jobs")).toBe(process.getuid?.() !== 0);
    const scratch = new Scratch("postgres://db/jobs", "a-worker");
    expect(existsSync(scratch.folder())).toBe(true);
    scratch.remove();
  });
});

describe("a scratch folder", () => {
  test("lies beside the store, for nobody but us, and goes with its worker", () => {
    const store = newStore();
    const scratch = new Scratch(store, "a-worker");
    expect(scratch.folder()).toBe(`${store}-scratch/a-worker`);
    expect(lstatSync(scratch.folder()).mode & 0o777).toBe(0o700);
    expect(scratchFolders(store)).toEqual([scratch.folder()]);
    scratch.remove();
    expect(existsSync(`${store}-scratch`)).toBe(false);
  });

  test("is made anew when somebody tidied it away, and elsewhere when something else is in its place", () => {
    const store = newStore();
    const scratch = new Scratch(store, "a-worker");
    const first = scratch.folder();
    rmSync(first, { recursive: true });
    expect([scratch.isSame(), scratch.folder(), scratch.isSame()]).toEqual([false, first, true]);
    renameSync(first, `${first}-moved`);
    symlinkSync(`${first}-moved`, first);
    const other = scratch.folder();
    expect(other).not.toBe(first);
    expect(lstatSync(other).mode & 0o777).toBe(0o700);
    scratch.remove();
    expect(existsSync(other)).toBe(false);
  });

  test("is not made where others can write", () => {
    const store = newStore();
    mkdirSync(`${store}-scratch`);
    chmodSync(`${store}-scratch`, 0o777);
    const scratch = new Scratch(store, "a-worker");
    expect(scratch.folder()).not.toStartWith(store);
    scratch.remove();
    expect(scratchFolders(store)).toEqual([]);
  });

  test("is none of what the name of a worker in a crafted store leads to", () => {
    const store = newStore();
    const [root, precious] = [`${store}-scratch`, join(home, "precious")];
    mkdirSync(join(root, "inside"), { recursive: true });
    mkdirSync(precious);
    for (const id of ["../precious", "inside/../../precious", "..", ".", "", "/etc", "a\nb"])
      expect(scratchFolders(store, id)).toEqual([]);
    symlinkSync(precious, join(root, "linked"));
    expect(scratchFolders(store, "linked")).toEqual([]);
    expect(existsSync(precious)).toBe(true);
  });

  test("that can't be removed is no reason to fail", () => {
    expect(() => removeScratch("/proc/self/fd")).not.toThrow();
    const file = join(home, "a-file");
    writeFileSync(file, "");
    expect(() => removeScratch(join(file, "below"))).not.toThrow();
  });
});
