/** Watchdogs, as cron starts them: any number at once, on what others left behind. */

import { Database } from "bun:sqlite";
import { describe, expect } from "bun:test";
import type { SweepCounts } from "../../src/core/records.ts";
import { newJob } from "../support/jobs.ts";
import { BINARY, scenario, type Site } from "../support/process.ts";

const LEASE_MS = 60_000;

/** Jobs that a worker on another machine holds; nobody here can tell whether it lives. */
async function heldElsewhere(site: Site, count: number, retries = 3): Promise<number[]> {
  const job = newJob({ argv: ["true"], cwd: site.folder, settings: { retries } });
  const queued = await site.store.enqueue(Array.from({ length: count }, () => job));
  const request = { holder: "elsewhere.1.aaaaaa", host: "elsewhere", queues: ["default"], task: null };
  await site.store.acquire({ ...request, count, lease_ms: LEASE_MS });
  return queued.map(({ id }) => id);
}

/** As if so much time had passed since the leases ended. */
function endLeases(site: Site, ago_ms: number): void {
  const database = new Database(site.location);
  database.run("UPDATE jobs SET expires_at_ms = ? WHERE state = 'running'", [Date.now() - ago_ms]);
  database.close();
}

async function sweep(site: Site, ...flags: string[]): Promise<SweepCounts> {
  const { code, stdout } = await site.run(["watchdog", "--once", "--json", ...flags]);
  expect(code).toBe(0);
  return JSON.parse(stdout) as SweepCounts;
}

describe("ten watchdogs at once", () => {
  scenario(
    "recover each of 1,000 expired jobs exactly once",
    async (site) => {
      await heldElsewhere(site, 1_000);
      endLeases(site, 3_600_000);
      const sweeps = await Promise.all(Array.from({ length: 10 }, () => sweep(site)));
      const sum = (name: keyof SweepCounts) => sweeps.reduce((total, counts) => total + counts[name], 0);
      expect({ recovered: sum("recovered"), failed: sum("failed"), errors: sum("errors") }).toEqual({
        recovered: 1_000,
        failed: 0,
        errors: 0,
      });
      expect(sum("checkpoints_created")).toBe(1_000);
      expect(await site.store.counts()).toEqual([{ queue: "default", state: "pending", count: 1_000 }]);
      expect(await site.store.recovery()).toMatchObject({ recovered: 1_000 });
      expect((await site.worker("--until-empty", "-j", "4").ended).code).toBe(0);
      const database = new Database(site.location, { readonly: true });
      const attempts =
        "SELECT count(*) AS n FROM (SELECT job_id FROM attempts GROUP BY job_id HAVING max(attempt) >= 2)";
      expect(database.query(attempts).get()).toEqual({ n: 1_000 });
      const successes = "SELECT count(*) AS n FROM attempts WHERE cause = 'success'";
      expect(database.query(successes).get()).toEqual({ n: 1_000 });
      database.close();
    },
    90_000,
  );
});

describe("a watchdog", () => {
  scenario("waits for lease and grace where the holder is on another machine", async (site) => {
    const [id = 0] = await heldElsewhere(site, 1);
    expect(await sweep(site)).toMatchObject({ expired_found: 0 });
    endLeases(site, 5_000);
    expect(await sweep(site, "--grace", "1m")).toMatchObject({ expired_found: 0 });
    expect(await sweep(site, "--grace", "2s")).toMatchObject({ expired_found: 1, recovered: 1 });
    expect(await site.job(id)).toMatchObject({ state: "pending", cause: "expired", retries_left: 2 });
  });

  scenario("does not wait where the holder was on this machine and is gone", async (site) => {
    const id = await site.script([], "while :; do sleep 0.05; done");
    const worker = await site.workerReady();
    await site.childOf(id);
    worker.signal("SIGKILL");
    await worker.ended;
    expect(await sweep(site)).toMatchObject({ expired_found: 1, recovered: 1, orphans_killed: 1 });
    expect(await site.job(id)).toMatchObject({ state: "pending", cause: "lost" });
    await site.gone(id);
  });

  scenario("fails a job that has run out of retries, and keeps the trail of each expiry", async (site) => {
    const [id = 0] = await heldElsewhere(site, 1, 1);
    for (const found of ["recovered", "failed"]) {
      endLeases(site, 3_600_000);
      expect(await sweep(site)).toMatchObject({ expired_found: 1, [found]: 1 });
      const request = { holder: "elsewhere.2.bbbbbb", host: "elsewhere", queues: ["default"], task: null };
      await site.store.acquire({ ...request, count: 1, lease_ms: LEASE_MS });
    }
    const job = await site.job(id);
    expect(job).toMatchObject({ state: "failed", cause: "expired" });
    expect(job.error).toContain("max retries exceeded");
    expect((await site.errors(id)).map(({ cause, token }) => [cause, token])).toEqual([
      ["expired", 1],
      ["expired", 2],
    ]);
  });

  scenario("keeps no trail where none is wanted", async (site) => {
    const [id = 0] = await heldElsewhere(site, 1);
    endLeases(site, 3_600_000);
    expect(await sweep(site, "--no-checkpoints")).toMatchObject({ recovered: 1, checkpoints_created: 0 });
    expect(await site.errors(id)).toEqual([]);
  });

  scenario("deletes old jobs only when it is told an age", async (site) => {
    const id = await site.enqueue([], "true");
    await site.worker("--until-empty").ended;
    await sweep(site);
    await sweep(site, "--prune", "1h");
    expect(await site.job(id)).toMatchObject({ state: "completed" });
    await sweep(site, "--prune", "0s");
    expect(await site.store.jobs([id])).toEqual([null]);
  });

  scenario("as a service sweeps again and again, and ends well when it is told to", async (site) => {
    const watchdog = site.start(["watchdog", "--every", "1s", "--grace", "0", "--json"]);
    await watchdog.line(/"expired_found":0/);
    await heldElsewhere(site, 1);
    endLeases(site, 1_000);
    await watchdog.line(/"recovered":1/);
    expect((await watchdog.end("SIGTERM")).code).toBe(0);
  });

  scenario("says with 125 that it could not sweep", async (site) => {
    const { code, stderr } = await site.spawn([BINARY, "watchdog", "--once", "--store", site.folder]).ended;
    expect({ code, stderr }).toEqual({ code: 125, stderr: expect.stringContaining("is a folder") });
  });
});
