/** `lease run`: a job in the foreground, as a script and a CI step see it. */

import { describe, expect } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { isUnlocked, lockStore, scenario, until, type Program, type Site } from "../support/process.ts";

const run = (site: Site, ...words: string[]) => site.run(["run", ...words]);

/** Starts a run that says `started` and then waits for the file `go`. */
async function waiting(site: Site, ...flags: string[]): Promise<Program> {
  const script = `echo started $LEASE_ATTEMPT; while [ ! -e go ]; do sleep 0.02; done; echo done; exit "\${CODE:-0}"`;
  const program = site.start(["run", ...flags, "-c", script]);
  await program.line(/^started/);
  return program;
}

const go = (site: Site): void => writeFileSync(site.path("go"), "");

describe("a run ends with", () => {
  scenario("the job's own code, its streams apart and its bytes as they are", async (site) => {
    const script = String.raw`printf 'a\377\000b'; printf 'err\n' >&2; exit 3`;
    const { code, bytes, stderr } = await run(site, "-c", script);
    expect({ code, bytes: [...bytes], stderr }).toEqual({ code: 3, bytes: [97, 255, 0, 98], stderr: "err\n" });
    expect(await site.job(1)).toMatchObject({ state: "failed", exit_code: 3, attempts: 1, cause: "exit" });
    expect((await site.run(["logs", "1", "--stream", "stderr"])).stdout).toBe("err\n");
  });

  scenario("124 after a timeout, 126 and 127 when it can't start, 128+n after a signal, and says why", async (site) => {
    const ends = [
      [["--timeout", "150ms", "--", "sleep", "60"], 124, /job 1 failed: timeout after 150ms/],
      [["--", "/etc/passwd"], 126, /job 2 failed: not executable/],
      [["--", "no-such-command"], 127, /job 3 failed: command not found: no-such-command/],
      [["-c", "kill -KILL $$"], 137, /job 4 failed: killed by SIGKILL/],
      [["--cwd", "/no/such/folder", "--", "true"], 127, /working folder .* does not exist/],
      [["--lease", "1s", "--grace", "100ms", "--", "sleep", "60"], 1, /job 6 failed: silent 1.*of 1s/],
    ] as const;
    for (const [words, code, message] of ends) {
      const end = await run(site, ...words);
      expect({ words, code: end.code, stdout: end.stdout }).toEqual({ words, code, stdout: "" });
      expect(end.stderr).toMatch(message);
    }
  });

  scenario("2 when it was asked wrongly, and then nothing is queued", async (site) => {
    const asked = [
      [[], "there is no command"],
      [["--key", "k"], "there is no job with key k, and no command"],
      [["--if-done", "rerun", "--", "true"], "--if-done says what to do about a --key"],
      [["--if-exists", "fail", "--", "true"], "--if-exists says what to do about a --key"],
      [["--grace", "x", "--", "true"], '--grace "x" is not a duration'],
      [["--at", "18:30", "--delay", "1s", "--", "true"], "both say when"],
      [["--from", "x"], "unknown flag --from"],
    ] as const;
    for (const [words, message] of asked) {
      const { code, stdout, stderr } = await run(site, ...words);
      expect({ words, code, stdout, stderr }).toMatchObject({ code: 2, stdout: "" });
      expect(stderr).toContain(message);
    }
    expect(await site.store.counts()).toEqual([]);
  });

  scenario("125 when the store can't be used", async (site) => {
    const { code, stderr } = await site.spawn([
      ...site.start(["version"]).words.slice(0, 1),
      "run",
      "--store",
      "/",
      "--",
      "true",
    ]).ended;
    expect({ code, lines: stderr.split("\n").length }).toEqual({ code: 125, lines: 2 });
  });
});

describe("a run", () => {
  scenario("is never taken by a worker of its queue: it has the environment of whoever asked", async (site) => {
    await site.workerReady("-q", "*", "-j", "4");
    const ends = await Promise.all(
      Array.from({ length: 12 }, () => site.run(["run", "-c", "echo $MINE"], { env: { MINE: "yes" } }).then((e) => e)),
    );
    expect(ends.map(({ code, stdout }) => `${code} ${stdout}`)).toEqual(Array.from({ length: 12 }, () => "0 yes\n"));
  });

  scenario("is not tried again when it fails, but with --retries is, here, after its backoff", async (site) => {
    expect(await run(site, "-c", "echo once; exit 1")).toMatchObject({ code: 1, stdout: "once\n", stderr: "" });
    const script = 'echo $LEASE_ATTEMPT; echo note >&2; [ "$LEASE_ATTEMPT" = 3 ]';
    const end = await run(site, "--retries", "5", "--backoff", "20ms", "-c", script);
    expect(end).toMatchObject({ code: 0, stdout: "1\n2\n3\n" });
    expect(end.stderr).toMatch(/job 2: attempt 1 failed: exit code 1 \(note\); again in \d+ms/);
    const { history } = await site.job(2);
    expect(new Set(history.map(({ worker }) => worker)).size).toBe(1);
  });

  scenario("takes the flags of enqueue: input, variables, a delay, jobs to wait for", async (site) => {
    const flags = ["--env", "A=1", "--input", "text", "--delay", "50ms", "--task", "t", "-p", "3"];
    expect(await run(site, ...flags, "-c", 'echo "$A $(cat) $LEASE_TASK"')).toMatchObject({ stdout: "1 text t\n" });
    const parent = await site.script([], "while [ ! -e go ]; do sleep 0.02; done");
    const child = site.start(["run", "--after", String(parent), "--", "echo", "after"]);
    await site.reaches(3, "blocked");
    site.worker("--until-empty");
    go(site);
    expect(await child.ended).toMatchObject({ code: 0, stdout: "after\n" });
  });

  scenario("can have a terminal, and prints the job as JSON on stderr with --json", async (site) => {
    const end = await run(site, "--pty", "--json", "-c", "test -t 1 && echo tty");
    expect(end).toMatchObject({ code: 0, stdout: "tty\r\n" });
    expect(JSON.parse(end.stderr)).toMatchObject({ schema: 1, id: 1, state: "completed", exit_code: 0 });
  });

  scenario("waits for a slow reader without losing a byte", async (site) => {
    const script = `lease run --store "$1" -c 'seq 1 300000; seq 1 200000 >&2' 2>err | { sleep 0.5; md5sum; }; md5sum <err`;
    const { stdout } = await site.spawn(["bash", "-c", script, "bash", site.location]).ended;
    const expected = await site.spawn(["sh", "-c", "seq 1 300000 | md5sum; seq 1 200000 | md5sum"]).ended;
    expect(stdout).toBe(expected.stdout);
  });

  scenario("keeps its lease while its reader stands still for longer than that", async (site) => {
    const job = "head -c 300000 /dev/zero; for n in $(seq 15); do echo tick >&2; sleep 0.1; done; touch done";
    const script = `lease run --store "$1" --lease 1s -c '${job}' 2>err | { while [ ! -e done ]; do sleep 0.02; done; wc -c; }`;
    const { stdout } = await site.spawn(["bash", "-c", script, "bash", site.location]).ended;
    expect(Number(stdout)).toBe(300_000);
    expect(site.lines("err")).toEqual(Array.from({ length: 15 }, () => "tick"));
    expect(await site.job(1)).toMatchObject({ state: "completed", attempts: 1 });
  });

  scenario("ends quietly when its reader went away, and so does its job", async (site) => {
    const script = 'lease run --store "$1" -c "yes" | head -n 1; echo "${PIPESTATUS[0]}"';
    const { stdout, stderr } = await site.spawn(["bash", "-c", script, "bash", site.location]).ended;
    expect({ stdout, stderr }).toEqual({ stdout: "y\n141\n", stderr: "" });
    expect(await site.job(1)).toMatchObject({ state: "cancelled", reason: "nobody reads its output any more" });
  });

  scenario("hears of a cancel and ends with 1", async (site) => {
    const program = await waiting(site);
    await site.run(["cancel", "1", "--reason", "not today"]);
    const end = await program.ended;
    expect(end).toMatchObject({ code: 1, stdout: "started 1\n" });
    expect(end.stderr).toContain("job 1 was cancelled: not today");
  });
});

/** From now on it does not just die of it. */
function hears(pid: number, signal: number): boolean {
  const caught = /^SigCgt:\t([\da-f]+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "0";
  return (BigInt(`0x${caught}`) & (1n << BigInt(signal - 1))) !== 0n;
}

describe("Ctrl-C", () => {
  scenario("leaves a store that others hold and that has not taken the job, and nothing is queued", async (site) => {
    const unlock = lockStore(site.location);
    const program = site.start(["run", "--", "true"]);
    await until("it hears Ctrl-C", () => hears(program.pid, constants.signals.SIGINT));
    const { code, stderr } = await program.end("SIGINT");
    // Still held: it has not waited for it.
    expect(isUnlocked(site.location)).toBe(false);
    expect(code).toBe(130);
    expect(stderr).toContain("the store, which others hold, has not taken the job");
    unlock();
    expect(await site.store.counts()).toEqual([]);
  });

  scenario("cancels the job that runs here: TERM first, and recorded as cancelled", async (site) => {
    const script = 'trap "echo cleaning up; exit 9" TERM; echo ready; while :; do sleep 0.02; done';
    let screen = "";
    const child = Bun.spawn(
      [...site.start(["version"]).words.slice(0, 1), "run", "--store", site.location, "-c", script],
      {
        cwd: site.folder,
        env: { ...process.env, TERM: "xterm" } as Record<string, string>,
        terminal: { cols: 80, rows: 24, data: (_terminal, bytes) => void (screen += new TextDecoder().decode(bytes)) },
      },
    );
    await until("the job is ready", () => screen.includes("ready"));
    child.terminal?.write("\u0003");
    expect(await child.exited).toBe(130);
    expect(screen).toContain("cleaning up");
    expect(await site.job(1)).toMatchObject({ state: "cancelled", cause: "cancelled", reason: "interrupted" });
  });

  scenario("kills a job that ignores TERM after the grace, or at once the second time", async (site) => {
    const stubborn = 'trap "" TERM; echo ready; while :; do sleep 0.02; done';
    const patient = site.start(["run", "--grace", "200ms", "-c", stubborn]);
    await patient.line(/ready/);
    expect(await patient.end("SIGINT")).toMatchObject({ code: 130 });
    const hurried = site.start(["run", "--grace", "1h", "-c", stubborn]);
    await hurried.line(/ready/);
    hurried.signal("SIGINT");
    await hurried.line(/cancel requested/);
    expect(await hurried.end("SIGINT")).toMatchObject({ code: 130 });
    for (const id of [1, 2]) expect(await site.job(id)).toMatchObject({ state: "cancelled" });
  });

  scenario("cancels a job that waits to be run here, also between two attempts", async (site) => {
    const program = site.start(["run", "--retries", "3", "--backoff", "1h", "-c", "exit 1"]);
    await program.line(/again in/);
    expect(await program.end("SIGINT")).toMatchObject({ code: 130 });
    expect(await site.job(1)).toMatchObject({ state: "cancelled", attempts: 1 });
  });

  scenario("leaves a job that somebody else runs, and says how to come back", async (site) => {
    const owner = await waiting(site, "--key", "k 1");
    const guest = site.start(["run", "--key", "k 1", "--", "false"]);
    await guest.line(/^started 1/);
    const end = await guest.end("SIGINT");
    expect(end).toMatchObject({ code: 130, stdout: "started 1\n" });
    expect(end.stderr).toContain(
      `left job 1, which goes on; come back with: lease run --store ${site.location} --key 'k 1'`,
    );
    go(site);
    expect(await owner.ended).toMatchObject({ code: 0, stdout: "started 1\ndone\n" });
  });
});

describe("TERM", () => {
  scenario("gives a job with a key back, and the next run takes it over", async (site) => {
    const first = await waiting(site, "--key", "k");
    const end = await first.end("SIGTERM");
    expect(end).toMatchObject({ code: 143 });
    expect(end.stderr).toContain(
      `left job 1, which is pending; go on with: lease run --store ${site.location} --key k`,
    );
    expect(await site.job(1)).toMatchObject({ state: "pending", retries_left: 3 });
    go(site);
    expect(await run(site, "--key", "k")).toMatchObject({ code: 0, stdout: "started 1\nstarted 2\ndone\n" });
    expect((await site.job(1)).history.map(({ cause }) => cause)).toEqual(["returned", "success"]);
  });

  scenario("cancels a job without a key: nobody could come back to it", async (site) => {
    const program = await waiting(site);
    expect(await program.end("SIGTERM")).toMatchObject({ code: 143 });
    expect(await site.job(1)).toMatchObject({ state: "cancelled", reason: "whoever ran it was told to end" });
  });
});

describe("HUP", () => {
  scenario("gives a job with a key back like TERM, and a second signal does not wait for it", async (site) => {
    const script = 'trap "" TERM; echo ready; while :; do sleep 0.02; done';
    const program = site.start(["run", "--key", "k", "--grace", "1h", "-c", script]);
    await program.line(/ready/);
    program.signal("SIGHUP");
    await program.line(/stopping it, to give it back/);
    expect(await program.end("SIGHUP")).toMatchObject({ code: 129 });
    expect(await site.job(1)).toMatchObject({ state: "pending", attempts: 1, retries_left: 3 });
  });
});

describe("a run with the key", () => {
  scenario("of a live job is given its log so far, then what follows, and its code", async (site) => {
    const owner = site.start([
      "run",
      "--key",
      "k",
      "-c",
      "echo one; echo two >&2; while [ ! -e go ]; do sleep 0.02; done; echo three; exit 5",
    ]);
    await owner.line(/two/);
    const guests = [1, 2].map(() => site.start(["run", "--key", "k", "--", "echo", "not", "me"]));
    for (const guest of guests) await guest.line(/one/);
    go(site);
    for (const program of [owner, ...guests]) {
      const { code, stdout, stderr } = await program.ended;
      expect({ code, stdout }).toEqual({ code: 5, stdout: "one\nthree\n" });
      expect(stderr).toContain("two\n");
    }
    expect(guests[0]?.stderr).toMatch(/^lease: job 1 with key k has another command: .*\n/);
    expect(guests[0]?.stderr).toMatch(/\nlease: job 1 with key k is run by \S+; following it\n/);
    expect((await site.job(1)).attempts).toBe(1);
  });

  scenario("of a job that a worker runs follows it through its retries", async (site) => {
    const script =
      'echo try $LEASE_ATTEMPT; while [ "$LEASE_ATTEMPT" = 1 ] && [ ! -e go ]; do sleep 0.02; done; [ "$LEASE_ATTEMPT" = 2 ]';
    const id = await site.script(["--key", "k", "--retries", "2", "--backoff", "none"], script);
    site.worker("--until-empty");
    await site.reaches(id, "running");
    const guest = site.start(["run", "--key", "k"]);
    await guest.line(/try 1/);
    go(site);
    expect(await guest.ended).toMatchObject({ code: 0, stdout: "try 1\ntry 2\n" });
  });

  scenario("of a finished job answers at once, or runs again where that is asked for", async (site) => {
    const first = await run(site, "--key", "k", "-c", "echo out; echo err >&2; exit 7");
    expect(first).toMatchObject({ code: 7, stdout: "out\n", stderr: "err\n" });
    const again = await run(site, "--key", "k", "--if-done", "skip", "--", "echo", "other");
    expect(again).toMatchObject({ code: 7, stdout: "out\n" });
    expect(again.stderr).toMatch(
      /^lease: job 1 .* another command: .*\nlease: job 1 with key k failed (?:just now|\d+s ago); its log:\nerr\n$/,
    );
    expect(await run(site, "--key", "k", "--if-done", "rerun", "--", "echo", "other")).toMatchObject({
      code: 0,
      stdout: "other\n",
    });
    expect(await run(site, "--key", "k")).toMatchObject({ code: 0, stdout: "other\n" });
    expect((await site.store.list({ limit: 10, newest_first: false })).length).toBe(2);
  });

  scenario("of a failed job runs it again, and of a completed one answers: a flaky step goes on", async (site) => {
    const flaky = "echo ran >> ran; [ $(wc -l < ran) -ge 2 ]";
    expect((await run(site, "--key", "k", "-c", flaky)).code).toBe(1);
    expect((await run(site, "--key", "k", "-c", flaky)).code).toBe(0);
    expect((await run(site, "--key", "k", "-c", flaky)).code).toBe(0);
    expect(site.lines("ran")).toEqual(["ran", "ran"]);
  });

  scenario("of a cancelled job runs anew: that one has no answer", async (site) => {
    const first = await waiting(site, "--key", "k");
    await first.end("SIGINT");
    expect(await run(site, "--key", "k", "--", "echo", "new")).toMatchObject({ code: 0, stdout: "new\n" });
  });

  scenario("of a job that nobody runs yet runs it here, with its own words", async (site) => {
    await site.enqueue(["--key", "k"], "echo", "queued");
    const end = await run(site, "--key", "k", "--", "echo", "mine");
    expect(end).toMatchObject({ code: 0, stdout: "queued\n" });
    expect((await site.job(1)).attempts).toBe(1);
  });

  scenario("started many times at once is one job with one answer", async (site) => {
    const script = "echo ran >> ran; sleep 0.05; echo answer";
    const ends = await Promise.all(Array.from({ length: 8 }, () => run(site, "--key", "k", "-c", script)));
    expect(ends.map(({ code, stdout }) => `${code} ${stdout}`)).toEqual(Array.from({ length: 8 }, () => "0 answer\n"));
    expect(site.lines("ran")).toEqual(["ran"]);
  });

  scenario("refuses, or takes the place of the other, where --if-exists says so", async (site) => {
    await site.enqueue(["--key", "k", "--delay", "1h"], "echo", "old");
    const refused = await run(site, "--key", "k", "--if-exists", "fail", "--", "echo", "new");
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toContain("key k is taken by job 1");
    expect(await run(site, "--key", "k", "--if-exists", "replace", "--", "echo", "new")).toMatchObject({
      stdout: "new\n",
    });
  });
});

describe("a runner that is killed", () => {
  scenario("is replaced by the next run within two seconds, and what it left is killed first", async (site) => {
    const script = "echo started $LEASE_ATTEMPT; while [ ! -e go ]; do sleep 0.02; done; echo done";
    const first = site.start(["run", "--key", "k", "-c", script]);
    await first.line(/started 1/);
    await first.end("SIGKILL");
    const killed_ms = performance.now();
    const second = site.start(["run", "--key", "k", "-c", script]);
    await second.line(/started 2/);
    expect(performance.now() - killed_ms).toBeLessThan(2_000);
    expect(site.processes(1).filter(({ token }) => token === 1)).toEqual([]);
    go(site);
    // What the first had not stored yet went with it.
    expect(await second.ended).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^(started 1\n)?started 2\ndone\n$/),
    });
    expect(second.stderr).toContain("job 1: taken over, running it here");
    expect((await site.job(1)).history.map(({ cause }) => cause)).toEqual(["lost", "success"]);
  });

  scenario("is replaced by a run that was following it", async (site) => {
    const first = await waiting(site, "--key", "k");
    const guest = site.start(["run", "--key", "k"]);
    await guest.line(/started 1/);
    await first.end("SIGKILL");
    await guest.line(/started 2/);
    go(site);
    expect(await guest.ended).toMatchObject({ code: 0, stdout: "started 1\nstarted 2\ndone\n" });
  });

  scenario("or only frozen is replaced when its lease is over, and follows once it can go on", async (site) => {
    const first = await waiting(site, "--key", "k", "--lease", "1s");
    await site.freeze(first);
    const second = site.start(["run", "--key", "k", "--lease", "1s", "--", "true"]);
    await second.line(/started 2/);
    first.signal("SIGCONT");
    await first.line(/started 2/);
    go(site);
    for (const program of [first, second]) expect(await program.ended).toMatchObject({ code: 0 });
    expect((await site.job(1)).history.map(({ cause }) => cause)).toEqual(["expired", "success"]);
  });

  scenario("too often is a failure, with 1 and a reason", async (site) => {
    const first = await waiting(site, "--key", "k", "--retries", "0");
    await first.end("SIGKILL");
    const end = await run(site, "--key", "k");
    expect(end).toMatchObject({ code: 1 });
    expect(end.stderr).toContain("max retries exceeded");
  });
});

describe("--remote", () => {
  scenario("leaves the job to a worker and follows it", async (site) => {
    const follower = site.start(["run", "--remote", "-q", "far", "--", "sh", "-c", "echo $WHERE; exit 6"]);
    await site.reaches(1, "pending");
    const worker = site.spawn([follower.words[0] ?? "", "worker", "--store", site.location, "-q", "far", "--once"], {
      env: { WHERE: "there" },
    });
    expect(await follower.ended).toMatchObject({ code: 6, stdout: "there\n" });
    await worker.ended;
  });

  scenario("only leaves it on Ctrl-C", async (site) => {
    const follower = site.start(["run", "--remote", "--", "true"]);
    await site.reaches(1, "pending");
    const end = await follower.end("SIGINT");
    expect(end).toMatchObject({ code: 130 });
    expect(end.stderr).toContain(`left job 1, which is pending; go on with: lease logs --store ${site.location} -f 1`);
    expect(await site.job(1)).toMatchObject({ state: "pending" });
  });
});
