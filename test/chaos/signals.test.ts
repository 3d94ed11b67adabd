/** A worker that is told to end, or to stop: what becomes of its job, and with what code it ends. */

import { describe, expect } from "bun:test";
import process from "node:process";
import { BINARY, scenario, until } from "../support/process.ts";

const UNTIL_END = "echo ready > ready; until [ -e end ]; do sleep 0.01; done";

describe("a worker that is told to end", () => {
  scenario("by HUP, as when its ssh session is closed, lets the job end", async (site) => {
    const id = await site.script(["--retries", "0"], UNTIL_END);
    const worker = await site.workerReady();
    await site.childOf(id);
    worker.signal("SIGHUP");
    await worker.line(/draining/);
    await Bun.write(site.path("end"), "");
    expect(await worker.ended).toMatchObject({ code: 0, signal: null });
    expect(await site.job(id)).toMatchObject({ state: "completed", attempts: 1 });
  });

  for (const [signal, code] of [
    ["SIGTERM", 143],
    ["SIGHUP", 129],
    ["SIGINT", 130],
    ["SIGQUIT", 131],
  ] as const) {
    scenario(`by ${signal} with work left ends --until-empty with ${code}, not as if all were done`, async (site) => {
      const id = await site.script([], "exec sleep 60");
      const worker = site.worker("--until-empty", "--drain", "0");
      await site.childOf(id);
      worker.signal(signal);
      expect(await worker.ended).toMatchObject({ code, signal: null });
      expect(await site.job(id)).toMatchObject({ state: "pending" });
    });
  }

  scenario("by TERM ends --until-empty with 0 when all was done after all", async (site) => {
    const id = await site.script([], UNTIL_END);
    const worker = site.worker("--until-empty");
    await site.childOf(id);
    worker.signal("SIGTERM");
    await worker.line(/draining/);
    await Bun.write(site.path("end"), "");
    expect(await worker.ended).toMatchObject({ code: 0 });
  });
});

describe("a worker that is told to stop by Ctrl-Z", () => {
  scenario("refuses, because its jobs would run on without it", async (site) => {
    const id = await site.script([], UNTIL_END);
    const worker = await site.workerReady("--once");
    await site.childOf(id);
    worker.signal("SIGTSTP");
    await worker.line(/not stopped: jobs would run on without their worker/);
    await Bun.write(site.path("end"), "");
    expect((await worker.ended).code).toBe(0);
  });
});

describe("a worker whose terminal is stopped by Ctrl-S", () => {
  scenario(
    "works on: its leases are extended, its job is not lost, and the log says what it left out",
    async (site) => {
      const id = await site.script(
        ["--lease", "2s", "--retries", "0"],
        "for i in $(seq 50); do echo $i; sleep 0.1; done",
      );
      const last = await site.script([], "until [ -e end ]; do echo; sleep 0.05; done");
      let shown = "";
      const child = Bun.spawn([BINARY, "worker", "-v", "--until-empty", "--store", site.location], {
        cwd: site.folder,
        env: { ...process.env, NO_COLOR: "1", TERM: "xterm" },
        terminal: { cols: 80, rows: 24, data: (_terminal, bytes) => void (shown += new TextDecoder().decode(bytes)) },
      });
      await site.childOf(id);
      child.terminal?.write("\u0013");
      await site.reaches(id, "completed", { within_ms: 20_000 });
      child.terminal?.write("\u0011");
      const told = /lines? of the log (is|are) not shown: this terminal was stopped/;
      await until("it says what it left out", () => told.test(shown));
      await Bun.write(site.path("end"), "");
      await site.reaches(last, "completed");
      expect(await child.exited).toBe(0);
      expect(await site.job(id)).toMatchObject({ state: "completed", attempts: 1 });
    },
  );
});
