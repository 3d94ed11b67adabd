/** What a job can ask and tell from the inside: beat, checkpoint, guard; each under the fence of its own token. */

import { describe, expect } from "bun:test";
import { scenario } from "../support/process.ts";
import type { Site } from "../support/process.ts";

/** Calls `lease …` as an attempt of a job would. */
const as = (site: Site, job: number, token: number, ...words: string[]) =>
  site.run(words, { env: { LEASE_JOB_ID: String(job), LEASE_TOKEN: String(token) } });

describe("lease beat", () => {
  scenario("exits with 0 while all is well, and with 3 when cancel was requested", async (site) => {
    const id = await site.script(
      [],
      `trap 'lease beat 2>> words; echo "asked $?" >> codes; exit 0' TERM
       lease beat --progress 40 --message linking; echo "first $?" >> codes
       while :; do echo tick; sleep 0.1; done`,
    );
    const worker = await site.workerReady();
    await site.written("codes", /^first 0$/);
    expect(await site.job(id)).toMatchObject({ state: "running", progress: 40, message: "linking" });
    await site.run(["cancel", String(id)]);
    await site.written("codes", /^asked 3$/);
    expect(site.text("words")).toMatch(/^lease: .*cancel.*\n$/);
    expect(await site.reaches(id, "cancelled")).toMatchObject({ attempts: 1 });
    await worker.end();
  });

  scenario("exits with 4 when the job is over, somebody else's, or unknown", async (site) => {
    const id = await site.script(["--backoff", "none", "--retries", "1"], '[ "$LEASE_TOKEN" = 2 ] && sleep 60; exit 1');
    const worker = await site.workerReady();
    await site.childOf(id, 2);
    const old = await as(site, id, 1, "beat");
    expect(old).toMatchObject({ code: 4, stdout: "" });
    expect(old.stderr).toMatch(/^lease: job 1 has lost its lease \(somebody else holds it\).*\n$/);
    expect(await as(site, id, 2, "beat")).toMatchObject({ code: 0, stdout: "", stderr: "" });
    await site.run(["cancel", String(id)]);
    await site.reaches(id, "cancelled");
    expect(await as(site, id, 2, "beat")).toMatchObject({ code: 4 });
    expect(await as(site, 99, 1, "beat")).toMatchObject({ code: 4 });
    await worker.end();
  });

  scenario("is a usage error outside of a job", async (site) => {
    const { code, stderr } = await site.run(["beat"]);
    expect(code).toBe(2);
    expect(stderr).toContain("LEASE_JOB_ID");
  });

  scenario("does not cut short the time that stopping was given", async (site) => {
    // Asked to end, it beats once more and then cleans up for longer than its lease, which the grace allows.
    const id = await site.script(
      ["--lease", "1s", "--beat", "manual"],
      `trap 'asked=yes; echo asked >> words' TERM; while [ -z "$asked" ]; do lease beat; sleep 0.2; done
       lease beat; sleep 3
       echo done >> words`,
    );
    const worker = await site.workerReady("--grace", "20s", "--lease", "1s");
    await site.childOf(id);
    await site.run(["cancel", String(id)]);
    const job = await site.reaches(id, "cancelled");
    expect(job.history.map(({ cause }) => cause)).toEqual(["cancelled"]);
    expect(site.lines("words")).toEqual(["asked", "done"]);
    await worker.end();
  });
});

describe("lease checkpoint", () => {
  scenario("is handed to the next attempt as LEASE_CHECKPOINT, the last one accepted", async (site) => {
    const id = await site.script(
      ["--backoff", "none", "--retries", "1"],
      `echo "at \${LEASE_CHECKPOINT-nothing}" >> seen
       lease checkpoint >> asked; echo "$?" >> asked
       [ "$LEASE_TOKEN" = 1 ] && lease checkpoint 'page 2' && lease checkpoint 'page 3' && exit 1
       exit 0`,
    );
    expect((await site.worker("--until-empty").ended).code).toBe(0);
    expect(site.lines("seen")).toEqual(["at nothing", "at page 3"]);
    expect(site.lines("asked")).toEqual(["1", "page 3", "0"]);
    const job = await site.job(id);
    const progress = job.checkpoints.filter(({ kind }) => kind === "progress");
    expect(progress.map(({ text }) => text).toSorted()).toEqual(["page 2", "page 3"]);
  });

  scenario("outlives the worker", async (site) => {
    await site.script(
      [],
      `echo "at \${LEASE_CHECKPOINT-nothing}" >> seen
       [ "$LEASE_TOKEN" = 1 ] && lease checkpoint 'page 7' && kill -KILL $PPID && sleep 60; exit 0`,
    );
    expect(await site.worker().ended).toMatchObject({ signal: "SIGKILL" });
    const second = site.worker();
    await site.reaches(1, "completed");
    expect(site.lines("seen")).toEqual(["at nothing", "at page 7"]);
    await second.end();
  });

  scenario("is refused with 4 from an attempt that is over, and not handed on", async (site) => {
    const id = await site.script(
      ["--backoff", "none", "--retries", "2"],
      `echo "at \${LEASE_CHECKPOINT-nothing}" >> seen
       [ "$LEASE_TOKEN" = 1 ] && lease checkpoint 'page 1' && exit 1
       [ "$LEASE_TOKEN" = 2 ] && until [ -e go ]; do sleep 0.05; done && exit 1
       exit 0`,
    );
    const worker = await site.workerReady();
    await site.childOf(id, 2);
    const refused = await as(site, id, 1, "checkpoint", "page 99");
    expect(refused).toMatchObject({ code: 4, stdout: "" });
    await Bun.write(site.path("go"), "");
    await site.reaches(id, "completed");
    expect(site.lines("seen")).toEqual(["at nothing", "at page 1", "at page 1"]);
    await worker.end();
  });
});

describe("lease guard", () => {
  scenario(
    "runs a command while the lease is held, with its input and output, and exits with its code",
    async (site) => {
      const id = await site.script(
        ["--retries", "0", "--input", "from stdin"],
        `lease guard -- sh -c 'cat; echo; echo to stderr >&2; exit 7'; echo "code $?"; lease guard -- no-such-command; echo "code $?"`,
      );
      expect((await site.worker("--until-empty").ended).code).toBe(0);
      const { stdout } = await site.run(["logs", String(id), "--stream", "stdout"]);
      expect(stdout).toBe("from stdin\ncode 7\ncode 127\n");
      expect((await site.run(["logs", String(id), "--stream", "stderr"])).stdout).toContain("to stderr\n");
    },
  );

  scenario("refuses with 4 when the lease is lost, and does not run the command", async (site) => {
    const id = await site.enqueue([], "true");
    await site.worker("--until-empty").ended;
    const refused = await as(site, id, 1, "guard", "--", "touch", site.path("ran"));
    expect(refused).toMatchObject({ code: 4, stdout: "" });
    expect(refused.stderr).toMatch(/^lease: job 1 has lost its lease.*\n$/);
    expect(await Bun.file(site.path("ran")).exists()).toBe(false);
  });

  scenario("kills the command when the lease is lost while it runs", async (site) => {
    const id = await site.script(
      [],
      `lease guard -- sh -c 'echo $$ > guarded; exec sleep 60'; echo "code $?" >> codes; sleep 60`,
    );
    const worker = await site.workerReady("--lease", "2s", "--beat", "timer");
    const guarded = Number(await site.written("guarded", /^\d+$/));
    // Nobody extends, nobody sweeps, nobody enforces: only the guard itself can know.
    await site.freeze(worker);
    for (const pid of enforcersOf(worker.pid)) process.kill(-pid, "SIGSTOP");
    await site.written("codes", /^code 4$/, 8_000);
    expect(site.processes(id).map(({ pid }) => pid)).not.toContain(guarded);
    expect(site.processes(id)).not.toEqual([]);
    for (const pid of enforcersOf(worker.pid)) process.kill(-pid, "SIGCONT");
    worker.signal("SIGCONT");
    await worker.end("SIGQUIT");
  });
});

/** The shells that kill a worker's jobs when it can't. */
function enforcersOf(worker: number): number[] {
  const children = Bun.spawnSync(["pgrep", "-P", String(worker), "-f", "^/bin/sh -s "]).stdout.toString();
  return children.split("\n").filter(Boolean).map(Number);
}
