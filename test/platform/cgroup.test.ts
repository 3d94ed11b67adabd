/** Control groups of this machine, where it has them and lets us. */

import { afterAll, describe, expect, test } from "bun:test";
import process from "node:process";
import {
  cgroupFolders,
  cgroupMembers,
  isPopulated,
  killCgroup,
  makeCgroup,
  makeCgroupFolder,
  removeCgroup,
} from "../../src/platform/cgroup.ts";
import { until } from "../support/process.ts";

const NAME = `lease-test-${process.pid}`;
const folder = makeCgroupFolder(NAME);
if (folder === null) console.warn("SKIPPED: test/platform/cgroup.test.ts needs a cgroup v2 that we may divide");
afterAll(() => folder !== null && removeCgroup(folder));

async function start(cgroup: string, script: string) {
  const child = Bun.spawn(["sh", "-c", script], {
    cgroup,
    stdout: "pipe",
    stdin: "ignore",
    detached: true,
  });
  const { value } = await child.stdout.getReader().read();
  return { child, said: new TextDecoder().decode(value) };
}

describe.skipIf(folder === null)("a control group", () => {
  const home = folder ?? "";

  test("holds a process from its birth, and what it starts, whatever that does to get away", async () => {
    const cgroup = makeCgroup(home, "a") ?? "";
    expect(isPopulated(cgroup)).toBe(false);
    const { child } = await start(
      cgroup,
      "env -i setsid sleep 60 >/dev/null & (setsid sleep 60 >/dev/null &); echo; wait",
    );
    await until("three live in it", async () => cgroupMembers(cgroup).length === 3);
    expect(isPopulated(cgroup)).toBe(true);
    expect(removeCgroup(cgroup)).toBe(false);
    expect(killCgroup(cgroup)).toBe(true);
    expect(await child.exited).toBe(137);
    await until("it is empty", async () => !isPopulated(cgroup));
    expect(cgroupMembers(cgroup)).toEqual([]);
    expect(removeCgroup(cgroup)).toBe(true);
    expect(removeCgroup(cgroup)).toBe(true);
  });

  test("is left by ending, and can be used again", async () => {
    const cgroup = makeCgroup(home, "b") ?? "";
    for (const turn of [1, 2]) {
      const { child, said } = await start(cgroup, `echo ${turn}`);
      expect(said.trim()).toBe(String(turn));
      expect(await child.exited).toBe(0);
      expect(isPopulated(cgroup)).toBe(false);
    }
    expect(removeCgroup(cgroup)).toBe(true);
  });

  test("reaches what was made below it", async () => {
    const cgroup = makeCgroup(home, "c") ?? "";
    const below = makeCgroup(cgroup, "below") ?? "";
    const { child } = await start(below, "echo; sleep 60");
    expect(cgroupMembers(cgroup)).toContain(child.pid);
    expect(isPopulated(cgroup)).toBe(true);
    killCgroup(cgroup);
    await child.exited;
    await until("it is empty", async () => !isPopulated(cgroup));
    expect(removeCgroup(cgroup)).toBe(true);
  });

  test("is found by its name from anywhere on the machine", () => {
    expect(cgroupFolders(NAME)).toEqual([home]);
    expect(cgroupFolders("lease-test-nobody")).toEqual([]);
  });

  test("of a name that is taken, or in a folder that is none, is not made", () => {
    expect(makeCgroupFolder(NAME)).toBeNull();
    expect(makeCgroup("/nonexistent", "x")).toBeNull();
    expect([isPopulated("/nonexistent"), killCgroup("/nonexistent")]).toEqual([false, false]);
    expect(cgroupMembers("/nonexistent")).toEqual([]);
  });
});
