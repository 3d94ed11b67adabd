/** The fence reaches the whole tree: a job's processes that left its group, session and environment, and frozen workers. */

import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { cgroupFolders, hasCgroups } from "../../src/platform/cgroup.ts";
import { alive, BESIDE, escaped, escapeTest, isRunning } from "./escaped.ts";
import { BINARY, inSite, until } from "../support/process.ts";

const possible = hasCgroups();
if (!possible) console.warn("SKIPPED: test/chaos/fence.test.ts needs a cgroup v2 that we may divide");

const WITHIN_MS = 30_000;

/** Leaves a process that nothing points back from: another session, another group, an empty environment. */
const ESCAPE = `env -i /usr/bin/setsid /bin/sh -c 'echo $$ >> escaped; exec sleep 300' & until [ -s escaped ]; do sleep 0.01; done`;

const scenario = escapeTest(possible);

describe("a process that left its job's group, session and environment", () => {
  scenario("is stopped with the job when that is cancelled", async (site) => {
    const id = await site.script([], `${ESCAPE}; echo ready; exec sleep 300`);
    const worker = await site.workerReady("--once");
    await until("it has escaped", async () => alive(site).length === 1);
    await site.childOf(id);
    expect((await site.run(["cancel", String(id)])).code).toBe(0);
    await worker.ended;
    expect(alive(site)).toEqual([]);
    expect(await site.job(id)).toMatchObject({ state: "cancelled" });
  });

  scenario("is dead before the job is given back, also by a sweep that sees no control groups", async (site) => {
    // The worker dies before it could tell anybody what it had started, and nothing leads from the job to what escaped.
    const id = await site.script(["--lease", "1m"], `(${ESCAPE}); kill -KILL $PPID; exec sleep 300`);
    expect((await site.run(["worker", "--once", "--no-sweep"])).signal).toBe("SIGKILL");
    expect(alive(site)).toHaveLength(1);
    const blind = ["unshare", "--mount", "sh", "-c", 'umount -a -t cgroup2 && exec "$@"', "sh"];
    const sweep = [BINARY, "watchdog", "--once", "--json", "--store", site.location];
    expect(await site.spawn([...blind, ...sweep]).ended).toMatchObject({ code: 0 });
    expect({ alive: alive(site), state: (await site.job(id)).state }).toEqual({ alive: [], state: "pending" });
  });

  scenario("is dead before the next attempt of a job that failed", async (site) => {
    const id = await site.script(["--retries", "1", "--backoff", "none"], `${BESIDE}; ${ESCAPE}; exit 3`);
    expect((await site.run(["worker", "--until-empty"])).code).toBe(1);
    expect(await site.job(id)).toMatchObject({ state: "failed", attempts: 2 });
    expect([escaped(site).length >= 2, site.lines("beside"), alive(site)]).toEqual([true, [], []]);
  });

  scenario("is found after a worker that was killed, and is dead before the job runs again", async (site) => {
    const script = `${BESIDE}; if [ $LEASE_ATTEMPT = 1 ]; then ${ESCAPE}; echo ready; exec sleep 300; fi`;
    const id = await site.script([], script);
    const worker = await site.workerReady();
    await until("it has escaped", async () => alive(site).length === 1);
    worker.signal("SIGKILL");
    await worker.ended;
    expect((await site.run(["worker", "--until-empty"])).code).toBe(0);
    expect(await site.job(id)).toMatchObject({ state: "completed", attempts: 2 });
    expect([site.lines("beside"), alive(site)]).toEqual([[], []]);
  });

  scenario("may live on when its job ended well, until that is to run again", async (site) => {
    const id = await site.script([], ESCAPE);
    expect((await site.run(["worker", "--until-empty"])).code).toBe(0);
    expect(alive(site)).toHaveLength(1);
    const first = alive(site);
    expect((await site.run(["retry", String(id)])).code).toBe(0);
    expect((await site.run(["worker", "--until-empty"])).code).toBe(0);
    expect(alive(site)).not.toEqual(expect.arrayContaining(first));
  });

  test.skipIf(!possible)("costs nothing afterwards: a worker leaves no control groups behind", () =>
    inSite(async (site) => {
      for (let index = 0; index < 5; index++) await site.enqueue([], "true");
      expect((await site.run(["worker", "--until-empty", "-j", "2"])).code).toBe(0);
      const id = await site.store.storeId();
      expect(cgroupFolders("lease-").filter((folder) => folder.endsWith(id))).toEqual([]);
    }),
  );
});

test("doctor says which fence is in force", () =>
  inSite(async (site) => {
    await site.enqueue([], "true");
    const value = possible ? /^cgroup v2/ : /^process group and marks/;
    const { findings } = JSON.parse((await site.run(["doctor", "--json"])).stdout);
    expect(findings).toContainEqual(expect.objectContaining({ name: "fence", value: expect.stringMatching(value) }));
  }));

describe("a worker that is stopped by a signal", () => {
  const killed = () =>
    inSite(async (site) => {
      const beat = "while :; do echo beat; date +%s%N >> beats; sleep 0.05; done";
      const id = await site.script(["--lease", "2s", "--retries", "0"], beat);
      const worker = await site.workerReady("--once");
      const pid = await site.childOf(id);
      await until("it beats", async () => site.lines("beats").length > 20);
      await site.freeze(worker);
      await until("its job is dead", async () => !isRunning(pid));
      const [job] = await site.store.jobs([id]);
      const last_beat_ms = Number(BigInt(site.lines("beats").at(-1) ?? "0") / 1_000_000n);
      expect(job?.state.name).toBe("running");
      if (job?.state.name === "running") expect(last_beat_ms).toBeLessThanOrEqual(job.state.expires_at_ms);
      worker.signal("SIGCONT");
      await worker.ended;
      expect((await site.job(id)).state).not.toBe("completed");
    });
  test("has its job killed before the lease is over, and does not count it as a success", killed, WITHIN_MS);
});

describe("a worker that was killed", () => {
  test("has its temporary folders removed by the next sweep on the machine", () =>
    inSite(async (site) => {
      const scratch = `${site.location}-scratch`;
      const id = await site.script([], "echo ready; exec sleep 300");
      const worker = await site.workerReady();
      await site.childOf(id);
      await until("its folders are there", async () =>
        existsSync(join(scratch, readdirSync(scratch)[0] ?? "", "enforcer")),
      );
      await worker.end("SIGKILL");
      expect((await site.run(["watchdog", "--once"])).code).toBe(0);
      expect([existsSync(scratch), readdirSync(site.path("tmp"))]).toEqual([false, []]);
    }));
});
