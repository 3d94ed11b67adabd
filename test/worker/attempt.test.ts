import { describe, expect } from "bun:test";
import { host, identify } from "../../src/platform/machine.ts";
import { LEASE_MS } from "../leasing/fixture.ts";
import { attemptTest as test, script } from "./attempts.ts";

describe("an attempt", () => {
  test("that succeeds completes the job, with what it printed", async (b) => {
    const job = await b.run("echo one; echo two >&2; sleep 0.03; echo three");
    expect(job).toMatchObject({
      state: { name: "completed" },
      result: { cause: "success", exit_code: 0, error: null },
    });
    const [attempt] = await b.store.attempts(job.id);
    expect(attempt).toMatchObject({ host, worker: "w1", end: { cause: "success", last_line: "three" } });
    expect(attempt!.beats).toBeGreaterThanOrEqual(3);
    expect((await b.logOf(job.id)).split("\n").toSorted()).toEqual(["", "one", "three", "two"]);
    expect(await b.trail(job.id)).toEqual([]);
  });

  test("that fails is tried again later, and leaves its last lines behind", async (b) => {
    const job = await b.run("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i; done; exit 3");
    expect(job).toMatchObject({ state: { name: "scheduled" }, result: { exit_code: 3, error: "exit code 3" } });
    const [trail] = await b.trail(job.id);
    expect(trail).toMatchObject({ cause: "exit", exit_code: 3, attempt: 1 });
    expect((trail!["last_lines"] as string[]).slice(-2)).toEqual(["line 11", "line 12"]);
    expect(trail!["last_lines"]).toHaveLength(10);
  });

  test("whose command does not exist fails the job for good", async (b) => {
    const { attempt, id } = await b.start({ argv: ["no-such-command-here"] });
    await attempt.settled;
    expect(await b.job(id)).toMatchObject({
      state: { name: "failed" },
      result: { cause: "not_found", exit_code: 127, error: expect.stringContaining("no-such-command-here") },
    });
  });

  test("whose working folder is missing fails the job for good, and names it", async (b) => {
    const job = await b.run("true", { cwd: "/no/such/folder" });
    expect(job).toMatchObject({ state: { name: "failed" }, result: { cause: "not_found", exit_code: 127 } });
    expect(job.result.error).toContain("/no/such/folder");
  });

  test("takes the result from the file it was told of, and leaves no file behind", async (b) => {
    const job = await b.run('echo 42 > "$LEASE_OUTPUT"; echo "$LEASE_OUTPUT"');
    expect(job.result.output).toBe("42\n");
    expect(b.read((await b.logOf(job.id)).trim())).toBe("");
  });

  test("cuts the result at its limit", async (b) => {
    const job = await b.run('head -c 5000 /dev/zero | tr "\\0" x > "$LEASE_OUTPUT"', {
      settings: { output_limit_bytes: 10 },
    });
    expect(job.result.output).toBe("x".repeat(10));
  });

  test("tells the job about itself, and unsets what it does not have", async (b) => {
    const job = await b.run(
      'echo "$LEASE_JOB_ID $LEASE_ATTEMPT $LEASE_TOKEN $LEASE_QUEUE $LEASE_KEY $LEASE_STORE $LEASE_WORKER_ID"; echo "${LEASE_TASK-no task} ${LEASE_CHECKPOINT-no checkpoint} $OWN"',
      { queue: "mail", key: "k", env: { OWN: "own value", LEASE_TASK: "forged" } },
    );
    expect(await b.logOf(job.id)).toBe(`${job.id} 1 1 mail k ${b.path} w1\nno task no checkpoint own value\n`);
  });

  test("hands on the last progress checkpoint of the one before", async (b) => {
    const text = 'echo "${LEASE_CHECKPOINT-none}"; exit 1';
    const job = await b.run(text, { task: "t" });
    await b.pass(5_000);
    const manager = b.localManager();
    const [second] = await manager.acquire();
    await b.store.checkpoint([{ id: job.id, token: 2, text: "page 7" }]);
    await b.begin(second!, { manager }).attempt.settled;
    await b.pass(5_000);
    const [third] = await manager.acquire();
    await b.begin(third!, { manager }).attempt.settled;
    expect([await b.logOf(job.id, 1), await b.logOf(job.id, 2), await b.logOf(job.id, 3)]).toEqual([
      "none\n",
      "none\n",
      "page 7\n",
    ]);
  });

  test("runs the worker's handler with the words of the job behind it, and its input on stdin", async (b) => {
    const { attempt, id } = await b.start(
      { argv: ["a b", "c"], input: new TextEncoder().encode("the input") },
      { handler: ["/bin/sh", "-c", 'printf "%s|" "$@"; cat', "handler"] },
    );
    await attempt.settled;
    expect(await b.logOf(id)).toBe("a b|c|the input");
  });

  test("keeps a whole log as a plain file where the worker has a folder for it", async (b) => {
    const job = await b.run("echo out; exit 2", {}, { log_dir: b.file("logs") });
    expect(b.read(`logs/${job.id}.1.log`)).toBe("$ /bin/sh -c 'echo out; exit 2'\nout\n[exit code 2]\n");
  });

  test("does not cost the job when its plain log can't be written", async (b) => {
    const blocked = b.file("lease.db");
    const { attempt, id } = await b.start(script("echo hi"), { log_dir: blocked });
    await attempt.settled.catch(() => {});
    expect(await b.stateOf(id)).not.toBe("running");
  });

  test("notes its process while it runs, so that what is left of it can be found", async (b) => {
    const { attempt, id, printed } = await b.start(script("echo $$; read line; sleep 60"));
    await printed(2);
    await b.pass(49);
    expect((await b.store.attempts(id))[0]!.process).toBeNull();
    await b.pass(1);
    const { process } = (await b.store.attempts(id))[0]!;
    expect(process).toEqual(identify(process!.pid));
    attempt.kill();
    await attempt.settled;
  });

  test("stores what is printed while it runs, a few times a second", async (b) => {
    const { attempt, id, printed } = await b.start(script("echo hello; sleep 60"));
    await printed(6);
    await b.pass(199);
    expect(await b.logOf(id)).toBe("");
    await b.pass(1);
    expect(await b.logOf(id)).toBe("hello\n");
    attempt.kill();
    await attempt.settled;
  });

  test("that leaves processes behind ends them first, and says so", async (b) => {
    const { attempt, id } = await b.start(script("sleep 60 & exit 0"));
    await b.passUntil(attempt.settled, 20);
    expect(await b.stateOf(id)).toBe("completed");
    expect(b.reports.join()).toContain("left processes behind");
  });
});

describe("beats", () => {
  async function beatsOf(b: Parameters<Parameters<typeof test>[1]>[0], beat: "output" | "stdout" | "manual") {
    const { attempt, id } = await b.start(
      { ...script("echo a; echo b; sleep 0.02; echo c >&2; sleep 0.02; printf d >&2"), settings: { beat } },
      {},
    );
    await attempt.settled;
    return (await b.store.attempts(id))[0]!.beats;
  }

  test("are lines on both streams, also unfinished ones", async (b) => {
    expect(await beatsOf(b, "output")).toBe(4);
  });

  test("are lines on stdout alone where the job wants it so", async (b) => {
    expect(await beatsOf(b, "stdout")).toBe(2);
  });

  test("are none of what is printed where only `lease beat` counts", async (b) => {
    expect(await beatsOf(b, "manual")).toBe(0);
  });

  test("come from a timer for a job that is rightly silent", async (b) => {
    const { attempt, id, lease } = await b.start({ ...script("echo go; sleep 60"), settings: { beat: "timer" } });
    for (let minute = 0; minute < 5; minute++) {
      await b.pass(LEASE_MS);
      expect(lease.remaining()).toBeGreaterThan(LEASE_MS * 0.7);
    }
    expect(b.reports).toEqual([]);
    attempt.kill();
    await attempt.settled;
    expect((await b.store.attempts(id))[0]!.beats).toBe(50);
  });

  test("are as the worker says where the job says nothing", async (b) => {
    const { attempt, id } = await b.start(script("echo a; echo b"), { beat: "manual" });
    await attempt.settled;
    expect((await b.store.attempts(id))[0]!.beats).toBe(0);
  });

  test("of a job that prints keep its lease, whole from the last line on", async (b) => {
    const { attempt, id, printed } = await b.start(script("while read line; do :; done; echo a; sleep 60"));
    await printed(2);
    await b.pass(LEASE_MS / 10);
    expect(await b.expiryOf(id)).toBe(b.clock.wall_ms() + LEASE_MS - LEASE_MS / 10);
    attempt.kill();
    await attempt.settled;
  });
});
