/** `lease worker` from outside: which jobs it takes, in which order, what they get, and with what code it ends. */

import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expectRefusal, LEASE, run, until, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();

/** The words of the jobs that ran, in the order in which they did. */
const ran = (place: Place) =>
  place
    .rows<{ argv: string }>("SELECT argv FROM jobs WHERE token > 0 ORDER BY started_at_ms, finished_at_ms")
    .map(({ argv }) => (JSON.parse(argv) as string[]).at(-1));

describe("a job without a command", () => {
  test("stays pending with the reason where no worker has a handler, and runs where one has", async () => {
    const place = newPlace();
    await place.enqueue("--input", "hello");
    await place.enqueue("--", "true");
    expect(await place.work()).toBe(0);
    expect(await place.inspect(1)).toMatchObject({ state: "pending", attempts: 0 });
    expect((await place.lease("inspect", "1")).stdout).toContain("no worker of queue default has a handler for it");
    expect((await place.lease("worker", "--until-empty", "--", "cat")).code).toBe(0);
    expect((await place.lease("logs", "1")).stdout).toBe("hello\n");
  });
});

describe("a worker ends", () => {
  test("--once after one job, with 1 when that failed and 0 when there was none", async () => {
    const place = newPlace();
    const once = async () => (await place.lease("worker", "--once")).code;
    for (const argv of [["true"], ["false"], ["true"]]) await place.enqueue("--retries", "0", "--", ...argv);
    expect(await once()).toBe(0);
    expect(await once()).toBe(1);
    expect((await place.inspect(3)).state).toBe("pending");
    expect(await once()).toBe(0);
    expect(await once()).toBe(0);
  });

  test("--once takes one job even with more slots", async () => {
    const place = newPlace();
    for (let n = 0; n < 3; n++) await place.enqueue("--", "true");
    expect((await place.lease("worker", "--once", "-j", "3")).code).toBe(0);
    expect(place.rows("SELECT id FROM jobs WHERE state = 'completed'")).toHaveLength(1);
  });

  test("--max-jobs after so many, and leaves the rest", async () => {
    const place = newPlace();
    for (const argv of [["true"], ["false"], ["true"], ["true"]]) await place.enqueue("--retries", "0", "--", ...argv);
    expect((await place.lease("worker", "--max-jobs", "3", "-j", "2")).code).toBe(1);
    expect((await place.inspect(4)).state).toBe("pending");
  });

  test("--until-empty with 0 when all completed, and 1 when one failed for good", async () => {
    const place = newPlace();
    await place.enqueue("--retries", "1", "--backoff", "none", "-c", "test $LEASE_ATTEMPT = 2");
    expect(await place.work()).toBe(0);
    await place.enqueue("--retries", "0", "--", "false");
    await place.enqueue("--", "true");
    expect(await place.work()).toBe(1);
    // What failed before it came is not its failure.
    expect(await place.work()).toBe(0);
  });

  test("--until-empty not before a retry that is due later, and what that frees", async () => {
    const place = newPlace();
    await place.enqueue("--retries", "1", "--backoff", "fixed:300ms", "-c", "test $LEASE_ATTEMPT = 2");
    await place.enqueue("--after", "1", "--", "true");
    await place.enqueue("--after", "2", "--", "true");
    expect(await place.work()).toBe(0);
    expect(place.rows("SELECT id FROM jobs WHERE state = 'completed'")).toHaveLength(3);
  });

  test("--until-empty without waiting for what a person put off, or for other queues and tasks", async () => {
    const place = newPlace();
    await place.enqueue("--delay", "1h", "--", "true");
    await place.enqueue("-q", "other", "--", "true");
    await place.enqueue("--task", "theirs", "--", "true");
    expect(await place.work("--task", "mine")).toBe(0);
    expect(place.rows("SELECT id FROM jobs WHERE token > 0")).toEqual([]);
  });

  test("--until-empty after what a dead worker left behind has run again", async () => {
    const place = newPlace();
    await place.enqueue("-c", 'if [ "$LEASE_ATTEMPT" = 1 ]; then touch started; exec sleep 10; fi; echo again');
    const worker = Bun.spawn([LEASE, "worker"], {
      cwd: place.folder,
      env: { ...process.env, ...place.env },
      stdio: ["ignore", "ignore", "ignore"],
    });
    await until(() => existsSync(join(place.folder, "started")));
    worker.kill("SIGKILL");
    await worker.exited;
    expect(await place.work()).toBe(0);
    expect(await place.inspect(1)).toMatchObject({
      state: "completed",
      history: [{ cause: "lost" }, { cause: "success" }],
    });
  });

  test("and leaves nothing in the folder for temporary files", async () => {
    const place = newPlace();
    await place.enqueue("-c", 'echo x > "$LEASE_OUTPUT"');
    await place.work();
    expect(readdirSync(place.folder).filter((name) => !name.startsWith("lease.db"))).toEqual([]);
  });
});

describe("a worker takes jobs", () => {
  const fill = async () => {
    const place = newPlace();
    for (const [queue, priority, word] of [
      ["a", 0, "a1"],
      ["b", 0, "b1"],
      ["a", 9, "a9"],
      ["c", 5, "c5"],
      ["b", -3, "b-3"],
    ] as const) {
      await place.enqueue("-q", queue, "-p", String(priority), "--task", `task-${queue}`, "--", "true", word);
    }
    return place;
  };

  test("of the queues it serves, in the order of preference given, then by priority and age", async () => {
    const flags: [string[], string[]][] = [
      [
        ["-q", "b", "-q", "a"],
        ["b1", "b-3", "a9", "a1"],
      ],
      [
        ["-q", "a,b"],
        ["a9", "a1", "b1", "b-3"],
      ],
      [
        ["--queue=c", "-qb"],
        ["c5", "b1", "b-3"],
      ],
      [
        ["-q", "*"],
        ["a9", "c5", "a1", "b1", "b-3"],
      ],
      [
        ["-q", "c", "-q", "*"],
        ["a9", "c5", "a1", "b1", "b-3"],
      ],
      [["-q", "nothing"], []],
      [[], []],
    ];
    for (const [args, words] of flags) {
      const place = await fill();
      expect({ args, code: await place.work(...args) }).toEqual({ args, code: 0 });
      expect({ args, words: ran(place) }).toEqual({ args, words });
    }
  });

  test("of a task only, where it was told to", async () => {
    const place = await fill();
    expect(await place.work("-q", "*", "-t", "task-a")).toBe(0);
    expect(ran(place)).toEqual(["a9", "a1"]);
  });

  test("of no queue that is paused, and of it again when it is resumed", async () => {
    const place = await fill();
    const work = async (most: string) => (await place.lease("worker", "-q", "*", "--max-jobs", most)).code;
    expect(await place.lease("pause", "a", "c")).toEqual({ code: 0, stdout: "a paused\nc paused\n", stderr: "" });
    expect(await work("2")).toBe(0);
    expect(ran(place)).toEqual(["b1", "b-3"]);
    expect((await place.lease("inspect")).stdout).toMatch(/^a \(paused\)/m);
    expect(await place.lease("resume", "a")).toEqual({ code: 0, stdout: "a resumed\n", stderr: "" });
    expect(await work("2")).toBe(0);
    expect(ran(place)).toEqual(["b1", "b-3", "a9", "a1"]);
  });

  test("as many at a time as it has slots", async () => {
    const place = newPlace();
    await run(["mkfifo", join(place.folder, "meet")]);
    // Each needs the other to be running.
    await place.enqueue("--timeout", "10s", "-c", "echo here > meet");
    await place.enqueue("--timeout", "10s", "-c", "cat meet");
    expect(await place.work("-j", "2")).toBe(0);
    expect(await place.log(2)).toBe("here\n");
  });

  test("as many at a time as the backlog asks for, between --min and --max", async () => {
    const place = newPlace();
    await run(["mkfifo", join(place.folder, "meet")]);
    await place.enqueue("--timeout", "10s", "-c", "echo here > meet");
    await place.enqueue("--timeout", "10s", "-c", "cat meet");
    expect(await place.work("--min", "1", "--max", "2", "--scale-up-at", "1")).toBe(0);
    expect(await place.log(2)).toBe("here\n");
  });
});

describe("a worker is known", () => {
  test("by its name, queues and slots while it runs, and as stopped afterwards", async () => {
    const place = newPlace();
    await place.enqueue("-c", '"$LEASE" inspect --json > seen');
    expect(await place.work("--name", "builder", "-q", "default,mail", "-j", "3")).toBe(0);
    const workers = (text: string) => (JSON.parse(text) as { workers: Record<string, unknown>[] }).workers;
    const seen = workers(await Bun.file(join(place.folder, "seen")).text());
    const told = {
      name: "builder",
      queues: ["default", "mail"],
      slots: 3,
      version: expect.any(String),
      host: expect.any(String),
    };
    expect(seen).toMatchObject([{ ...told, state: "live", slots_processing: 1, stopped_at: null }]);
    const after = workers((await place.lease("inspect", "--json")).stdout);
    expect(after).toMatchObject([{ ...told, state: "stopped", slots_processing: 0, stopped_at: expect.any(String) }]);
  });
});

describe("a handler", () => {
  test("gets the words of each job behind its own, and the input", async () => {
    const place = newPlace();
    const ids = [
      await place.enqueue("--", "one", "two words", "--flag", ""),
      await place.enqueue("--input", "only input"),
      await place.enqueue("--input", "both", "--", "word"),
    ];
    const handler = ["sh", "-c", String.raw`printf '[%s]' "$@"; cat`, "handler", "own"];
    expect((await place.lease("worker", "--until-empty", "--", ...handler)).code).toBe(0);
    const logs = await Promise.all(ids.map((id) => place.log(id)));
    expect(logs).toEqual(["[own][one][two words][--flag][]\n", "[own]only input\n", "[own][word]both\n"]);
  });

  test("keeps its own flags", async () => {
    const place = newPlace();
    await place.enqueue("--", "x");
    expect((await place.lease("worker", "--until-empty", "--", "echo", "-n", "--once")).code).toBe(0);
    expect(await place.log(1)).toBe("--once x\n");
  });

  test("is not run where --log-dir is a file", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    expectRefusal(
      await place.lease("worker", "--log-dir", "lease.db", "--once"),
      2,
      "--log-dir lease.db is not a folder",
    );
    expect(await place.inspect(1)).toMatchObject({ state: "pending" });
  });

  test("without -- is taken for a queue that was meant, and nothing is run", async () => {
    const place = newPlace();
    const answer = await place.lease("worker", "mail", "--until-empty");
    expectRefusal(
      answer,
      2,
      "lease worker takes no words before --; did you mean -q mail? Or a handler goes behind --",
    );
  });

  test.each([
    ["./nosuch.sh", 127, "handler not found: ./nosuch.sh"],
    ["nosuch-program", 127, "handler not found: nosuch-program (on PATH)"],
    ["./plain.txt", 126, "handler not executable: ./plain.txt"],
  ])("that can't be run stops the worker at its start, not its jobs: %s", async (handler, code, message) => {
    const place = newPlace();
    writeFileSync(join(place.folder, "plain.txt"), "x");
    await place.enqueue("--", "x");
    expectRefusal(await place.lease("worker", "--until-empty", "--", handler), code, message);
    expect((await place.inspect(1)).state).toBe("pending");
  });

  test("by a path is the worker's, wherever the job was queued", async () => {
    const place = newPlace();
    writeFileSync(join(place.folder, "handle.sh"), '#!/bin/sh\necho handled "$@"\n', { mode: 0o755 });
    await place.enqueue("--cwd", "/", "--", "x");
    expect((await place.lease("worker", "--until-empty", "--", "./handle.sh")).code).toBe(0);
    expect(await place.log(1)).toBe("handled x\n");
  });
});

describe("a job", () => {
  test("is told about itself by LEASE_ variables, and by no others", async () => {
    const place = newPlace();
    await place.enqueue(
      "-q",
      "mail",
      "--task",
      "T",
      "--key",
      "K",
      "--retries",
      "1",
      "--backoff",
      "none",
      "-c",
      'env | grep ^LEASE_; test $LEASE_ATTEMPT = 2 || { "$LEASE" checkpoint "half way"; exit 1; }',
    );
    await place.enqueue("-q", "mail", "-c", "env | grep ^LEASE_");
    const env = { LEASE_TASK: "of another", LEASE_CHECKPOINT: "of another", LEASE_KEY: "of another" };
    expect((await place.leaseWith({ env }, "worker", "-q", "mail", "--until-empty")).code).toBe(0);
    const variables = (log: string) =>
      Object.fromEntries(
        log
          .trim()
          .split("\n")
          .map((line) => line.split(/=(.*)/s).slice(0, 2)) as [string, string][],
      );
    const first = variables((await place.lease("logs", "1", "--attempt", "1")).stdout);
    const usual = {
      LEASE_QUEUE: "mail",
      LEASE_STORE: place.store,
      LEASE_STORE_ID: expect.stringMatching(/^[0-9a-f-]{36}$/),
      LEASE_WORKER_ID: expect.stringMatching(/^[^.]+\.\d+\.\w+$/),
      LEASE_OUTPUT: expect.stringMatching(/^\//),
      LEASE_INTERVAL: "30000ms",
      LEASE_EXTENSION: "300000ms",
    };
    expect(first).toEqual({
      ...usual,
      LEASE_JOB_ID: "1",
      LEASE_ATTEMPT: "1",
      LEASE_TOKEN: "1",
      LEASE_TASK: "T",
      LEASE_KEY: "K",
    });
    const second = variables(await place.log(1));
    expect(second).toEqual({
      ...first,
      LEASE_ATTEMPT: "2",
      LEASE_TOKEN: "2",
      LEASE_CHECKPOINT: "half way",
      LEASE_OUTPUT: expect.any(String),
    });
    const other = variables(await place.log(2));
    expect(other).toEqual({ ...usual, LEASE_JOB_ID: "2", LEASE_ATTEMPT: "1", LEASE_TOKEN: "1" });
  });

  test("has as its result what it wrote into LEASE_OUTPUT, in its last attempt", async () => {
    const place = newPlace();
    const ids = [
      await place.enqueue("-c", "printf 'two\\nlines ü' > \"$LEASE_OUTPUT\""),
      await place.enqueue("-c", "true"),
      await place.enqueue("-c", ': > "$LEASE_OUTPUT"'),
      await place.enqueue("--retries", "0", "-c", 'echo partial > "$LEASE_OUTPUT"; exit 3'),
      await place.enqueue(
        "--retries",
        "1",
        "--backoff",
        "none",
        "-c",
        'echo "$LEASE_ATTEMPT" > "$LEASE_OUTPUT"; test "$LEASE_ATTEMPT" = 2',
      ),
      await place.enqueue("-c", 'mkdir "$LEASE_OUTPUT"'),
    ];
    await place.work("-j", "2");
    const outputs = await Promise.all(ids.map(async (id) => (await place.inspect(id)).output));
    expect(outputs).toEqual(["two\nlines ü", null, "", "partial\n", "2\n", null]);
  });

  test("can't hold its worker up with a LEASE_OUTPUT that is no file", async () => {
    const place = newPlace();
    await place.enqueue("-c", 'mkfifo "$LEASE_OUTPUT"');
    const argv = ["timeout", "--signal=KILL", "3", LEASE, "worker", "--until-empty"];
    expect(await run(argv, { cwd: place.folder, env: place.env })).toMatchObject({ code: 0 });
    expect(await place.inspect(1)).toMatchObject({ state: "completed", output: null });
  });
});

describe("what a worker says", () => {
  test("is one line per event on stderr, with the time and the level, and nothing on stdout", async () => {
    const place = newPlace();
    await place.enqueue("--retries", "1", "--backoff", "none", "--", "false");
    await place.enqueue("--", "echo", "not for the worker");
    const { code, stdout, stderr } = await place.lease("worker", "--until-empty");
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    const lines = stderr.trimEnd().split("\n");
    const event = (level: string, text: string) =>
      expect.stringMatching(new RegExp(`^\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z ${level} +${text}`));
    expect(lines).toEqual([
      event("info", "job 1: started$"),
      event("warn", "job 1: attempt 1 failed: exit code 1; again at once$"),
      event("info", "job 2: started$"),
      event("info", "job 2: completed$"),
      event("info", "job 1: started$"),
      event("warn", "job 1: failed for good: exit code 1$"),
      expect.stringMatching(/^1 done, 1 failed in \d+ms$/),
    ]);
  });

  test("is that what is left is paused, and how to let it go on", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    await place.lease("pause", "default");
    const worker = Bun.spawn([LEASE, "worker", "--until-empty"], {
      cwd: place.folder,
      env: place.env,
      stdin: "ignore",
      stdout: "ignore",
      stderr: "pipe",
    });
    let heard = "";
    for await (const piece of worker.stderr) {
      heard += new TextDecoder().decode(piece);
      if (heard.includes("`lease resume default`")) await place.lease("resume", "default");
    }
    expect(await worker.exited).toBe(0);
    expect(heard.match(/1 job is left in paused queues/g)).toHaveLength(1);
    expect(await place.inspect(1)).toMatchObject({ state: "completed" });
  });

  test("is not that an empty paused queue is to blame for a retry in another", async () => {
    const place = newPlace();
    await place.enqueue("-q", "b", "--retries", "1", "--backoff", "3s", "-c", '[ "$LEASE_ATTEMPT" = 2 ]');
    await place.lease("pause", "a");
    const { code, stderr } = await place.lease("worker", "-q", "a", "-q", "b", "--until-empty");
    expect(code).toBe(0);
    expect(stderr).not.toContain("paused");
  });

  test("is where else jobs wait when it found none", async () => {
    const place = newPlace();
    await place.enqueue("-q", "mail", "--", "true");
    const { code, stderr } = await place.lease("worker", "--until-empty");
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: "lease: nothing to do in queue default; jobs wait in mail (1): serve it with -q\n",
    });
  });

  test("is more with --verbose", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const { stderr } = await place.lease("worker", "--until-empty", "-v");
    expect(stderr).toContain("job 1: completed");
  });
});
