/** Cancel with real jobs: waiting ones end at once, running ones are asked, and nothing brings a cancelled one back. */

import { describe, expect } from "bun:test";
import { rmSync } from "node:fs";
import { BINARY, scenario, until } from "../support/process.ts";
import type { Site } from "../support/process.ts";

const FOREVER = "while :; do echo tick; sleep 0.1; done";
const DEAF = `trap "" TERM; echo deaf; ${FOREVER}`;

/** Cancels, and answers how long it took until the job had ended. */
async function cancelled(site: Site, id: number): Promise<number> {
  const asked_ms = performance.now();
  const { code, stdout } = await site.run(["cancel", String(id)]);
  expect({ code, stdout }).toEqual({ code: 0, stdout: `${id} cancelling\n` });
  await site.reaches(id, "cancelled");
  return performance.now() - asked_ms;
}

describe("cancel of a job that waits", () => {
  scenario("ends it at once, whether it is pending, scheduled or blocked", async (site) => {
    const pending = await site.enqueue([], "true");
    const scheduled = await site.enqueue(["--delay", "1h"], "true");
    const blocked = await site.enqueue(["--after", String(scheduled)], "true");
    const answer = await site.run(["cancel", `${pending}-${scheduled}`, "--reason", "wrong branch"]);
    expect(answer).toMatchObject({ code: 0, stdout: `${pending} cancelled\n${scheduled} cancelled\n` });
    expect(await site.job(pending)).toMatchObject({ state: "cancelled", attempts: 0, reason: "wrong branch" });
    expect(await site.job(scheduled)).toMatchObject({ state: "cancelled", attempts: 0 });
    expect(await site.job(blocked)).toMatchObject({ state: "cancelled", attempts: 0 });
    expect((await site.worker("--until-empty").ended).code).toBe(0);
    expect(await site.job(pending)).toMatchObject({ state: "cancelled", attempts: 0 });
  });

  scenario("takes all that a task has, and says when that is nothing", async (site) => {
    const one = await site.enqueue(["-t", "release"], "true");
    const other = await site.enqueue(["-t", "nightly"], "true");
    expect(await site.run(["cancel", "--task", "release"])).toMatchObject({ code: 0, stdout: `${one} cancelled\n` });
    expect(await site.run(["cancel", "--task", "release"])).toMatchObject({ code: 1, stdout: "" });
    expect(await site.job(other)).toMatchObject({ state: "pending" });
  });
});

describe("cancel of a running job", () => {
  scenario("ends it within about a second, by TERM, and it is never tried again", async (site) => {
    const id = await site.script([], `trap 'echo asked; exit 1' TERM; ${FOREVER}`);
    const worker = await site.workerReady();
    await site.childOf(id);
    expect(await cancelled(site, id)).toBeLessThan(2_000);
    const job = await site.job(id);
    expect(job).toMatchObject({ state: "cancelled", cause: "cancelled", attempts: 1, exit_code: 1 });
    expect(job.history[0]).toMatchObject({ cause: "cancelled" });
    expect((await site.run(["logs", String(id), "--stream", "stdout"])).stdout).toEndWith("tick\nasked\n");
    expect(site.processes(id)).toEqual([]);
    expect(worker.stderr).toContain("cancel requested");
    await worker.end();
    expect((await site.worker("--until-empty").ended).code).toBe(0);
    expect(await site.job(id)).toMatchObject({ state: "cancelled", attempts: 1 });
  });

  scenario("ends one that is silent and in --beat timer as fast", async (site) => {
    const id = await site.script(["--beat", "timer"], "sleep 60");
    await site.workerReady();
    await site.childOf(id);
    expect(await cancelled(site, id)).toBeLessThan(2_000);
    expect((await site.job(id)).history[0]).toMatchObject({ cause: "cancelled", signal: "SIGTERM" });
  });

  scenario("kills one that ignores TERM after --grace, and not before", async (site) => {
    const id = await site.script([], DEAF);
    await site.workerReady("--grace", "2s");
    await site.childOf(id);
    const took_ms = await cancelled(site, id);
    expect(took_ms).toBeGreaterThan(2_000);
    expect(took_ms).toBeLessThan(5_000);
    expect((await site.job(id)).history[0]).toMatchObject({ cause: "cancelled", signal: "SIGKILL" });
    expect(site.processes(id)).toEqual([]);
  });

  scenario("covers a grace that is longer than the lease", async (site) => {
    const id = await site.script(["--lease", "1s"], DEAF);
    await site.workerReady("--grace", "3s");
    await site.childOf(id);
    expect(await cancelled(site, id)).toBeGreaterThan(3_000);
    expect((await site.job(id)).history[0]).toMatchObject({ cause: "cancelled", signal: "SIGKILL" });
  });

  scenario("never kills with --grace never, and keeps the lease for as long as it takes", async (site) => {
    const id = await site.script(["--lease", "1s"], 'trap "" TERM; until [ -e done ]; do sleep 0.1; done; exit 0');
    const worker = await site.workerReady("--grace", "never", "--lease", "1s", "--beat", "timer");
    await site.childOf(id);
    expect((await site.run(["cancel", String(id)])).stdout).toBe(`${id} cancelling\n`);
    await worker.line(/cancel requested/);
    await Bun.sleep(3_000);
    expect(await site.job(id)).toMatchObject({ state: "cancelling", attempts: 1 });
    expect(site.processes(id)).not.toEqual([]);
    await Bun.write(site.path("done"), "");
    expect(await site.reaches(id, "cancelled")).toMatchObject({ cause: "cancelled", attempts: 1 });
    expect(worker.stderr).not.toContain("lost its lease");
  });

  scenario(
    "wins over a job that ends well because `lease beat` told it: what waits for it does not run",
    async (site) => {
      const script = `echo go; until [ -e asked ]; do sleep 0.02; done; ${BINARY} beat; [ $? = 3 ] && exit 0; exit 9`;
      for (const flags of [
        ["--grace", "never"],
        ["--grace", "1h"],
      ]) {
        const id = await site.script(flags, `trap "" TERM; ${script}`);
        const child = await site.enqueue(["--after", String(id)], "true");
        const worker = await site.workerReady();
        await site.childOf(id);
        expect((await site.run(["cancel", String(id)])).stdout).toBe(`${id} cancelling\n`);
        await Bun.write(site.path("asked"), "");
        const job = await site.reaches(id, "cancelled");
        expect(job).toMatchObject({ cause: "cancelled", exit_code: 0 });
        expect(await site.job(child)).toMatchObject({ state: "cancelled", attempts: 0 });
        await worker.end();
        rmSync(site.path("asked"));
      }
    },
  );

  scenario("waits for the end with --wait, and gives the grace that it names", async (site) => {
    const id = await site.script([], DEAF);
    await site.workerReady("--grace", "1h");
    await site.childOf(id);
    const asked_ms = performance.now();
    const answer = await site.run(["cancel", String(id), "--grace", "1s", "--wait"]);
    expect(answer).toMatchObject({ code: 0, stdout: `${id} cancelled\n` });
    expect(performance.now() - asked_ms).toBeGreaterThan(1_000);
    expect(site.processes(id)).toEqual([]);
  });

  scenario("and a retry of its task later runs a pipeline in order", async (site) => {
    const log = (what: string) => ["-c", `echo ${what} >> order; [ ${what} != test ] || [ -e good ]`];
    const enqueue = async (what: string, ...flags: string[]) => {
      const { stdout } = await site.run(["enqueue", "-t", "rel", "--retry-on", "lost", ...flags, ...log(what)]);
      return stdout.trim();
    };
    const build = await enqueue("build");
    const test = await enqueue("test", "--after", build);
    const deploy = await enqueue("deploy", "--after", test);
    await site.worker("--until-empty", "-j", "4").ended;
    expect(await site.job(Number(deploy))).toMatchObject({ state: "cancelled" });
    await Bun.write(site.path("good"), "");
    expect((await site.run(["retry", deploy])).stdout).toBe(`${deploy} blocked\n`);
    expect((await site.run(["cancel", deploy])).code).toBe(0);
    const again = await site.run(["retry", "--task", "rel", "--status", "failed,completed,cancelled"]);
    expect(again.stdout).toBe(`${build} pending\n${test} blocked\n${deploy} blocked\n`);
    await site.worker("--until-empty", "-j", "4").ended;
    expect(site.lines("order")).toEqual(["build", "test", "build", "test", "deploy"]);
  });

  scenario("loses to a job that had completed first", async (site) => {
    const id = await site.script([], "until [ -e stopped ]; do sleep 0.05; done; echo done > proof");
    const worker = await site.workerReady();
    await site.childOf(id);
    await site.freeze(worker);
    await Bun.write(site.path("stopped"), "");
    await site.written("proof", /done/);
    await until("the child is over", () => site.processes(id).length === 0);
    expect((await site.run(["cancel", String(id)])).stdout).toBe(`${id} cancelling\n`);
    // Long enough to be told from a busy machine.
    await Bun.sleep(300);
    worker.signal("SIGCONT");
    expect(await site.reaches(id, "completed")).toMatchObject({ cause: "success", exit_code: 0, attempts: 1 });
  });

  scenario("is remembered when its worker dies: it is cancelled, and never retried", async (site) => {
    const id = await site.script([], DEAF);
    const worker = await site.workerReady("--grace", "20s");
    await site.childOf(id);
    await site.run(["cancel", String(id)]);
    await worker.end("SIGKILL");
    const swept = await site.run(["watchdog", "--once", "--json"]);
    expect(JSON.parse(swept.stdout)).toMatchObject({ expired_found: 1, recovered: 0, failed: 0, cancelled: 1 });
    expect(await site.job(id)).toMatchObject({ state: "cancelled", attempts: 1, retries_left: 3 });
    expect(site.processes(id)).toEqual([]);
  });

  scenario("is remembered when the lease expires: it is cancelled, and never retried", async (site) => {
    const id = await site.script([], FOREVER);
    const worker = await site.workerReady("--lease", "2s");
    await site.childOf(id);
    await site.freeze(worker);
    await site.run(["cancel", String(id)]);
    expect(await site.job(id)).toMatchObject({ state: "cancelling" });
    const other = site.worker("--lease", "2s");
    const job = await site.reaches(id, "cancelled");
    expect(job.history.map(({ cause }) => cause)).toEqual(["expired"]);
    expect(site.processes(id)).toEqual([]);
    worker.signal("SIGCONT");
    await worker.line(/too late.*stale/);
    expect(await site.job(id)).toMatchObject({ state: "cancelled", attempts: 1, retries_left: 3 });
    await Promise.all([worker.end(), other.end()]);
  });
});

describe("cancel of a finished or unknown job", () => {
  scenario("exits with 1, says so, and changes nothing", async (site) => {
    const completed = await site.enqueue([], "true");
    const failed = await site.enqueue(["--retries", "0"], "false");
    await site.worker("--until-empty").ended;
    const before = [await site.job(completed), await site.job(failed)];
    const answer = await site.run(["cancel", String(completed), String(failed), "99"]);
    expect(answer).toMatchObject({ code: 1, stdout: "" });
    expect(answer.stderr).toMatch(/job 1 is completed already.*\n.*job 2 is failed already.*\n.*no job 99/);
    expect([await site.job(completed), await site.job(failed)]).toEqual(before);
  });
});
