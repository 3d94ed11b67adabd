/** Proof of work with real children: who prints keeps the lease, who hangs is stopped, whole group and all. */

import { describe, expect } from "bun:test";
import { scenario } from "../support/process.ts";

const HANGS = "echo start; sleep 60";

describe("a job that hangs", () => {
  scenario(
    "is failed within 10 s of a 3 s lease and one retry, both attempts silent, and nothing of it is left alive",
    async (site) => {
      const worker = await site.workerReady();
      const queued_ms = performance.now();
      const id = await site.script(["--lease", "3s", "--retries", "1"], HANGS);
      await worker.line(/silent for 1\.\d*s of 3s.*--lease.*--pty.*--beat timer/);
      const job = await site.reaches(id, "failed", { within_ms: 10_000 });
      expect(performance.now() - queued_ms).toBeLessThan(10_000);
      expect(job).toMatchObject({ cause: "silent", attempts: 2, retries_left: 0 });
      expect(job.history.map(({ cause, last_line }) => ({ cause, last_line }))).toEqual([
        { cause: "silent", last_line: "start" },
        { cause: "silent", last_line: "start" },
      ]);
      expect(site.processes(id)).toEqual([]);
      const errors = await site.errors(id);
      expect(errors.map(({ cause, token, last_lines }) => ({ cause, token, last_lines }))).toEqual([
        { cause: "silent", token: 1, last_lines: ["start"] },
        { cause: "silent", token: 2, last_lines: ["start"] },
      ]);
      expect(await worker.end()).toMatchObject({ code: 0 });
    },
  );

  scenario("runs on under --beat timer, which beats for it while it lives", async (site) => {
    const worker = await site.workerReady();
    const id = await site.script(
      ["--lease", "1s", "--retries", "0", "--beat", "timer"],
      "echo start; sleep 4; echo end",
    );
    const job = await site.reaches(id, "completed");
    expect(job).toMatchObject({ attempts: 1, cause: "success" });
    expect(worker.stderr).not.toContain("silent");
  });

  scenario("is silent under --beat stdout when it prints on stderr alone", async (site) => {
    const flags = ["--lease", "2s", "--retries", "0", "--beat", "stdout"];
    const loud = await site.script(flags, "for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done");
    const quiet = await site.script(flags, "while :; do echo complaint >&2; sleep 0.2; done");
    expect((await site.worker("-j", "2", "--until-empty").ended).code).toBe(1);
    expect(await site.job(loud)).toMatchObject({ state: "completed", attempts: 1 });
    expect(await site.job(quiet)).toMatchObject({ state: "failed", cause: "silent" });
  });

  scenario("is silent under --beat manual whatever it prints, and lives by `lease beat` alone", async (site) => {
    const flags = ["--lease", "2s", "--retries", "0", "--beat", "manual"];
    const beats = await site.script(flags, "for i in 1 2 3 4 5 6 7 8; do lease beat || exit; sleep 0.5; done");
    const prints = await site.script(flags, "while :; do echo busy; sleep 0.2; done");
    expect((await site.worker("-j", "2", "--until-empty").ended).code).toBe(1);
    expect(await site.job(beats)).toMatchObject({ state: "completed", attempts: 1 });
    expect(await site.job(prints)).toMatchObject({ state: "failed", cause: "silent" });
  });
});

describe("a job that prints", () => {
  scenario("each second for ten seconds under --lease 3s completes in one attempt", async (site) => {
    const id = await site.script(["--lease", "3s"], "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 1; done");
    expect((await site.worker("--until-empty").ended).code).toBe(0);
    const job = await site.job(id);
    expect(job).toMatchObject({ state: "completed", attempts: 1 });
    expect(job.history[0]).toMatchObject({ cause: "success", last_line: "10", beats: 10 });
    expect((await site.run(["logs", String(id)])).stdout).toBe("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
  });

  scenario("without ever ending a line keeps its lease all the same", async (site) => {
    const dots = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do printf .; sleep 0.4; done";
    const id = await site.script(["--lease", "2s", "--retries", "0"], dots);
    expect((await site.worker("--until-empty").ended).code).toBe(0);
    const job = await site.job(id);
    expect(job).toMatchObject({ state: "completed", attempts: 1 });
    expect(job.history[0]).toMatchObject({ last_line: "............" });
    expect((await site.run(["logs", String(id)])).stdout.trimEnd()).toBe("............");
  });

  scenario("a progress line with carriage returns keeps its lease", async (site) => {
    const bar = "for i in 1 2 3 4 5 6 7 8; do printf '%s0 %%\\r' $i; sleep 0.5; done";
    const id = await site.script(["--lease", "2s", "--retries", "0"], bar);
    expect((await site.worker("--until-empty").ended).code).toBe(0);
    expect((await site.job(id)).history[0]).toMatchObject({ cause: "success", last_line: "80 %", beats: 8 });
  });

  scenario("is stopped at --timeout, however much it prints", async (site) => {
    const id = await site.script(
      ["--timeout", "1s", "--retries", "0"],
      'trap "echo asked to end; exit 0" TERM; while :; do echo busy; sleep 0.1; done',
    );
    const started_ms = performance.now();
    expect((await site.worker("--until-empty").ended).code).toBe(1);
    expect(performance.now() - started_ms).toBeGreaterThan(1_000);
    const job = await site.job(id);
    expect(job).toMatchObject({ state: "failed", cause: "timeout", attempts: 1 });
    expect((await site.run(["logs", String(id), "--stream", "stdout"])).stdout).toEndWith("busy\nasked to end\n");
    expect(site.processes(id)).toEqual([]);
  });
});
