/** The fence without control groups: a worker adopts what its jobs leave behind, and knows whose it is. */

import { Database } from "bun:sqlite";
import { describe, expect } from "bun:test";
import { existsSync, rmSync } from "node:fs";
import process from "node:process";
import { alive, BESIDE, escapeTest } from "./escaped.ts";
import { BINARY, until, type Program, type Site } from "../support/process.ts";

/** Where no control group can be seen, as in most people's sessions. */
const WITHOUT = ["unshare", "--mount", "sh", "-c", 'umount -a -t cgroup2 && exec "$@"', "sh"];
const possible = Bun.spawnSync([...WITHOUT, "true"], { stderr: "ignore" }).exitCode === 0;
if (!possible) console.warn("SKIPPED: test/chaos/tree.test.ts needs unshare --mount, which takes root");

/** Two forks, another session, another group, an empty environment, no stream of ours, and nobody that it descends from. */
const ESCAPE = `(env -i /usr/bin/setsid /bin/sh -c 'echo $$ >> escaped; exec sleep 300' </dev/null >/dev/null 2>&1 &) ; until [ -s escaped ]; do sleep 0.01; done`;

const worker = (site: Site, ...flags: string[]): Program =>
  site.spawn([...WITHOUT, BINARY, "worker", "--store", site.location, ...flags]);

const scenario = escapeTest(possible);

describe("without control groups a process that left its job's group, session, environment and parent", () => {
  scenario("is stopped with the job when that is cancelled", async (site) => {
    const id = await site.script([], `${ESCAPE}; echo ready; exec sleep 300`);
    const running = worker(site, "--once");
    await until("it has escaped", () => alive(site).length === 1);
    await site.childOf(id);
    expect((await site.run(["cancel", String(id)])).code).toBe(0);
    await running.ended;
    expect(alive(site)).toEqual([]);
    expect(await site.job(id)).toMatchObject({ state: "cancelled" });
  });

  scenario("is dead before the next attempt of a job that failed", async (site) => {
    const id = await site.script(["--retries", "2", "--backoff", "none"], `${BESIDE}; ${ESCAPE}; exit 3`);
    expect((await worker(site, "--until-empty").ended).code).toBe(1);
    expect(await site.job(id)).toMatchObject({ state: "failed", attempts: 3 });
    expect([site.lines("beside"), alive(site)]).toEqual([[], []]);
  });

  scenario("may live on when its job ended well, and costs another job that fails nothing", async (site) => {
    await site.script([], ESCAPE);
    await site.script(["--retries", "0"], "sleep 0.1; exit 3");
    await worker(site, "--until-empty").ended;
    expect(alive(site)).toHaveLength(1);
  });

  scenario("is told apart from that of another job which runs beside it", async (site) => {
    const [stays, goes] = ["stays", "goes"].map((name) => ESCAPE.replaceAll("escaped", name)) as [string, string];
    const mark = "until [ -e end ]; do echo; sleep 0.05; done";
    await site.script([], `env -i /usr/bin/setsid /bin/sh -c 'echo $$ >> stays; sleep 300' & sleep 0.4; ${mark}`);
    const failing = await site.script(["--retries", "0"], `${goes}; sleep 0.4; exit 3`);
    const running = worker(site, "--until-empty", "-j", "2");
    await site.reaches(failing, "failed");
    const lives = (name: string) =>
      site
        .lines(name)
        .map(Number)
        .map((pid) => existsSync(`/proc/${pid}/exe`));
    expect([stays.length > 0, lives("stays"), lives("goes")]).toEqual([true, [true], [false]]);
    await Bun.write(site.path("end"), "");
    await running.ended;
    for (const pid of site.lines("stays").map(Number)) if (existsSync(`/proc/${pid}/exe`)) process.kill(pid, "SIGKILL");
  });

  scenario("leaves no zombie when it ends before its worker does", async (site) => {
    const id = await site.script([], `(env -i setsid sh -c 'echo $$ > escaped; sleep 0.3' >/dev/null 2>&1 &); sleep 2`);
    const running = worker(site, "--once");
    await site.childOf(id);
    const [pid] = await until("it has escaped", () =>
      site.lines("escaped").length > 0 ? site.lines("escaped") : null,
    );
    await until("it is collected", () => !existsSync(`/proc/${pid}`), { within_ms: 5_000 });
    expect((await running.ended).code).toBe(0);
  });

  scenario("is found after a worker that was killed, and is dead before the job runs again", async (site) => {
    const script = `${BESIDE}; if [ $LEASE_ATTEMPT = 1 ]; then ${ESCAPE}; echo ready; exec sleep 300; fi`;
    const id = await site.script([], script);
    const running = worker(site);
    await until("it has escaped", () => alive(site).length === 1);
    await site.childOf(id);
    await Bun.sleep(400);
    await running.end("SIGKILL");
    expect((await worker(site, "--until-empty").ended).code).toBe(0);
    expect(await site.job(id)).toMatchObject({ state: "completed", attempts: 2 });
    expect([site.lines("beside"), alive(site)]).toEqual([[], []]);
  });

  scenario("is dead before the lease is over when its worker is frozen", async (site) => {
    const id = await site.script(["--lease", "2s"], `${ESCAPE}; while :; do echo; sleep 0.1; done`);
    const running = worker(site, "--once");
    await until("it has escaped", () => alive(site).length === 1);
    await site.childOf(id);
    await Bun.sleep(400);
    await site.freeze(running);
    await until("it is dead", () => alive(site).length === 0);
    const [job] = await site.store.jobs([id]);
    if (job?.state.name === "running")
      expect(await site.store.now()).toBeLessThanOrEqual(job.state.expires_at_ms + 200);
    running.signal("SIGCONT");
    await running.end("SIGKILL");
  });

  const seen = Bun.spawnSync([
    "test",
    "-e",
    "/sys/fs/cgroup/unified/cgroup.procs",
    "-o",
    "-e",
    "/sys/fs/cgroup/cgroup.procs",
  ]);
  if (seen.exitCode !== 0) return;
  scenario("of a worker with them is not given up by a sweep that can't see them", async (site) => {
    const script = `${BESIDE}; if [ $LEASE_ATTEMPT = 1 ]; then ${ESCAPE}; echo ready; exec sleep 300; fi`;
    const id = await site.script(["--lease", "2s", "--beat", "timer"], script);
    const first = site.worker();
    await until("it has escaped", () => alive(site).length === 1);
    await site.childOf(id);
    await Bun.sleep(200);
    await first.end("SIGKILL");
    const running = worker(site, "--poll", "100ms");
    await site.reaches(id, "completed", { within_ms: 20_000 });
    expect([site.lines("beside"), alive(site)]).toEqual([[], []]);
    await running.end("SIGTERM");
  });

  scenario("of a worker with them that could note nothing is found by one that can't see them", async (site) => {
    const script = `${BESIDE}; if [ $LEASE_ATTEMPT = 1 ]; then ${ESCAPE}; echo ready; exec sleep 300; fi`;
    const id = await site.script(["--lease", "10m"], script);
    const first = site.worker();
    await until("it has escaped", () => alive(site).length === 1);
    await site.childOf(id);
    await first.end("SIGKILL");
    // As if it had been killed the moment after it started the program.
    const database = new Database(site.location);
    database.run("UPDATE attempts SET boot_id = NULL, pid = NULL, pid_started = NULL, fence = NULL");
    database.close();
    rmSync(`${site.location}-scratch`, { recursive: true });
    expect((await worker(site, "--until-empty").ended).code).toBe(0);
    expect(await site.job(id)).toMatchObject({ state: "completed", attempts: 2 });
    expect([site.lines("beside"), alive(site)]).toEqual([[], []]);
  });
});
