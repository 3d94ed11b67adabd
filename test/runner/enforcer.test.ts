/** The enforcer, with real processes: what is not confirmed in time dies, whatever state its worker is in. */

import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { makeCgroup, makeCgroupFolder, removeCgroup } from "../../src/platform/cgroup.ts";
import { groupMembers, identify, ownIdentity } from "../../src/platform/machine.ts";
import { Enforcer } from "../../src/runner/enforcer.ts";
import { Scratch } from "../../src/runner/scratch.ts";
import { temporaryFolder } from "../leasing/fixture.ts";
import { until } from "../support/process.ts";

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

const folder_of_stores = temporaryFolder();
afterAll(() => rmSync(folder_of_stores, { recursive: true }));
let made = 0;

function newEnforcer(worker = ownIdentity()) {
  const scratch = new Scratch(join(folder_of_stores, "lease.db"), `test-${++made}`);
  const enforcer = new Enforcer(scratch, worker);
  ends.push(() => enforcer.end());
  return { enforcer, folder: join(scratch.folder(), "enforcer"), scratch };
}

/** A program that lives until it is killed, leading a group, and is itself already. */
async function job(cgroup?: string) {
  const child = Bun.spawn(["sh", "-c", "echo; exec sleep 60"], {
    stdout: "pipe",
    detached: true,
    ...(cgroup === undefined ? {} : { cgroup }),
  });
  await child.stdout.getReader().read();
  ends.push(async () => child.kill("SIGKILL"));
  return { child, leader: identify(child.pid) };
}

describe.skipIf(process.platform !== "linux")("the enforcer", () => {
  test("kills a group that is not confirmed by its deadline", async () => {
    const { enforcer, folder } = newEnforcer();
    const { child, leader } = await job();
    enforcer.confirm("7-1", { leader }, 50);
    await child.exited;
    expect(child.signalCode).toBe("SIGKILL");
    await until("it has crossed it off", async () => !existsSync(join(folder, "7-1")));
  });

  test("spares one that is, one that was released, and wakes up for an earlier deadline", async () => {
    const { enforcer } = newEnforcer();
    const [kept, released, early] = [await job(), await job(), await job()];
    enforcer.confirm("1-1", { leader: kept.leader }, 60_000);
    enforcer.confirm("2-1", { leader: released.leader }, 60_000);
    enforcer.confirm("1-1", { leader: kept.leader }, 50);
    enforcer.confirm("1-1", { leader: kept.leader }, 60_000);
    enforcer.release("2-1");
    enforcer.confirm("3-1", { leader: early.leader }, 50);
    await early.child.exited;
    expect([kept.child.exitCode, kept.child.signalCode]).toEqual([null, null]);
    expect([released.child.exitCode, released.child.signalCode]).toEqual([null, null]);
  });

  test("never signals a number that was given to somebody else", async () => {
    const { enforcer, folder } = newEnforcer();
    const { child, leader } = await job();
    enforcer.confirm("7-1", { leader: { ...leader, pid_started: leader.pid_started - 1 } }, 10);
    await until("it has crossed it off", async () => !existsSync(join(folder, "7-1")));
    expect([child.exitCode, child.signalCode]).toEqual([null, null]);
  });

  test("kills a whole control group, whatever its processes did to get away", async () => {
    const home = makeCgroupFolder(`lease-test-enforcer-${process.pid}`);
    if (home === null) return console.warn("SKIPPED: a cgroup v2 that we may divide");
    const cgroup = makeCgroup(home, "a job's") ?? "";
    ends.push(async () => {
      await until("it is empty", async () => removeCgroup(cgroup));
      removeCgroup(home);
    });
    const { child } = await job(cgroup);
    newEnforcer().enforcer.confirm("7-1", { cgroup }, 50);
    await child.exited;
    expect(child.signalCode).toBe("SIGKILL");
  });

  test("outlives a worker that died until its jobs are dead, and then ends", async () => {
    const worker = await job();
    const { enforcer, folder } = newEnforcer(worker.leader);
    const { child, leader } = await job();
    enforcer.confirm("7-1", { leader }, 300);
    worker.child.kill("SIGKILL");
    await child.exited;
    expect(child.signalCode).toBe("SIGKILL");
    const shells = () => Bun.spawnSync(["pgrep", "-f", folder]).stdout.toString().trim();
    await until("it has ended", async () => shells() === "");
  });

  test("begins anew where somebody removed its folder, and forgets no job", async () => {
    const { enforcer, folder, scratch } = newEnforcer();
    const [one, other] = [await job(), await job()];
    enforcer.confirm("7-1", { leader: one.leader }, 60_000);
    enforcer.confirm("8-1", { leader: other.leader }, 1_000);
    rmSync(scratch.folder(), { recursive: true });
    enforcer.confirm("7-1", { leader: one.leader }, 60_000);
    expect(existsSync(join(folder, "8-1"))).toBe(true);
    await other.child.exited;
    expect([other.child.signalCode, one.child.signalCode]).toEqual(["SIGKILL", null]);
  });

  test("leaves nothing behind when it is told to end", async () => {
    const { enforcer, folder, scratch } = newEnforcer();
    const { child, leader } = await job();
    enforcer.confirm("7-1", { leader }, 60_000);
    await until("it runs", async () => Bun.spawnSync(["pgrep", "-f", folder]).exitCode === 0);
    const [pid = ""] = Bun.spawnSync(["pgrep", "-f", folder]).stdout.toString().split("\n");
    await enforcer.end();
    scratch.remove();
    await until("its group is gone", async () => (groupMembers(Number(pid)) ?? []).length === 0);
    expect(existsSync(folder)).toBe(false);
    expect([child.exitCode, child.signalCode]).toEqual([null, null]);
  });
});
