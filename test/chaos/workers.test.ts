/** Workers on their bad days: killed, stopped, cut off from the store. A job runs on elsewhere, and never twice at once. */

import { describe, expect } from "bun:test";
import { newJob } from "../support/jobs.ts";
import { lockStore, scenario, stamp, stamps, until } from "../support/process.ts";
import type { Stamp } from "../support/process.ts";

/**
 * The first attempt works until it is killed; the second is short and ends well. It prints nothing, because a child that
 * prints into the pipe of a dead worker dies of that.
 */
const STAYS_ONCE = `
  ${stamp("begin", "stamps")}
  if [ "$LEASE_TOKEN" = 1 ]; then while :; do ${stamp("alive", "stamps")}; sleep 0.05; done; fi
  sleep 0.5
  ${stamp("end", "stamps")}`;

/** Nothing of an earlier attempt happened after a later one began. */
function expectNoOverlap(all: readonly Stamp[]): void {
  for (const { token, at_ms } of all.filter(({ event }) => event === "begin")) {
    const before = all.filter((other) => other.token < token);
    const last_ms = Math.max(0, ...before.map((other) => other.at_ms));
    expect({ token, overlap_ms: Math.max(0, last_ms - at_ms) }).toEqual({ token, overlap_ms: 0 });
  }
}

describe("a worker that is killed", () => {
  scenario("has its job taken over at once, and its child is gone before the next attempt starts", async (site) => {
    const id = await site.script([], STAYS_ONCE);
    const first = await site.workerReady();
    await site.written("stamps", /^alive 1/);
    await site.childOf(id);
    const second = await site.workerReady();
    first.signal("SIGKILL");
    const job = await site.reaches(id, "completed", { within_ms: 10_000 });
    expect(job.history.map(({ cause }) => cause)).toEqual(["lost", "success"]);
    expect(job).toMatchObject({ retries_left: 2 });
    expectNoOverlap(stamps(site.lines("stamps")));
    expect((await site.errors(id)).map(({ cause, token }) => ({ cause, token }))).toEqual([
      { cause: "lost", token: 1 },
    ]);
    expect(second.stderr).toContain("died without a word");
    expect((await second.end()).code).toBe(0);
  });

  scenario("before it could note its child leaves nothing running either", async (site) => {
    // It takes its worker down as the very first thing.
    const id = await site.script([], `[ "$LEASE_TOKEN" = 1 ] && kill -KILL $PPID; ${STAYS_ONCE}`);
    expect(await site.worker().ended).toMatchObject({ signal: "SIGKILL" });
    expect((await site.store.attempts(id))[0]?.process).toBeNull();
    await site.written("stamps", /^alive 1/);
    const second = site.worker();
    const job = await site.reaches(id, "completed", { within_ms: 10_000 });
    expect(job.history.map(({ cause }) => cause)).toEqual(["lost", "success"]);
    expectNoOverlap(stamps(site.lines("stamps")));
    await second.end();
  });

  scenario(
    "before it could note its child leaves nothing running, not even what a child that is gone itself had started",
    async (site) => {
      // The leader of the group ends, what it started in the group goes on.
      const id = await site.script(
        [],
        `if [ "$LEASE_TOKEN" = 1 ]; then kill -KILL $PPID; (${STAYS_ONCE}) & exit; fi; ${STAYS_ONCE}`,
      );
      expect(await site.worker().ended).toMatchObject({ signal: "SIGKILL" });
      expect((await site.store.attempts(id))[0]?.process).toBeNull();
      await site.written("stamps", /^alive 1/);
      const second = site.worker();
      await site.reaches(id, "completed", { within_ms: 10_000 });
      expectNoOverlap(stamps(site.lines("stamps")));
      await second.end();
    },
  );

  scenario("leaves a job that `watchdog --once` gives back at once, killing what is left of it", async (site) => {
    const id = await site.script([], STAYS_ONCE);
    const first = await site.workerReady();
    await site.childOf(id);
    await first.end("SIGKILL");
    const swept = await site.run(["watchdog", "--once", "--json"]);
    expect(swept).toMatchObject({ code: 0 });
    expect(JSON.parse(swept.stdout)).toMatchObject({
      expired_found: 1,
      recovered: 1,
      failed: 0,
      cancelled: 0,
      checkpoints_created: 1,
      orphans_killed: 1,
      errors: 0,
    });
    expect(site.processes(id)).toEqual([]);
    expect(await site.job(id)).toMatchObject({ state: "pending", cause: "lost" });
  });

  scenario("after the last retry leaves a failed job, `max retries exceeded`", async (site) => {
    const id = await site.script(["--retries", "0"], STAYS_ONCE);
    const first = await site.workerReady();
    await site.childOf(id);
    await first.end("SIGKILL");
    const swept = await site.run(["watchdog", "--once", "--json"]);
    expect(JSON.parse(swept.stdout)).toMatchObject({ expired_found: 1, recovered: 0, failed: 1 });
    const job = await site.job(id);
    expect(job).toMatchObject({ state: "failed", cause: "lost", attempts: 1 });
    expect(job.error).toContain("max retries exceeded");
  });
});

describe("a worker that is stopped past its lease", () => {
  scenario("has lost its job: the child is dead, the late result is stale and changes nothing", async (site) => {
    const id = await site.script([], STAYS_ONCE);
    const first = await site.workerReady("--lease", "2s", "--beat", "timer");
    await site.written("stamps", /^alive 1/);
    await site.childOf(id);
    await site.freeze(first);
    const second = await site.workerReady("--lease", "2s", "--beat", "timer");
    await site.written("stamps", /^begin 2/);
    expect(site.processes(id).filter(({ token }) => token === 1)).toEqual([]);
    first.signal("SIGCONT");
    await first.line(/too late.*stale/);
    const job = await site.reaches(id, "completed");
    expect(job.history.map(({ cause }) => cause)).toEqual(["expired", "success"]);
    expectNoOverlap(stamps(site.lines("stamps")));
    expect((await site.errors(id)).map(({ cause, token }) => ({ cause, token }))).toEqual([
      { cause: "expired", token: 1 },
      { cause: "stale", token: 1 },
    ]);
    // Both go on as workers.
    expect((await first.end()).code).toBe(0);
    expect((await second.end()).code).toBe(0);
  });

  scenario(
    "whose child succeeds in the meantime can't hand in that success: the later attempt's failure stands",
    async (site) => {
      const script = `[ "$LEASE_TOKEN" = 1 ] && { until [ -e stopped ]; do sleep 0.05; done; ${stamp("end", "stamps")}; exit 0; }; exit 9`;
      const id = await site.script(["--retries", "1"], script);
      const first = await site.workerReady("--lease", "2s", "--beat", "timer");
      await site.childOf(id);
      await site.freeze(first);
      await Bun.write(site.path("stopped"), "");
      await site.written("stamps", /^end 1/);
      // Whoever sweeps first after the end of the lease finds it; before that there is nothing to find.
      await until("the watchdog recovers it", async () => {
        const swept = await site.run(["watchdog", "--once", "--grace", "0", "--json"]);
        return (JSON.parse(swept.stdout) as { recovered: number }).recovered === 1;
      });
      const second = site.worker("--lease", "2s");
      await site.reaches(id, "failed", { token: 2 });
      await second.end();
      first.signal("SIGCONT");
      await first.line(/too late.*stale/);
      const job = await site.job(id);
      expect(job).toMatchObject({ state: "failed", exit_code: 9, attempts: 2 });
      expect(job.history.map(({ cause }) => cause)).toEqual(["expired", "exit"]);
      const stale = (await site.errors(id)).filter(({ cause }) => cause === "stale");
      expect(stale).toMatchObject([{ cause: "stale", token: 1, result: "success" }]);
    },
  );

  scenario("takes the job up again by itself when nobody else did", async (site) => {
    const id = await site.script([], STAYS_ONCE);
    const worker = await site.workerReady("--lease", "2s", "--beat", "timer");
    await site.childOf(id);
    await site.freeze(worker);
    await Bun.sleep(2_500);
    worker.signal("SIGCONT");
    const job = await site.reaches(id, "completed");
    expect(job.history.map(({ cause }) => cause)).toEqual(["expired", "success"]);
    expectNoOverlap(stamps(site.lines("stamps")));
  });
});

describe("a store that is locked by a stuck process", () => {
  scenario("for longer than the interval and shorter than the lease costs no job its attempt", async (site) => {
    const id = await site.script(
      ["--lease", "4s"],
      "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do echo $i; sleep 0.2; done",
    );
    const worker = site.worker("--until-empty", "--lease", "4s");
    await site.childOf(id);
    const unlock = lockStore(site.location);
    await Bun.sleep(2_000);
    unlock();
    expect((await worker.ended).code).toBe(0);
    const job = await site.job(id);
    expect(job).toMatchObject({ state: "completed", attempts: 1 });
    expect((await site.run(["logs", String(id)])).stdout).toBe(
      Array.from({ length: 15 }, (_, i) => `${i + 1}\n`).join(""),
    );
  });

  scenario(
    "for longer than the lease has the job killed before the lease is over, and tried again afterwards",
    async (site) => {
      const id = await site.script([], STAYS_ONCE);
      const worker = await site.workerReady("--lease", "2s", "--beat", "timer");
      await site.childOf(id);
      await site.written("stamps", /^alive 1/);
      const unlock = lockStore(site.location);
      const [locked] = await site.store.jobs([id]);
      const expires_at_ms = locked?.state.name === "running" ? locked.state.expires_at_ms : 0;
      await worker.line(/lost its lease/);
      await site.gone(id);
      unlock();
      const first = stamps(site.lines("stamps")).filter(({ token }) => token === 1);
      expect(first.at(-1)?.at_ms).toBeLessThan(expires_at_ms);
      const job = await site.reaches(id, "completed");
      expect(job.history.map(({ cause }) => cause)).toEqual(["expired", "success"]);
      expectNoOverlap(stamps(site.lines("stamps")));
    },
  );

  scenario("lets an enqueue wait for its turn instead of failing it", async (site) => {
    const unlock = lockStore(site.location);
    const enqueue = site.start(["enqueue", "--", "true"]);
    await Bun.sleep(500);
    expect(enqueue.over).toBe(false);
    unlock();
    expect(await enqueue.ended).toMatchObject({ code: 0, stdout: "1\n" });
  });
});

describe("workers that are killed again and again", () => {
  scenario("lose no job, run none twice at once, and count none wrong", async (site) => {
    const job = newJob({
      argv: [
        "sh",
        "-c",
        `${stamp("begin", "stamps-$LEASE_JOB_ID")}; sleep 0.1; ${stamp("end", "stamps-$LEASE_JOB_ID")}`,
      ],
      cwd: site.folder,
      settings: { retries: 100 },
    });
    const queued = await site.store.enqueue(Array.from({ length: 120 }, () => job));
    const ids = queued.map(({ id }) => id);
    for (let round = 0; round < 5; round++) {
      const [first, second] = await Promise.all([site.workerReady("-j", "2"), site.workerReady("-j", "2")]);
      await Bun.sleep(200 + 60 * round);
      await Promise.all([first.end("SIGKILL"), second.end("SIGKILL")]);
    }
    const last = site.worker("-j", "4", "--until-empty", "--poll", "100ms");
    // A worker that found an empty queue before it swept would leave the lost ones to the next.
    expect((await last.ended).code).toBe(0);
    await site.worker("-j", "4", "--until-empty", "--poll", "100ms").ended;
    for (const found of await site.store.jobs(ids)) {
      expect(found?.state.name).toBe("completed");
    }
    for (const id of ids) expectNoOverlap(stamps(site.lines(`stamps-${id}`)));
  });
});
