/** How a worker leaves: it finishes or returns what it runs, and nothing of it stays behind. */

import { describe, expect } from "bun:test";
import { scenario } from "../support/process.ts";
import type { Ended, Program } from "../support/process.ts";

const FOREVER = "while :; do echo tick; sleep 0.1; done";
const DEAF = `trap "" TERM; echo deaf; ${FOREVER}`;

async function timed(program: Program, signal: NodeJS.Signals): Promise<Ended & { took_ms: number }> {
  const from_ms = performance.now();
  const ended = await program.end(signal);
  return { ...ended, took_ms: performance.now() - from_ms };
}

describe("a worker that is asked to end", () => {
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    scenario(
      `by ${signal} returns a long job: pending, nothing counted against it, nothing left running`,
      async (site) => {
        const id = await site.script(["--retries", "2"], FOREVER);
        const worker = await site.workerReady("--drain", "1s");
        await site.childOf(id);
        const ended = await timed(worker, signal);
        expect(ended.code).toBe(0);
        expect(ended.took_ms).toBeGreaterThan(1_000);
        expect(ended.took_ms).toBeLessThan(4_000);
        const job = await site.job(id);
        expect(job).toMatchObject({ state: "pending", attempts: 1, retries_left: 2, holder: null });
        expect(job.history[0]).toMatchObject({ cause: "returned", signal: "SIGTERM" });
        expect(job.checkpoints).toEqual([]);
        expect(site.processes(id)).toEqual([]);
        const [record] = await site.store.workers();
        expect(record?.ended).toBe("clean");
      },
    );
  }

  scenario("lets a job end that is done within the drain, keeps its lease, and takes no other", async (site) => {
    const id = await site.script(["--lease", "2s"], "for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done");
    const next = await site.enqueue([], "true");
    const worker = await site.workerReady("--drain", "20s", "--lease", "2s");
    await site.childOf(id);
    const ended = await worker.end();
    expect(ended.code).toBe(0);
    expect(await site.job(id)).toMatchObject({ state: "completed", attempts: 1 });
    expect(await site.job(next)).toMatchObject({ state: "pending", attempts: 0 });
  });

  scenario("kills a job that ignores TERM after the grace, and returns it", async (site) => {
    const id = await site.script([], DEAF);
    const worker = await site.workerReady("--drain", "500ms", "--grace", "1s");
    await site.childOf(id);
    const { code, took_ms } = await timed(worker, "SIGTERM");
    expect(code).toBe(0);
    expect(took_ms).toBeGreaterThan(1_500);
    expect(took_ms).toBeLessThan(5_000);
    expect((await site.job(id)).history[0]).toMatchObject({ cause: "returned", signal: "SIGKILL" });
    expect(site.processes(id)).toEqual([]);
  });

  scenario("does not count a returned attempt: without any retries the job still runs again", async (site) => {
    const id = await site.script(["--retries", "0"], `[ "$LEASE_TOKEN" -gt 2 ] && exit 0; ${FOREVER}`);
    for (const token of [1, 2]) {
      const worker = await site.workerReady("--drain", "0s");
      await site.childOf(id, token);
      expect((await worker.end()).code).toBe(0);
      expect(await site.job(id)).toMatchObject({ state: "pending", attempts: token });
    }
    expect((await site.worker("--until-empty").ended).code).toBe(0);
    const job = await site.job(id);
    expect(job.history.map(({ cause }) => cause)).toEqual(["returned", "returned", "success"]);
  });

  scenario("a second time does not wait for the drain", async (site) => {
    const id = await site.script([], FOREVER);
    const worker = await site.workerReady("--drain", "60s");
    await site.childOf(id);
    worker.signal("SIGTERM");
    await Bun.sleep(300);
    expect(worker.over).toBe(false);
    const { code, took_ms } = await timed(worker, "SIGTERM");
    expect(code).toBe(0);
    expect(took_ms).toBeLessThan(3_000);
    expect((await site.job(id)).history[0]).toMatchObject({ cause: "returned" });
  });

  scenario("a second time grants a deaf job one grace, not another one when the drain is over", async (site) => {
    const id = await site.script([], DEAF);
    const worker = await site.workerReady("--drain", "2500ms", "--grace", "3s");
    await site.childOf(id);
    worker.signal("SIGTERM");
    await Bun.sleep(100);
    const { code, took_ms } = await timed(worker, "SIGTERM");
    expect(code).toBe(0);
    expect(took_ms).toBeGreaterThan(3_000);
    expect(took_ms).toBeLessThan(4_500);
    expect((await site.job(id)).history[0]).toMatchObject({ cause: "returned", signal: "SIGKILL" });
  });

  scenario("by SIGQUIT kills and returns everything at once", async (site) => {
    const ids = [await site.script([], DEAF), await site.script([], DEAF)];
    const worker = await site.workerReady("-j", "2", "--drain", "60s", "--grace", "60s");
    for (const id of ids) await site.childOf(id);
    const { code, took_ms } = await timed(worker, "SIGQUIT");
    expect(code).toBe(0);
    expect(took_ms).toBeLessThan(2_000);
    for (const id of ids) {
      const job = await site.job(id);
      expect(job).toMatchObject({ state: "pending", retries_left: 3 });
      expect(job.history[0]).toMatchObject({ cause: "returned", signal: "SIGKILL" });
      expect(site.processes(id)).toEqual([]);
    }
  });

  scenario("by SIGQUIT during the drain does not wait any longer", async (site) => {
    const id = await site.script([], DEAF);
    const worker = await site.workerReady("--drain", "60s", "--grace", "60s");
    await site.childOf(id);
    worker.signal("SIGTERM");
    worker.signal("SIGTERM");
    const { code, took_ms } = await timed(worker, "SIGQUIT");
    expect(code).toBe(0);
    expect(took_ms).toBeLessThan(2_000);
    expect((await site.job(id)).history[0]).toMatchObject({ cause: "returned", signal: "SIGKILL" });
  });

  scenario("with nothing to do is gone at once", async (site) => {
    const worker = await site.workerReady();
    const { code, took_ms } = await timed(worker, "SIGTERM");
    expect(code).toBe(0);
    expect(took_ms).toBeLessThan(2_000);
  });
});
