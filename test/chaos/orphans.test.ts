/** Killing what is left of an attempt is safe: only with proof that a process is the one that was noted. */

import { afterEach, describe, expect, test } from "bun:test";
import { systemClock } from "../../src/platform/clock.ts";
import { identify } from "../../src/platform/machine.ts";
import { killLeftovers, LeftoverSearch } from "../../src/recovery/leftovers.ts";
import { until } from "../support/process.ts";

const STORE = `/nowhere/lease-${process.pid}.db`;
const JOB = 7;

/** A process that leads a group of its own, as a worker starts them; of this attempt when it has a token. */
async function leader(script: string, token?: number) {
  const about = { LEASE_JOB_ID: String(JOB), LEASE_TOKEN: String(token), LEASE_STORE: STORE };
  const child = Bun.spawn(["sh", "-c", script], {
    detached: true,
    stdout: "pipe",
    stderr: "ignore",
    env: { PATH: process.env["PATH"] ?? "", ...(token === undefined ? {} : about) },
  });
  // Its first line says that the shell is up: before that it would still be known by our own name and environment.
  const { value } = await child.stdout.getReader().read();
  const said = Number(new TextDecoder().decode(value));
  started.push(child.pid, ...(said > 0 ? [said] : []));
  return { child, pid: child.pid, said };
}

const lives = (pid: number): boolean => identify(pid).pid_started !== 0;

const kill = (process: ReturnType<typeof identify> | null, before_token = 2) =>
  killLeftovers({ job: JOB, before_token, process }, new LeftoverSearch("a-store", STORE), systemClock);

const started: number[] = [];

afterEach(async () => {
  for (const pid of started.splice(0)) {
    if (lives(pid)) process.kill(pid, "SIGKILL");
    await until(`${pid} is gone`, () => !lives(pid));
  }
});

describe("what is left of an attempt", () => {
  test("is killed with its whole group when it leads it and knows the attempt", async () => {
    const { pid, said } = await leader("env -i sleep 300 & echo $!; wait", 1);
    expect(await kill(identify(pid))).toMatchObject({ killed: 1, survivors: [] });
    expect([lives(pid), lives(said)]).toEqual([false, false]);
  });

  test("is killed with what descends from it, and with its session, whatever that did to its group and environment", async () => {
    const { pid, said } = await leader("set -m; env -i sh -c 'sleep 300 & wait' & echo $!; wait", 1);
    const inner = await leader("env -i setsid sh -c 'echo $$; exec sleep 300' & wait", 1);
    expect(await kill(null)).toMatchObject({ survivors: [] });
    expect([pid, said, inner.pid, inner.said].map(lives)).toEqual([false, false, false, false]);
  });

  test("is not killed because a store says so, and what the store names is then a stranger", async () => {
    const { pid } = await leader("echo 0; exec sleep 300");
    const leftovers = { job: JOB, before_token: 2, process: identify(pid) };
    expect(await kill(identify(pid))).toMatchObject({ killed: 0 });
    expect(new LeftoverSearch("a-store", STORE).stranger(leftovers)).toBe(pid);
    const first = { ...leftovers, process: { ...identify(pid), pid: 1 } };
    expect(new LeftoverSearch("a-store", STORE).stranger(first)).toBe(1);
    expect(lives(pid)).toBe(true);
  });

  test("is not killed when its pid belongs to another process by now, which started at another time", async () => {
    const { pid } = await leader("echo 0; exec sleep 300");
    const noted = identify(pid);
    expect(await kill({ ...noted, pid_started: noted.pid_started - 1 })).toMatchObject({ killed: 0, survivors: [] });
    expect(await kill({ ...noted, pid_started: noted.pid_started + 1 })).toMatchObject({ killed: 0, survivors: [] });
    expect(lives(pid)).toBe(true);
  });

  test("is not killed when it was noted before this boot, or without a start time", async () => {
    const { pid } = await leader("echo 0; exec sleep 300");
    const noted = identify(pid);
    expect(await kill({ ...noted, boot_id: "00000000-0000-0000-0000-000000000000" })).toMatchObject({
      killed: 0,
      survivors: [],
    });
    expect(await kill({ ...noted, pid_started: 0 })).toMatchObject({ killed: 0, survivors: [] });
    expect(lives(pid)).toBe(true);
  });

  test("is killed when the leader of its group is gone and a member knows the attempt", async () => {
    const { child, pid, said } = await leader("sleep 300 & echo $!", 1);
    const noted = { ...identify(pid), pid, pid_started: identify(pid).pid_started || 1 };
    await child.exited;
    expect(lives(said)).toBe(true);
    expect(await kill(noted)).toMatchObject({ killed: 1, survivors: [] });
    expect(lives(said)).toBe(false);
  });

  test("is not killed when the leader is gone and the members of that group are strangers", async () => {
    const { child, pid, said } = await leader("sleep 300 & echo $!");
    await child.exited;
    expect(await kill({ ...identify(pid), pid, pid_started: 1 })).toMatchObject({ killed: 0, survivors: [] });
    expect(lives(said)).toBe(true);
  });

  test("is found by its environment when nobody noted it", async () => {
    const { pid } = await leader("echo 0; sleep 300; :", 1);
    expect(await kill(null)).toMatchObject({ killed: 1, survivors: [] });
    expect(lives(pid)).toBe(false);
  });

  test("is found by its environment when nobody noted it and the leader of its group is gone", async () => {
    const { child, said } = await leader("sleep 300 & echo $!", 1);
    await child.exited;
    expect(await kill(null)).toMatchObject({ killed: 1, survivors: [] });
    expect(lives(said)).toBe(false);
  });

  test("is not taken from a later attempt, another job, or another store", async () => {
    const { pid } = await leader("echo 0; exec sleep 300", 2);
    expect(await kill(null, 2)).toMatchObject({ killed: 0, survivors: [] });
    const other_job = { job: JOB + 1, before_token: 3, process: null };
    expect(await killLeftovers(other_job, new LeftoverSearch("a-store", STORE), systemClock)).toMatchObject({
      killed: 0,
      survivors: [],
    });
    const same_job = { job: JOB, before_token: 3, process: null };
    expect(
      await killLeftovers(same_job, new LeftoverSearch("another-store", `${STORE}-other`), systemClock),
    ).toMatchObject({ killed: 0, survivors: [] });
    expect(lives(pid)).toBe(true);
    expect(await killLeftovers(same_job, new LeftoverSearch("a-store", STORE), systemClock)).toMatchObject({
      killed: 1,
      survivors: [],
    });
    expect(lives(pid)).toBe(false);
  });
});
