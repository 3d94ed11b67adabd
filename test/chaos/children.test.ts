/** Children on their bad days: whatever a job's program does, its worker ends it, tells how it ended, and goes on. */

import { describe, expect } from "bun:test";
import { mkdirSync, rmdirSync } from "node:fs";
import { scenario, until } from "../support/process.ts";

const SILENT = ["--lease", "2s", "--retries", "0"];

describe("a child that will not end", () => {
  scenario("because it ignores TERM is killed after the grace", async (site) => {
    const id = await site.script(SILENT, 'trap "" TERM; echo start; while :; do sleep 1; done');
    const started_ms = performance.now();
    expect((await site.worker("--until-empty", "--grace", "1s").ended).code).toBe(1);
    const took_ms = performance.now() - started_ms;
    expect(took_ms).toBeGreaterThan(3_000);
    expect(took_ms).toBeLessThan(8_000);
    const job = await site.job(id);
    expect(job).toMatchObject({ state: "failed", cause: "silent", attempts: 1 });
    expect(job.history[0]).toMatchObject({ cause: "silent", signal: "SIGKILL", last_line: "start" });
    expect(site.processes(id)).toEqual([]);
  });

  scenario("because somebody stopped it with SIGSTOP hears TERM all the same", async (site) => {
    const id = await site.script(SILENT, "while :; do echo tick; sleep 0.1; done");
    const worker = site.worker("--until-empty", "--grace", "20s");
    process.kill(await site.childOf(id), "SIGSTOP");
    expect((await worker.ended).code).toBe(1);
    const job = await site.job(id);
    expect(job).toMatchObject({ state: "failed", cause: "silent", attempts: 1 });
    expect(job.history[0]).toMatchObject({ signal: "SIGTERM", last_line: "tick" });
  });

  scenario("and that goes on after a SIGSTOP shorter than its lease keeps its attempt", async (site) => {
    const ticks = "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 0.2; done";
    const id = await site.script(["--lease", "4s"], ticks);
    const worker = site.worker("--until-empty");
    const child = await site.childOf(id);
    process.kill(child, "SIGSTOP");
    await Bun.sleep(2_000);
    process.kill(child, "SIGCONT");
    expect((await worker.ended).code).toBe(0);
    expect(await site.job(id)).toMatchObject({ state: "completed", attempts: 1 });
  });
});

describe("a child that leaves a grandchild behind", () => {
  scenario("which keeps stdout open completes without waiting for it, and the grandchild is stopped", async (site) => {
    const id = await site.script([], "sleep 300 & echo started");
    const worker = site.worker("--until-empty");
    expect((await worker.ended).code).toBe(0);
    expect(worker.stderr).toContain("left processes behind");
    expect(await site.job(id)).toMatchObject({ state: "completed", attempts: 1, exit_code: 0 });
    expect(site.processes(id)).toEqual([]);
  });

  scenario("which also ignores TERM is not waited for either: the grandchild is killed", async (site) => {
    const id = await site.script([], '(trap "" TERM; echo grandchild; while :; do sleep 1; done) & sleep 0.3; exit 7');
    expect((await site.worker("--once").ended).code).toBe(0);
    expect(await site.job(id)).toMatchObject({ state: "retrying", cause: "exit", exit_code: 7, attempts: 1 });
    expect(site.processes(id)).toEqual([]);
  });

  scenario(
    "in a session of its own completes: what left the job's group on purpose is not waited for",
    async (site) => {
      const id = await site.script([], "setsid sleep 300 & echo $! > daemon; echo started");
      expect((await site.worker("--until-empty").ended).code).toBe(0);
      expect(await site.job(id)).toMatchObject({ state: "completed", attempts: 1 });
      expect((await site.run(["logs", String(id)])).stdout).toBe("started\n");
      const daemon = Number(site.text("daemon"));
      process.kill(daemon, "SIGKILL");
      await until("the daemon is gone", () => site.processes(id).length === 0);
    },
  );
});

describe("a child that closes stdout", () => {
  scenario("and goes on is not over before it ends", async (site) => {
    const id = await site.script(["--lease", "5s"], "echo start; exec >&- 2>&-; sleep 1.5; echo done > proof; exit 0");
    expect((await site.worker("--until-empty").ended).code).toBe(0);
    expect(site.text("proof")).toBe("done\n");
    expect(await site.job(id)).toMatchObject({ state: "completed", attempts: 1 });
  });

  scenario("and goes on for longer than its lease is silent like any other", async (site) => {
    const id = await site.script(SILENT, "echo start; exec >&- 2>&-; sleep 60");
    expect((await site.worker("--until-empty").ended).code).toBe(1);
    const job = await site.job(id);
    expect(job).toMatchObject({ state: "failed", cause: "silent" });
    expect(job.history[0]).toMatchObject({ last_line: "start" });
    expect(site.processes(id)).toEqual([]);
  });
});

describe("what goes in and out", () => {
  scenario("every byte, also what is no UTF-8, comes out of `lease logs` as it went in", async (site) => {
    const all = Uint8Array.from({ length: 64 * 256 }, (_, index) => (index * 7 + (index >> 8)) % 256);
    all[all.length - 1] = 10;
    await Bun.write(site.path("bytes"), all);
    const id = await site.enqueue([], "cat", "bytes");
    expect((await site.worker("--until-empty").ended).code).toBe(0);
    const { bytes, stderr } = await site.run(["logs", String(id)]);
    expect(stderr).toBe("");
    expect(Buffer.compare(bytes, all)).toBe(0);
    // The last line is for people, and says where it could not be read.
    const [attempt] = (await site.job(id)).history;
    expect(attempt?.last_line?.isWellFormed()).toBe(true);
  });

  scenario("input larger than the pipe that nobody reads does not hold the job or its worker up", async (site) => {
    await Bun.write(site.path("input"), "x".repeat(1024 * 1024));
    const input = ["--input", "@input", "--retries", "0"];
    const ends_at_once = await site.enqueue(input, "true");
    const sleeps = await site.script(input, "sleep 0.5; echo done");
    const closes = await site.script(input, "exec <&-; sleep 0.3; echo done");
    const reads = await site.enqueue(input, "wc", "-c");
    const worker = await site.worker("--until-empty").ended;
    expect(worker.code).toBe(0);
    expect(worker.stderr).not.toMatch(/warn|error/);
    for (const id of [ends_at_once, sleeps, closes, reads]) {
      expect(await site.job(id)).toMatchObject({ state: "completed", attempts: 1 });
    }
    expect((await site.run(["logs", String(reads)])).stdout.trim()).toBe("1048576");
  });

  scenario("a working folder that is gone fails the job at once and says which folder", async (site) => {
    mkdirSync(site.path("gone"));
    const id = await site.enqueue(["--cwd", site.path("gone")], "true");
    rmdirSync(site.path("gone"));
    expect((await site.worker("--until-empty").ended).code).toBe(1);
    const job = await site.job(id);
    expect(job).toMatchObject({ state: "failed", cause: "not_found", exit_code: 127, attempts: 1 });
    expect(job.error).toContain(site.path("gone"));
  });

  scenario("a child that dies by a signal is recorded with it", async (site) => {
    const id = await site.script(["--retries", "0"], "echo bye; kill -SEGV $$");
    expect((await site.worker("--until-empty").ended).code).toBe(1);
    const job = await site.job(id);
    expect(job).toMatchObject({ state: "failed", cause: "signal" });
    expect(job.history[0]).toMatchObject({ signal: "SIGSEGV", last_line: "bye" });
  });
});

describe("a job with --pty", () => {
  scenario("sees a terminal on all three streams", async (site) => {
    const id = await site.script(
      ["--pty", "--retries", "0"],
      "test -t 0 && test -t 1 && test -t 2 && tty && echo terminal",
    );
    expect((await site.worker("--until-empty").ended).code).toBe(0);
    expect((await site.run(["logs", String(id)])).stdout).toMatch(/^\/dev\/pts\/\d+\r\nterminal\r\n$/);
  });

  scenario("and without it sees none", async (site) => {
    const id = await site.script(["--retries", "0"], "test ! -t 0 && test ! -t 1 && test ! -t 2 && echo none");
    expect((await site.worker("--until-empty").ended).code).toBe(0);
    expect((await site.run(["logs", String(id)])).stdout).toBe("none\n");
  });

  scenario("reads its input from there, up to the end", async (site) => {
    const id = await site.script(["--pty", "--retries", "0", "--input", "bob\n"], 'stty -echo; echo "dear $(cat)"');
    expect((await site.worker("--until-empty").ended).code).toBe(0);
    expect((await site.run(["logs", String(id)])).stdout).toContain("dear bob");
  });

  scenario("is stopped with its whole group when it hangs", async (site) => {
    const id = await site.script([...SILENT, "--pty"], "echo start; sleep 60");
    const worker = site.worker("--until-empty", "--grace", "1s");
    expect((await worker.ended).code).toBe(1);
    expect(worker.stderr).not.toContain("--pty");
    const job = await site.job(id);
    expect(job).toMatchObject({ state: "failed", cause: "silent" });
    expect(job.history[0]).toMatchObject({ last_line: "start" });
    expect(site.processes(id)).toEqual([]);
  });
});
