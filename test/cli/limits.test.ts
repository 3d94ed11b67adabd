/** Limits and resources through the program: what is typed, what is shown, and what is refused. */

import { describe, expect, test } from "bun:test";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expectRefusal, until, usePlaces, type Place } from "./lease.ts";

const place = usePlaces();
const has = (p: Place, name: string) => existsSync(join(p.folder, name));

describe("lease limit", () => {
  test("bounds what runs, lists what is in use, and is the reason why a job waits", async () => {
    const p = place();
    await p.lease("limit", "github", "1");
    const first = await p.lease(
      "enqueue",
      "--limit",
      "github",
      "-c",
      "touch started; until [ -e go ]; do sleep 0.05; done",
    );
    expect(first.code).toBe(0);
    await p.lease("enqueue", "--limit", "github", "--", "true");
    const worker = p.lease("worker", "-j", "2", "--until-empty");
    await until(() => has(p, "started"));
    const { stdout } = await p.lease("limit", "--json");
    expect(JSON.parse(stdout)).toMatchObject({ name: "github", limit: 1, rate: null, running: 1, waiting: 1 });
    const listed = JSON.parse((await p.lease("inspect", "2", "--json")).stdout) as { reason: string; limit: string[] };
    expect(listed.reason).toBe("limit github 1 of 1, next when one ends");
    expect(listed.limit).toEqual(["github"]);
    expect((await p.lease("limit")).stdout).toContain("1 of 1");
    writeFileSync(join(p.folder, "go"), "");
    expect((await worker).code).toBe(0);
  });

  test("refuses what is no limit, and says that there is none", async () => {
    const p = place();
    expectRefusal(await p.lease("limit", "x", "many"), 2, "is not a whole number from 0");
    expectRefusal(await p.lease("limit", "x", "--rate", "0/1m"), 2, "is not a rate");
    expectRefusal(await p.lease("limit", "x", "--rate", "10"), 2, "is not a rate: write 10/1m");
    expectRefusal(await p.lease("limit", "a\u0007b", "1"), 2, "control characters");
    expectRefusal(await p.lease("enqueue", "--limit", 'a"b', "--", "true"), 2, "leave out");
    await p.lease("enqueue", "--", "true");
    expectRefusal(await p.lease("limit", "x", "none"), 1, "there is no limit x");
    expectRefusal(await p.lease("limit", "x"), 1, "there is no limit x");
  });

  test("that is lowered below what runs says when it takes effect", async () => {
    const p = place();
    const set = await p.lease("limit", "x", "2");
    expect(set).toEqual({ ...(await p.lease("limit", "x")), stdout: expect.stringContaining("0 of 2") });
    for (const name of ["a", "b"])
      await p.lease("enqueue", "--limit", "x", "-c", `touch ${name}; until [ -e go ]; do sleep 0.05; done`);
    const worker = p.lease("worker", "-j", "2", "--until-empty");
    await until(() => has(p, "a") && has(p, "b"));
    expect((await p.lease("limit", "x", "1")).stderr).toContain("2 run now: the limit takes effect as they end");
    writeFileSync(join(p.folder, "go"), "");
    expect((await worker).code).toBe(0);
  });
});

describe("resources", () => {
  test("are given to jobs as variables, and the reason says what is missing", async () => {
    const p = place();
    const need = ["--need", "gpu", "--need", "mem=8G"];
    await p.lease(
      "enqueue",
      ...need,
      "-c",
      "echo $LEASE_NEED_GPU $LEASE_NEED_MEM; touch started; until [ -e go ]; do sleep 0.05; done",
    );
    await p.lease("enqueue", "--need", "gpu", "--", "true");
    await p.lease("enqueue", "--need", "gpu=9", "--", "true");
    await p.lease("enqueue", "--need", "tpu", "--", "true");
    const worker = p.lease("worker", "-j", "4", "--have", "gpu=7,", "--have", "mem=32G", "--max-jobs", "2");
    await until(() => has(p, "started"));
    const reasons = (await p.lease("inspect", "jobs", "--json")).stdout.trim().split("\n");
    const told = reasons.map((line) => JSON.parse(line) as { id: number; reason: string | null });
    const reasonOf = (id: number) => told.find((job) => job.id === id)?.reason;
    expect(reasonOf(2)).toBe("needs gpu, 0 of 1 free on any worker");
    expect(reasonOf(3)).toBe("needs gpu=9, and no worker has more than 1");
    expect(reasonOf(4)).toBe("needs tpu, and no worker has tpu");
    writeFileSync(join(p.folder, "go"), "");
    expect((await worker).code).toBe(0);
    expect((await p.lease("logs", "1")).stdout).toBe("7 8589934592\n");
  });

  test("that are none are refused", async () => {
    const p = place();
    expectRefusal(await p.lease("worker", "--have", "gpu=0"), 2, "for the one with id 0 write gpu=0,");
    expectRefusal(await p.lease("worker", "--have", "gpu"), 2, "is not something to have");
    expectRefusal(await p.lease("worker", "--have", "gpu=1,1"), 2, "each once");
    expectRefusal(await p.lease("worker", "--have", "m=1", "--have", "m=2"), 2, "is given twice");
    expectRefusal(await p.lease("enqueue", "--need", "g p", "--", "true"), 2, "is not something to need");
    expectRefusal(await p.lease("enqueue", "--need", "gpu=0", "--", "true"), 2, "is not something to need");
  });
});
