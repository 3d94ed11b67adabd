import { describe, expect, spyOn } from "bun:test";
import { writeFileSync } from "node:fs";
import { LEASE_MS } from "../leasing/fixture.ts";
import { fenceMargin } from "../../src/core/silence.ts";
import { Enforcer } from "../../src/runner/enforcer.ts";
import { groupLives } from "../../src/runner/group.ts";
import { eventually } from "../runner/fixture.ts";
import { attemptTest as test, script, type AttemptBench, type Started } from "./attempts.ts";

/** Says `go`, then nothing more, and ends when it is asked to. */
const QUIET = script("echo go; exec sleep 60");
/** Sits out every TERM. */
const STUBBORN = script("trap '' TERM; echo go; while :; do sleep 1; done");

async function started(b: AttemptBench, ...args: Parameters<AttemptBench["start"]>): Promise<Started> {
  const begun = await b.start(...args);
  await begun.printed(3);
  return begun;
}

async function groupOf(b: AttemptBench, id: number): Promise<number> {
  await b.pass(50);
  return (await b.store.attempts(id))[0]!.process!.pid;
}

describe("a job that falls silent", () => {
  test("is warned of at half of the budget, naming what would change it", async (b) => {
    const { attempt, id } = await started(b, QUIET);
    await b.pass(LEASE_MS / 2);
    expect(b.reports).toHaveLength(1);
    expect(b.reports[0]).toStartWith(`warn: job ${id}: silent for 30s of 1m`);
    for (const way of ["--lease", "--pty", "--beat timer", "lease beat"]) expect(b.reports[0]).toContain(way);
    attempt.kill();
    await attempt.settled;
  });

  test("is left to this worker by its enforcer, also where a beat adds far less than the lease", async (b) => {
    const confirm = spyOn(Enforcer.prototype, "confirm");
    const settings = { lease_ms: 10_000, extension_ms: 1_000, interval_ms: 200 };
    const { attempt, lease } = await started(b, { ...QUIET, settings });
    await b.pass(50);
    const left_ms = confirm.mock.calls.at(-1)?.[2] ?? 0;
    confirm.mockRestore();
    // Between the moment in which the worker kills for want of an extension, and the end of the lease.
    const before_end_ms = lease.remaining() - left_ms;
    expect(before_end_ms).toBeGreaterThan(0);
    expect(before_end_ms).toBeLessThan(fenceMargin(settings.extension_ms));
    attempt.kill();
    await attempt.settled;
  });

  test("is stopped when the budget is used up, recorded as silent, and free again without any watchdog", async (b) => {
    const { attempt, id } = await started(b, QUIET);
    await b.pass(LEASE_MS);
    await attempt.settled;
    expect(await b.job(id)).toMatchObject({
      state: { name: "scheduled" },
      result: { cause: "silent", error: 'silent 1m of 1m, last line "go"' },
    });
    expect(await b.trail(id)).toMatchObject([{ cause: "silent", signal: "SIGTERM", last_lines: ["go"] }]);
  });

  test("is killed when it does not hear, within a lease that covers it", async (b) => {
    const { attempt, id } = await started(b, STUBBORN);
    const group = await groupOf(b, id);
    await b.pass(LEASE_MS);
    expect(groupLives(group)).toBe(true);
    const expires_at_ms = await b.expiryOf(id);
    await b.pass(10_000);
    await attempt.settled;
    expect(groupLives(group)).toBe(false);
    expect(b.clock.wall_ms()).toBeLessThan(expires_at_ms);
    expect((await b.store.attempts(id))[0]).toMatchObject({ end: { cause: "silent", signal: "SIGKILL" } });
  });

  test("does not get its time back by printing while it is stopped", async (b) => {
    const talker = script("trap 'echo not yet' TERM; echo go; while :; do sleep 0.01; done");
    const { attempt, id, printed } = await started(b, talker);
    await b.pass(LEASE_MS);
    await printed("go\nnot yet\n".length);
    // The grace and a bit: it is killed then, and what is left to wait for is the process itself.
    await b.pass(10_500, 500);
    await attempt.settled;
    expect(await b.job(id)).toMatchObject({ state: { name: "scheduled" }, result: { cause: "silent" } });
  });

  test("fails for good when it has no retries left", async (b) => {
    const { attempt, id } = await started(b, { ...QUIET, settings: { retries: 0 } });
    await b.pass(LEASE_MS);
    await attempt.settled;
    expect(await b.stateOf(id)).toBe("failed");
  });
});

describe("a job over its time limit", () => {
  test("is stopped, whatever it prints, and recorded as a timeout", async (b) => {
    const { attempt, id } = await started(b, { ...QUIET, settings: { timeout_ms: 20_000 } });
    await b.pass(20_000);
    await attempt.settled;
    expect(await b.job(id)).toMatchObject({
      state: { name: "scheduled" },
      result: { cause: "timeout", error: "timeout after 20s" },
    });
  });

  test("is killed when it does not hear", async (b) => {
    const { attempt, id } = await started(b, { ...STUBBORN, settings: { timeout_ms: 1_000 } });
    await b.pass(11_000);
    await attempt.settled;
    expect((await b.store.attempts(id))[0]).toMatchObject({ end: { cause: "timeout", signal: "SIGKILL" } });
  });
});

describe("a job that is cancelled", () => {
  test("is asked to end, and is then cancelled for good", async (b) => {
    const { attempt, id } = await started(b, QUIET);
    await b.store.cancel([id], "not needed");
    attempt.cancel();
    attempt.cancel();
    await attempt.settled;
    expect(await b.job(id)).toMatchObject({ state: { name: "cancelled" }, reason: "not needed" });
    expect(b.reports.filter((line) => line.includes("cancel requested"))).toHaveLength(1);
    expect(await b.trail(id)).toEqual([]);
  });

  test("is killed after the grace when it does not hear", async (b) => {
    const { attempt, id } = await started(b, STUBBORN, { kill_grace_ms: 5_000 });
    const group = await groupOf(b, id);
    attempt.cancel();
    await b.pass(4_900);
    expect(groupLives(group)).toBe(true);
    await b.pass(100);
    await attempt.settled;
    expect(await b.stateOf(id)).toBe("cancelled");
  });

  test("is sent nothing when the grace is never, keeps its lease, and is cancelled when it ends by itself", async (b) => {
    const patient = script(`trap 'echo asked' TERM; echo go; while [ ! -e ${b.file("end")} ]; do sleep 0.01; done`);
    const job = { ...patient, settings: { beat: "timer" as const } };
    const { attempt, id, lease } = await started(b, job, { kill_grace_ms: "never" });
    await b.store.cancel([id], null);
    attempt.cancel();
    await b.pass(LEASE_MS * 5);
    expect([attempt.stopping, lease.remaining() > 0]).toEqual([false, true]);
    writeFileSync(b.file("end"), "");
    await b.passUntil(attempt.settled, 20);
    expect(await b.job(id)).toMatchObject({
      state: { name: "cancelled" },
      result: { cause: "cancelled", exit_code: 0 },
    });
    expect(await b.logOf(id)).toBe("go\n");
  });

  for (const [whose, settings, asked, expected_ms] of [
    ["its own", { grace_ms: 1_000 }, 9_000, 1_000],
    ["the cancel's", {}, 2_000, 2_000],
    ["the worker's", {}, null, 5_000],
  ] as const) {
    test(`is given ${whose} grace`, async (b) => {
      const { attempt, id } = await started(b, { ...STUBBORN, settings }, { kill_grace_ms: 5_000 });
      const group = await groupOf(b, id);
      attempt.cancel(asked);
      await b.pass(expected_ms - 100);
      expect(groupLives(group)).toBe(true);
      await b.pass(100);
      await attempt.settled;
      expect(await b.stateOf(id)).toBe("cancelled");
    });
  }

  test("is killed at once by a second cancel that says so", async (b) => {
    const { attempt, id } = await started(b, STUBBORN, { kill_grace_ms: "never" });
    attempt.cancel();
    expect(attempt.stopping).toBe(false);
    attempt.cancel(0);
    await b.passUntil(attempt.settled, 20);
    expect(await b.stateOf(id)).toBe("cancelled");
  });

  test("hears of it with the next extension of its lease", async (b) => {
    const { attempt, id } = await started(b, QUIET);
    await b.store.cancel([id], null);
    await b.pass(LEASE_MS / 10);
    await attempt.settled;
    expect(await b.stateOf(id)).toBe("cancelled");
  });

  test("is completed when its program had succeeded before the cancel came", async (b) => {
    let ended = false;
    const verbs = {
      extend: (requests: Parameters<typeof b.store.extend>[0]) => {
        // The last beat of an attempt comes when its program is over.
        if (ended) attempt.cancel();
        return b.store.extend(requests);
      },
    };
    const { attempt, id, printed } = await b.start(
      script(`echo go; while [ ! -e ${b.file("end")} ]; do sleep 0.01; done`),
      {},
      verbs,
    );
    await printed(3);
    await b.pass(LEASE_MS / 5);
    ended = true;
    await Bun.write(b.file("end"), "");
    await attempt.settled;
    expect(await b.stateOf(id)).toBe("completed");
  });
});

describe("a job that is given back", () => {
  test("is asked to end and goes back to the queue, uncounted", async (b) => {
    const { attempt, id } = await started(b, { ...QUIET, settings: { retries: 0 } });
    attempt.giveBack(10_000);
    await attempt.settled;
    expect(await b.job(id)).toMatchObject({ state: { name: "pending" }, failures: 0 });
    expect((await b.store.attempts(id))[0]).toMatchObject({ end: { cause: "returned" } });
  });

  test("is killed after its grace, however often it is asked in between", async (b) => {
    const { attempt, id } = await started(b, STUBBORN);
    const group = await groupOf(b, id);
    attempt.giveBack(10_000);
    await b.pass(9_000);
    attempt.giveBack(10_000);
    await b.pass(1_000);
    const dead = await eventually(() => !groupLives(group), "the group is dead", 60).then(
      () => true,
      () => false,
    );
    attempt.kill();
    await b.passUntil(attempt.settled, 20);
    expect(dead).toBe(true);
  });

  test("is cancelled instead when a cancel comes while it ends", async (b) => {
    const { attempt, id } = await started(b, STUBBORN);
    attempt.giveBack(10_000);
    await b.store.cancel([id], null);
    attempt.cancel();
    await b.pass(20_000);
    await attempt.settled;
    expect(await b.stateOf(id)).toBe("cancelled");
  });

  test("by force is killed at once", async (b) => {
    const { attempt, id } = await started(b, STUBBORN);
    attempt.kill();
    await attempt.settled;
    expect(await b.job(id)).toMatchObject({ state: { name: "pending" }, failures: 0 });
  });

  test("before its program was started never starts it", async (b) => {
    // The second attempt first clears away what is left of the first.
    const job = await b.run("exit 1", script(`echo ran >> ${b.file("runs")}; exit 1`));
    await b.pass(5_000);
    const manager = b.localManager();
    const [lease] = await manager.acquire();
    const { attempt } = b.begin(lease!, { manager });
    attempt.kill();
    await attempt.settled;
    expect([b.read("runs"), await b.stateOf(job.id)]).toEqual(["ran\n", "pending"]);
  });
});
