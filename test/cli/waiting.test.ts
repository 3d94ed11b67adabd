/** What people are told while they wait, and what they see of workers that are not what they seem. */

import { describe, expect } from "bun:test";
import { scenario, until } from "../support/process.ts";

describe("whoever waits for a job that does not run is told why:", () => {
  scenario("run --remote without a worker, and how to come back to it there", async (site) => {
    const program = site.start(["run", "--remote", "--key", "k", "-q", "gpu", "--", "true"]);
    await program.line(/job 1 is pending: no worker serves queue gpu/);
    const { code, stderr } = await program.end("SIGINT");
    expect(code).toBe(130);
    expect(stderr).toMatch(/go on with: lease run --store \S+ --remote --key k\n$/);
  });

  scenario("run of a job that is due later", async (site) => {
    const program = site.start(["run", "--delay", "1h", "--", "true"]);
    await program.line(/job 1 is scheduled: due in 1h/);
    await program.end("SIGINT");
  });

  scenario("run of a job that a limit holds back, though no worker serves its queue", async (site) => {
    await site.run(["limit", "api", "0"]);
    const program = site.start(["run", "--limit", "api", "--", "true"]);
    await program.line(/job 1 is pending: limit api lets none start/);
    await program.end("SIGINT");
  });

  scenario("logs -f of a job in a paused queue", async (site) => {
    const id = await site.enqueue([], "echo", "hello");
    await site.run(["pause", "default"]);
    const program = site.start(["logs", "-f", String(id)]);
    await program.line(/job 1 is pending: queue paused/);
    await site.run(["resume", "default"]);
    await site.run(["worker", "--until-empty"]);
    expect(await program.ended).toMatchObject({ code: 0, stdout: "hello\n" });
  });
});

describe("a worker", () => {
  scenario("that was killed is shown as dead at once, and so is what it held", async (site) => {
    const id = await site.script([], "sleep 60");
    const worker = await site.workerReady("--no-sweep");
    await site.childOf(id);
    await worker.end("SIGKILL");
    const lines = (await site.run(["inspect", "workers", "--json"])).stdout;
    expect(JSON.parse(lines)).toMatchObject({ state: "dead" });
    expect((await site.run(["inspect", String(id)])).stdout).toContain("its worker died, waits for a sweep");
    await site.run(["watchdog", "--once"]);
  });

  scenario("that takes one task is no reason to hope for the others", async (site) => {
    await site.run(["enqueue", "-q", "p", "-t", "mine", "--", "true"]);
    const worker = site.start(["worker", "-q", "p", "--task", "other"]);
    await until("it is there", async () => (await site.store.workers()).length > 0);
    const { stdout } = await site.run(["inspect", "jobs"]);
    expect(stdout).toContain("the workers of queue p take other tasks only");
    expect(JSON.parse((await site.run(["inspect", "workers", "--json"])).stdout)).toMatchObject({ task: "other" });
    await worker.end();
  });

  scenario("that is told to end says what it waits for, and what became of it", async (site) => {
    const id = await site.script([], "sleep 60");
    const worker = await site.workerReady("--drain", "1m");
    await site.childOf(id);
    worker.signal("SIGINT");
    await worker.line(/draining: 1 job may run on for 1m; (?:Ctrl-C|the same signal) again stops it/);
    const { code, stderr } = await worker.end("SIGINT");
    expect(code).toBe(0);
    expect(stderr).toMatch(/stopping 1 job, back to the queue\n.*job 1: back in the queue/);
  });
});

describe("lists", () => {
  scenario("that are cut say so, and those that are whole don't", async (site) => {
    for (let i = 0; i < 3; i++) await site.enqueue([], "true");
    expect((await site.run(["inspect", "jobs", "--limit", "2"])).stdout).toMatch(/\n… and 1 more: --limit 20\n/);
    expect((await site.run(["inspect", "jobs", "--limit", "3"])).stdout).not.toContain("more");
  });

  scenario("of lines of a log are objects with --json", async (site) => {
    const id = await site.script([], "echo one; exit 3");
    await site.run(["worker", "--max-jobs", "1"]);
    const line = JSON.parse((await site.run(["logs", String(id), "--json"])).stdout) as object;
    expect(line).toMatchObject({ schema: 1, job: id, attempt: 1, stream: "stdout", text: "one" });
  });
});

describe("a worker with --preempt", () => {
  scenario("gives back the least urgent job for one that is more urgent by 100, and not for less", async (site) => {
    const low = await site.script([], "echo low; sleep 60");
    const worker = await site.workerReady("--slots", "1", "--preempt", "--grace", "1s");
    await site.childOf(low);
    const short_of_it = await site.script(["-p", "99"], "true");
    const urgent = await site.script(["-p", "100"], "true");
    await until("both are done", async () => (await site.job(short_of_it)).state === "completed");
    const [given_back, first, second] = [await site.job(low), await site.job(urgent), await site.job(short_of_it)];
    expect(given_back.history[0]).toMatchObject({ cause: "returned" });
    expect(given_back.retries_left).toBe(3);
    expect(first).toMatchObject({ state: "completed", attempts: 1 });
    expect(Date.parse(first.started_at ?? "")).toBeLessThanOrEqual(Date.parse(second.started_at ?? ""));
    await worker.end("SIGQUIT");
  });

  scenario("leaves alone what is less than 100 below, and without the flag anything", async (site) => {
    for (const [flags, priority] of [
      [["--preempt"], "99"],
      [[], "1000"],
    ] as const) {
      const low = await site.script([], "echo low; sleep 60");
      const worker = await site.workerReady("--poll", "50ms", ...flags);
      await site.childOf(low);
      const waits = await site.script(["-p", priority], "true");
      await Bun.sleep(500);
      expect([(await site.job(low)).state, (await site.job(waits)).state]).toEqual(["running", "pending"]);
      await worker.end("SIGQUIT");
      await site.run(["cancel", String(low), String(waits)]);
    }
  });
});
