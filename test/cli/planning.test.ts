/** Planning work through the compiled program: the same on both engines, with workers that end, are stopped and are killed. */

import { expect, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { onEachEngine } from "./engines.ts";
import { environment, expectRefusal, LEASE, until, type JobJson, type Place } from "./lease.ts";

const words = (line: string) => line.split(" ").filter((word) => word !== "");
const has = (place: Place, name: string) => existsSync(join(place.folder, name));
const linesOf = (place: Place, name: string) =>
  has(place, name) ? readFileSync(join(place.folder, name), "utf8").trim().split("\n") : [];
/** A line that says that it began, and goes on until somebody writes `go`. */
const holding = (file: string) => `echo begun >> ${file}; until [ -e go ]; do sleep 0.05; done`;
const letGo = (place: Place) => writeFileSync(join(place.folder, "go"), "");

/** One that goes on; `end` waits until it is gone. */
function start(place: Place, line: string) {
  const env = environment(place.env);
  const child = Bun.spawn([LEASE, ...words(line)], { cwd: place.folder, env, stdout: "ignore", stderr: "ignore" });
  const end = async (signal: NodeJS.Signals = "SIGQUIT") => {
    child.kill(signal);
    return child.exited;
  };
  return { child, end };
}

/** Runs `body` beside it, and ends it however that went. */
async function beside(place: Place, line: string, body: () => Promise<void>): Promise<void> {
  const { end } = start(place, line);
  try {
    await body();
  } finally {
    await end();
  }
}

async function list(place: Place): Promise<JobJson[]> {
  const { stdout } = await place.lease("inspect", "jobs", "--json");
  return stdout
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as JobJson)
    .toSorted((a, b) => a.id - b.id);
}

async function becomes(place: Place, look: (jobs: JobJson[]) => boolean): Promise<JobJson[]> {
  for (const late_ms = performance.now() + 25_000; performance.now() < late_ms;) {
    const jobs = await list(place);
    if (look(jobs)) return jobs;
  }
  throw new Error(`it did not happen: ${JSON.stringify(await list(place))}`);
}

const states = (jobs: readonly JobJson[]) => jobs.map(({ state }) => state);

onEachEngine("planning work", (newPlace) => {
  test("a schedule is set, shown, run now, paused, fired by worker and watchdog, and removed", async () => {
    const p = await newPlace();
    const set = await p.lease("schedule", "tick", "--every", "1s", "--overlap", "queue", "-c", "echo $LEASE_SCHEDULE");
    expect(set).toMatchObject({ code: 0, stderr: "" });
    expect(set.stdout.match(/\((?:now|in .*s)\)/g)).toHaveLength(5);
    expect((await p.lease("schedule", "tick", "--now")).stdout).toBe("1\n");
    await beside(p, "worker", async () => {
      await becomes(p, (jobs) => jobs.filter(({ state }) => state === "completed").length >= 3);
    });
    expect(await p.log(2)).toBe("tick\n");
    expect((await p.lease("schedule", "tick", "--pause")).code).toBe(0);
    const before = (await list(p)).length;
    expect((await p.lease("watchdog", "--once")).code).toBe(0);
    expect(await list(p)).toHaveLength(before);
    expect((await p.lease("schedule", "tick", "--resume")).code).toBe(0);
    while ((await list(p)).length === before) expect((await p.lease("watchdog", "--once")).code).toBe(0);
    expect((await p.lease("schedule")).stdout).toMatch(/tick +every 1s/);
    expect((await p.lease("schedule", "tick", "--remove")).code).toBe(0);
    expectRefusal(await p.lease("schedule", "tick", "--now"), 1, "there is no schedule tick");
  });

  test("a limit holds, says so, and takes effect below what runs as that ends", async () => {
    const p = await newPlace();
    expect((await p.lease("limit", "few", "2")).code).toBe(0);
    for (let n = 0; n < 4; n++) await p.enqueue("--limit", "few", "-c", holding("begun"));
    await beside(p, "worker -j 4", async () => {
      await until(() => linesOf(p, "begun").length === 2);
      const jobs = await becomes(p, (all) => all[3]?.reason === "limit few 2 of 2, next when one ends");
      expect(states(jobs)).toEqual(["running", "running", "pending", "pending"]);
      const lower = await p.lease("limit", "few", "1");
      expect(lower).toMatchObject({ code: 0, stderr: "lease: 2 run now: the limit takes effect as they end\n" });
      expect((await p.lease("limit")).stdout).toMatch(/few +2 of 1 +2/);
      letGo(p);
      await becomes(p, (all) => all.every(({ state }) => state === "completed"));
    });
    const starts = (await list(p)).slice(2).map((job) => [job.started_at, job.finished_at] as [string, string]);
    expect((starts[1] as [string, string])[0] >= (starts[0] as [string, string])[1]).toBe(true);
    expect((await p.lease("limit", "few", "none")).stdout).toBe("few has no limit now\n");
    expectRefusal(await p.lease("limit", "few", "none"), 1, "there is no limit few");
    expectRefusal(await p.lease("limit", "few", "1", "--rate", "0/1m"), 2, "is not a rate from 1");
  });

  test("a rate lets so many start, and says when the next may", async () => {
    const p = await newPlace();
    await p.lease("limit", "api", "--rate", "2/1h");
    for (let n = 0; n < 3; n++) await p.enqueue("--limit", "api", "--", "true");
    await beside(p, "worker -j 3", async () => {
      const jobs = await becomes(p, (all) => states(all.slice(0, 2)).every((state) => state === "completed"));
      expect(jobs[2]).toMatchObject({
        state: "pending",
        reason: expect.stringMatching(/^limit api 2 of 2\/1h, next in/),
      });
    });
  });

  test("an id of a resource is given again when whoever had it is dead, also after SIGKILL", async () => {
    const p = await newPlace();
    const alone = 'exec 9>"lock-$LEASE_NEED_GPU"; flock -n 9 || echo two >> broken; echo "$LEASE_NEED_GPU" >> ids';
    await p.enqueue("--need", "gpu", "-c", `${alone}; ${holding("begun")}`);
    await p.enqueue("--need", "gpu", "-c", alone);
    await p.enqueue("--need", "gpu=9", "--", "true");
    await p.enqueue("--need", "tpu", "--", "true");
    const first = start(p, "worker -j 2 --have gpu=7,");
    await until(() => has(p, "begun"));
    const reasons = (await becomes(p, (all) => all[1]?.reason?.startsWith("needs") === true)).map(
      ({ reason }) => reason,
    );
    expect(reasons.slice(1)).toEqual([
      "needs gpu, 0 of 1 free on any worker",
      "needs gpu=9, and no worker has more than 1",
      "needs tpu, and no worker has tpu",
    ]);
    await first.end("SIGKILL");
    letGo(p);
    await beside(p, "worker -j 2 --have gpu=7,", async () => {
      await becomes(p, (all) => all.slice(0, 2).every(({ state }) => state === "completed"));
    });
    expect(linesOf(p, "ids")).toEqual(["7", "7", "7"]);
    expect(has(p, "broken")).toBe(false);
  });

  test("jobs wait for success, failure or the end of others and of a task; the graph shows it", async () => {
    const p = await newPlace();
    const build = await p.enqueue("-t", "rel", "--", "true");
    const check = await p.enqueue("-t", "rel", "--after", String(build), "--retries", "0", "--", "false");
    const alarm = await p.enqueue("-t", "rel", "--after-failed", String(check), "--", "true");
    const never = await p.enqueue("-t", "rel", "--after-failed", String(build), "--", "true");
    const clean = await p.enqueue("-t", "rel", "--after-any", String(never), "--", "true");
    const all = await p.enqueue("--after-task", "rel", "--", "true");
    const line = JSON.stringify({ argv: ["true"], after_failed: [check], after_any: [build], limit: ["few"] });
    expect(await p.leaseWith({ stdin: `${line}\n` }, "enqueue", "--from", "-")).toMatchObject({
      code: 0,
      stdout: "7\n",
    });
    expect((await p.lease("inspect", "rel")).stdout).toContain("└─ 5 blocked");
    expect(await p.work("-j", "2")).toBe(1);
    const ended = { [build]: "completed", [check]: "failed", [alarm]: "completed", [never]: "cancelled" };
    const found = Object.fromEntries((await list(p)).map(({ id, state }) => [id, state]));
    expect(found).toEqual({ ...ended, [clean]: "completed", [all]: "cancelled", 7: "completed" } as never);
    const graph = JSON.parse((await p.lease("inspect", "rel", "--json")).stdout) as { critical_path: number[] };
    expect(graph.critical_path[0]).toBe(build);
    expect((await p.lease("inspect", "rel")).stdout).toMatch(/longest way so far: 1 → /);
    expectRefusal(await p.lease("enqueue", "--after-failed", "99", "--", "true"), 2, "there is no job 99 to wait for");
    expectRefusal(await p.lease("enqueue", "--after-task", "no", "--", "true"), 2, "there is no job of task no");
  });

  test("an array is a job per number, and a cascade cancels what waits in any way", async () => {
    const p = await newPlace();
    const { stdout } = await p.lease("enqueue", "--array", "2-6:2", "-t", "a", "-c", "echo $LEASE_ARRAY_INDEX {}");
    expect(stdout).toBe("1\n2\n3\n");
    await p.enqueue("--after-any", "1", "--", "true");
    await p.enqueue("--after-failed", "4", "--", "true");
    const cancelled = await p.lease("cancel", "1", "--cascade");
    expect(cancelled).toMatchObject({ code: 0, stdout: "1 cancelled\n4 cancelled\n5 cancelled\n" });
    expect((await p.inspect(5)).reason).toBe("cancelled along with job 1");
    expect(await p.work()).toBe(0);
    expect(await p.log(3)).toBe("6 6\n");
  });

  test("a hook is tried until its receiver is there, told once, and not when it does not exist", async () => {
    const p = await newPlace();
    const hook =
      '[ -e up ] || { touch up; exit 1; }; echo "$LEASE_FAILED_JOB $LEASE_FAILED_CAUSE" >> told; cat >> told';
    await p.enqueue("--retries", "0", "--on-failed", hook, "-c", "echo one; exit 3");
    await p.enqueue("--retries", "0", "--on-failed", "./no-such-hook", "--", "false");
    await beside(p, "worker -j 2", async () => {
      await until(() => linesOf(p, "told").length === 2);
      await becomes(p, (jobs) => jobs.some(({ argv, attempts }) => argv[2] === "./no-such-hook" && attempts >= 1));
    });
    expect(linesOf(p, "told")).toEqual(["1 exit", "one"]);
    const jobs = await list(p);
    expect(states(jobs.slice(0, 2))).toEqual(["failed", "failed"]);
    expect(jobs).toHaveLength(4);
    expect(jobs.find(({ argv }) => argv[2] === "./no-such-hook")?.retries).toBe(10);
  });

  test("a job that waits is edited, one that runs is not", async () => {
    const p = await newPlace();
    await p.enqueue("-c", holding("begun"));
    await p.enqueue("--", "true");
    await p.enqueue("--", "true");
    await beside(p, "worker", async () => {
      await until(() => has(p, "begun"));
      expectRefusal(await p.lease("edit", "1", "--priority", "5"), 1, "job 1 is running: only jobs that wait");
      expect((await p.lease("edit", "3", "--priority", "5", "--retries", "0")).stdout).toBe("3 changed\n");
      expect((await p.lease("edit", "2", "--delay", "1h")).code).toBe(0);
      expectRefusal(await p.lease("edit", "2", "--after", "2"), 2, "job 2 can't wait for itself");
      letGo(p);
      const jobs = await becomes(p, (all) => all[2]?.state === "completed");
      expect(states(jobs)).toEqual(["completed", "scheduled", "completed"]);
    });
  });

  test("with --aging a job that has waited goes before one that is more urgent and new", async () => {
    const p = await newPlace();
    await p.enqueue("--priority", "9", "-c", holding("begun"));
    await p.enqueue("-c", "echo old >> ran");
    await beside(p, "worker --aging 1s", async () => {
      await until(() => has(p, "begun"));
      await becomes(p, (jobs) => (jobs[1]?.priority ?? 0) >= 2);
      await p.enqueue("--priority", "1", "-c", "echo new >> ran");
      letGo(p);
      await until(() => linesOf(p, "ran").length === 2);
    });
    expect(linesOf(p, "ran")).toEqual(["old", "new"]);
    expectRefusal(await p.lease("worker", "--aging", "10ms"), 2, "--aging must be at least 1s");
  });

  test("doctor names a limit that nobody uses and a need that nobody has", async () => {
    const p = await newPlace();
    await p.lease("limit", "unused", "1");
    await p.enqueue("--need", "tpu", "--", "true");
    const { stdout } = await p.lease("doctor");
    expect(stdout).toContain("nothing counts for limit unused");
    expect(stdout).toContain("1 job needs more tpu than any live worker has");
  });
});
