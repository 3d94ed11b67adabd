import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import {
  bootId,
  environments,
  groupMembers,
  identify,
  isProvenAlive,
  isProvenDead,
  machineTime,
  ownIdentity,
  processGroup,
} from "../../src/platform/machine.ts";
import type { MachineTime } from "../../src/core/clock.ts";
import { isPossible } from "../support/namespaces.ts";

/** As this machine would have been called before it was booted. */
const EARLIER_BOOT = bootId().replace(/^[^/]*/, "an earlier one");

/** A child that lives until it is told otherwise, and is itself already, not a copy of us on the way there. */
async function started(env: Record<string, string> = {}) {
  const child = Bun.spawn(["cat"], { stdin: "pipe", stdout: "pipe", env: { ...process.env, ...env }, detached: true });
  await child.stdin.write("answer me");
  await child.stdin.flush();
  await child.stdout.getReader().read();
  const end = async () => {
    child.kill("SIGKILL");
    await child.exited;
  };
  return { pid: child.pid, end };
}

describe.skipIf(!existsSync("/proc/self/stat"))("a process", () => {
  test("is named by its pid, when it started, and the boot that was in", () => {
    const own = ownIdentity();
    expect(own).toEqual({ boot_id: bootId(), pid: process.pid, pid_started: expect.any(Number) });
    expect(own.pid_started).toBeGreaterThan(0);
    expect(identify(process.pid)).toEqual(own);
  });

  test("is dead only with proof: it is gone, or its number is another's by now, or the machine has booted since", async () => {
    const child = await started();
    const identity = identify(child.pid);
    expect(isProvenDead(identity)).toBe(false);
    expect(isProvenDead({ ...identity, pid_started: identity.pid_started - 1 })).toBe(true);
    expect(isProvenDead({ ...identity, boot_id: EARLIER_BOOT })).toBe(true);
    // Another machine of the same name: its boots prove nothing here.
    expect(isProvenDead({ ...identity, boot_id: "another boot/pid:[1]/another machine" })).toBe(false);
    expect(isProvenDead({ ...identity, boot_id: "another boot" })).toBe(false);
    await child.end();
    expect(isProvenDead(identity)).toBe(true);
  });

  test("of another container is neither proven dead nor alive, unless the machine has booted since", () => {
    const own = ownIdentity();
    const [boot = ""] = own.boot_id.split("/");
    expect(own.boot_id).not.toBe(boot);
    const elsewhere = { ...own, boot_id: own.boot_id.replace(/pid:\[\d+\]/, "pid:[1]") };
    expect([isProvenDead(own), isProvenAlive(own)]).toEqual([false, true]);
    expect([isProvenDead(elsewhere), isProvenAlive(elsewhere)]).toEqual([false, false]);
    expect(isProvenDead({ ...elsewhere, boot_id: EARLIER_BOOT.replace(/pid:\[\d+\]/, "pid:[1]") })).toBe(true);
  });

  test("of which nobody noted the start is proven dead only when nobody has its pid", async () => {
    const child = await started();
    const unnoted = { boot_id: bootId(), pid: child.pid, pid_started: 0 };
    expect(isProvenDead(unnoted)).toBe(false);
    await child.end();
    expect(isProvenDead(unnoted)).toBe(true);
  });

  test("whose start was read in another namespace of time is not compared by it", async () => {
    const child = await started();
    const elsewhere = { ...identify(child.pid), boot_id: bootId().replace(/time:\[\d+\]/, "time:[1]") };
    expect(elsewhere.boot_id).not.toBe(bootId());
    expect(isProvenDead({ ...elsewhere, pid_started: 1 })).toBe(false);
    expect(isProvenAlive(elsewhere)).toBe(false);
    await child.end();
    expect(isProvenDead(elsewhere)).toBe(true);
  });

  test("noted where the boot could not be read is never proven dead", () => {
    const hidden = { ...ownIdentity(), pid: 2 ** 22 + 1, boot_id: bootId().replace(/^[^/]*/, "unknown") };
    expect(isProvenDead(hidden)).toBe(false);
  });

  test("is found by its group and by its environment while it lives", async () => {
    const child = await started({ LEASE_TEST_MARK: "machine.test" });
    const marked = () =>
      [...environments()].filter(({ environment }) => environment.includes("LEASE_TEST_MARK=machine.test"));
    expect(processGroup(child.pid)).toBe(child.pid);
    expect(groupMembers(child.pid)).toEqual([child.pid]);
    expect(marked().map(({ pid }) => pid)).toEqual([child.pid]);
    await child.end();
    expect(groupMembers(child.pid)).toEqual([]);
    expect(marked()).toEqual([]);
  });
});

const IN_ANOTHER_TIME = ["unshare", "--time", "--fork", "--kill-child", "--boottime", "100000"];

describe.if(isPossible(IN_ANOTHER_TIME, import.meta.file))("the time of this machine", () => {
  test("is the same in a container that counts another one since its start", async () => {
    const module = join(import.meta.dir, "../../src/platform/machine.ts");
    const program = `console.log(JSON.stringify((await import(${JSON.stringify(module)})).machineTime()))`;
    const child = Bun.spawn([...IN_ANOTHER_TIME, process.execPath, "-e", program], { stdout: "pipe" });
    const there = JSON.parse(await child.stdout.text()) as MachineTime;
    const here = machineTime();
    expect(there.boot_id).toBe(here.boot_id);
    expect(here.uptime_ms - there.uptime_ms).toBeWithin(-20, 60_000);
  });
});
