import { afterEach, describe, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { cgroupFolders, hasCgroups } from "../../src/platform/cgroup.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { identify, livingProcesses, livingStat, userOf } from "../../src/platform/machine.ts";
import { killLeftovers, LeftoverSearch, removeBelongings, type Cleared } from "../../src/recovery/leftovers.ts";
import { groupLives } from "../../src/runner/group.ts";
import { eventually } from "../runner/fixture.ts";

const STORE = "/nowhere/lease.db";
const started: number[] = [];

afterEach(() => {
  for (const pid of started.splice(0)) {
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // It is gone, as it should be.
    }
  }
});

/** A process group that runs on; with `job` it knows what it belongs to. */
async function group(
  job: { id: number; token: number; store?: string; store_id?: string } | null,
  text = "sleep 60",
): Promise<number> {
  const marks = job && {
    ...(job.store_id === undefined ? {} : { LEASE_STORE_ID: job.store_id }),
    LEASE_JOB_ID: String(job.id),
    LEASE_TOKEN: String(job.token),
    LEASE_STORE: job.store ?? STORE,
  };
  const env = { PATH: process.env["PATH"] ?? "", ...marks };
  const child = spawn("/bin/sh", ["-c", text], { detached: true, stdio: "ignore", env });
  started.push(child.pid!);
  // Its environment is the one it was given only once it has become the shell.
  const environment = (): string => readFileSync(`/proc/${child.pid}/environ`, "latin1");
  if (job !== null) await eventually(() => environment().includes("LEASE_TOKEN"), "it runs");
  return child.pid!;
}

const kill = (leftovers: Parameters<typeof killLeftovers>[0]): Promise<Cleared> =>
  killLeftovers(leftovers, new LeftoverSearch("a-store", STORE), systemClock);

describe("what is left of an attempt", () => {
  test("is killed as a whole when its leader is marked", async () => {
    const pid = await group({ id: 1, token: 1 }, "sleep 60 & sleep 60 & wait");
    expect(await kill({ job: 1, before_token: 2, process: identify(pid) })).toMatchObject({ killed: 1, survivors: [] });
    expect(groupLives(pid)).toBe(false);
  });

  test("is left alone when its pid belongs to a younger process", async () => {
    const pid = await group(null);
    const { pid_started, ...rest } = identify(pid);
    expect(await kill({ job: 1, before_token: 2, process: { ...rest, pid_started: pid_started - 1 } })).toMatchObject({
      killed: 0,
      survivors: [],
    });
    expect(groupLives(pid)).toBe(true);
  });

  test("is left alone when it was noted before this boot, or without a start time", async () => {
    const pid = await group(null);
    const process = identify(pid);
    expect(await kill({ job: 1, before_token: 2, process: { ...process, boot_id: "earlier" } })).toMatchObject({
      killed: 0,
      survivors: [],
    });
    expect(await kill({ job: 1, before_token: 2, process: { ...process, pid_started: 0 } })).toMatchObject({
      killed: 0,
      survivors: [],
    });
    expect(groupLives(pid)).toBe(true);
  });

  test("is killed when only its leader is gone, and its members say whose they are", async () => {
    const pid = await group({ id: 7, token: 1 }, "sleep 60 & exec sleep 0.05");
    const noted = identify(pid);
    await eventually(() => identify(pid).pid_started === 0, "the leader is gone");
    expect(await kill({ job: 7, before_token: 2, process: noted })).toMatchObject({ killed: 1, survivors: [] });
    expect(groupLives(pid)).toBe(false);
  });

  test("is found by its marks when nobody could note it", async () => {
    const pid = await group({ id: 7, token: 1 });
    expect(await kill({ job: 7, before_token: 2, process: null })).toMatchObject({ killed: 1, survivors: [] });
    expect(groupLives(pid)).toBe(false);
  });

  test("is found by the store's id under whatever path the store was reached", async () => {
    const pid = await group({ id: 7, token: 1, store: "/home/josé/lease.db", store_id: "a-store" });
    expect(await kill({ job: 7, before_token: 2, process: null })).toMatchObject({ killed: 1, survivors: [] });
    expect(groupLives(pid)).toBe(false);
  });

  test("is none of another store that lies at the same path by now", async () => {
    const pid = await group({ id: 7, token: 1, store_id: "an-older-store" });
    expect(await kill({ job: 7, before_token: 2, process: null })).toMatchObject({ killed: 0, survivors: [] });
    expect(groupLives(pid)).toBe(true);
  });

  test("is none of the same attempt or a later one", async () => {
    const pid = await group({ id: 7, token: 2 });
    expect(await kill({ job: 7, before_token: 2, process: null })).toMatchObject({ killed: 0, survivors: [] });
    expect(groupLives(pid)).toBe(true);
  });

  test("is none of another job, or of the same id in another store", async () => {
    const [other, elsewhere] = [await group({ id: 8, token: 1 }), await group({ id: 7, token: 1, store: "/other.db" })];
    expect(await kill({ job: 7, before_token: 2, process: null })).toMatchObject({ killed: 0, survivors: [] });
    expect([groupLives(other), groupLives(elsewhere)]).toEqual([true, true]);
  });

  const can_be_another = process.getuid?.() === 0 && Bun.which("setpriv") !== null;
  test.if(can_be_another)("is named and left alone when it became another user's", async () => {
    const pid = await group(null, "setpriv --reuid 12345 --clear-groups sleep 60 & wait");
    const members = () => livingProcesses()!.filter((one) => one !== pid && livingStat(one)?.group === pid);
    await eventually(() => members().some((one) => userOf(one) === 12_345), "the other runs");
    const [member] = members();
    const left = { job: 7, before_token: 2, process: identify(pid) };
    expect(await kill(left)).toEqual({ killed: 0, survivors: [member!] });
    expect(groupLives(pid)).toBe(true);
  });

  test("is nothing where nothing is left", async () => {
    expect(await kill({ job: 7, before_token: 2, process: null })).toMatchObject({ killed: 0, survivors: [] });
  });
});

const possible = hasCgroups();
if (!possible)
  console.warn("SKIPPED: what a dead worker made of control groups is not looked for: there are none here");

describe.if(possible)("control groups of a worker that died", () => {
  const fence = join(import.meta.dir, "../../src/runner/fence.ts");
  /** Of a worker that dies without a word when its standard input ends. */
  function worker(id: string) {
    const program = `const { Fences } = await import(${JSON.stringify(fence)});
      console.log(new Fences(${JSON.stringify(id)}, () => "gone").take({ memory_bytes: null, pids: null, cpus: null }).cgroup);
      await new Response(Bun.stdin.stream()).text();
      process.kill(process.pid, "SIGKILL");`;
    return Bun.spawn([process.execPath, "-e", program], { stdin: "pipe", stdout: "pipe", stderr: "inherit" });
  }

  test("are of one store: a daemon that the same job of another has left there is not touched", async () => {
    const child = worker("of-a-neighbour");
    const { value } = await child.stdout.getReader().read();
    const folder = dirname(new TextDecoder().decode(value).trim());
    const [own, other] = [await group(null, "exec sleep 60"), await group(null, "exec sleep 60")];
    for (const [store_id, pid] of [
      ["a-store", own],
      ["another-store", other],
    ] as const) {
      const cgroup = join(folder, `left.${store_id}.7.1`);
      mkdirSync(cgroup);
      writeFileSync(join(cgroup, "cgroup.procs"), String(pid));
    }
    expect(await kill({ job: 7, before_token: 2, process: null })).toMatchObject({ killed: 1, survivors: [] });
    await eventually(() => !groupLives(own), "it is gone");
    expect(groupLives(other)).toBe(true);
    process.kill(-other, "SIGKILL");
    await eventually(() => !groupLives(other), "it is gone");
    await child.stdin.end();
    await child.exited;
    removeBelongings(STORE, "another");
    expect(cgroupFolders("lease-of-a-neighbour")).toEqual([]);
  });

  test("go when nothing lives in them, also those of a store that nobody sweeps any more; not before", async () => {
    const child = worker("of-no-store");
    await child.stdout.getReader().read();
    removeBelongings(STORE, "another");
    expect(cgroupFolders("lease-of-no-store")).toHaveLength(1);
    await child.stdin.end();
    await child.exited;
    removeBelongings(STORE, "another");
    expect(cgroupFolders("lease-of-no-store")).toEqual([]);
  });
});
