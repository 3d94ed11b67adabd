/** The names in JSON, exactly as SPEC §4 promises them to scripts. */

import { describe, expect, test } from "bun:test";
import { usePlaces } from "./lease.ts";

const newPlace = usePlaces();

const JOB =
  `schema id state queue task key priority argv input cwd retries attempts retries_left token holder expires_at
  last_beat_at progress message exit_code cause error output reason created_at run_at started_at finished_at limit need`.split(
    /\s+/,
  );
const ATTEMPT =
  "attempt token worker host pid started_at ended_at cause exit_code signal last_line beats extensions extension_failures extension_refusals error fence cpu_ms memory_bytes".split(
    " ",
  );
const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

const parse = (text: string) => JSON.parse(text) as Record<string, unknown>;

describe("a job", () => {
  test("has all its names from the beginning, absent values as null", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const job = parse((await place.lease("inspect", "1", "--json")).stdout);
    expect(Object.keys(job)).toEqual([
      ...JOB,
      "settings",
      "depends_on",
      "extensions",
      "extension_failures",
      "extension_refusals",
      "history",
      "checkpoints",
    ]);
    expect(job).toEqual({
      schema: 1,
      id: 1,
      state: "pending",
      queue: "default",
      task: null,
      key: null,
      priority: 0,
      argv: ["true"],
      input: null,
      cwd: place.folder,
      retries: 3,
      attempts: 0,
      retries_left: 3,
      token: 0,
      holder: null,
      expires_at: null,
      last_beat_at: null,
      progress: null,
      message: null,
      exit_code: null,
      cause: null,
      error: null,
      output: null,
      reason: "no worker serves queue default",
      created_at: expect.stringMatching(RFC_3339),
      run_at: expect.stringMatching(RFC_3339),
      started_at: null,
      finished_at: null,
      limit: expect.anything(),
      need: expect.anything(),
      settings: expect.objectContaining({ retries: 3, lease: null, on_failed: null }),
      depends_on: [],
      extensions: 0,
      extension_failures: 0,
      extension_refusals: 0,
      history: [],
      checkpoints: [],
    });
  });

  test("has the same names while it runs and when it has ended, with its attempts as history", async () => {
    const place = newPlace();
    const script = `"$LEASE" beat --progress 40 --message linking; "$LEASE" checkpoint here
      "$LEASE" inspect 1 --json >&2; printf result > "$LEASE_OUTPUT"; exit 3`;
    await place.enqueue("--retries", "0", "-c", script);
    await place.work();
    const running = parse((await place.lease("logs", "1", "--stream", "stderr")).stdout);
    expect(Object.keys(running)).toEqual([
      ...JOB,
      "settings",
      "depends_on",
      "extensions",
      "extension_failures",
      "extension_refusals",
      "history",
      "checkpoints",
    ]);
    expect(running).toMatchObject({
      state: "running",
      attempts: 1,
      token: 1,
      holder: expect.any(String),
      expires_at: expect.stringMatching(RFC_3339),
      last_beat_at: expect.stringMatching(RFC_3339),
      progress: 40,
      message: "linking",
      started_at: expect.stringMatching(RFC_3339),
      history: [{ attempt: 1, ended_at: null, cause: null }],
    });
    const ended = parse((await place.lease("inspect", "1", "--json")).stdout);
    expect(Object.keys(ended)).toEqual([
      ...JOB,
      "settings",
      "depends_on",
      "extensions",
      "extension_failures",
      "extension_refusals",
      "history",
      "checkpoints",
    ]);
    expect(ended).toMatchObject({
      state: "failed",
      holder: null,
      expires_at: null,
      exit_code: 3,
      cause: "exit",
      error: "exit code 3",
      output: "result",
      retries_left: 0,
      finished_at: expect.stringMatching(RFC_3339),
    });
    const [attempt] = ended["history"] as Record<string, unknown>[];
    expect(Object.keys(attempt ?? {})).toEqual(ATTEMPT);
    expect(attempt).toMatchObject({
      attempt: 1,
      token: 1,
      worker: running["holder"],
      pid: expect.any(Number),
      started_at: expect.stringMatching(RFC_3339),
      ended_at: expect.stringMatching(RFC_3339),
      cause: "exit",
      exit_code: 3,
      signal: null,
      beats: expect.any(Number),
    });
    const checkpoints = ended["checkpoints"] as Record<string, unknown>[];
    expect(checkpoints.map((checkpoint) => checkpoint["kind"])).toEqual(["error", "progress"]);
    for (const checkpoint of checkpoints) {
      expect(Object.keys(checkpoint)).toEqual(["id", "job", "task", "kind", "token", "at", "text", "error"]);
    }
  });

  test("has the causes that SPEC §4 lists", async () => {
    const place = newPlace();
    const ends: [string[], object][] = [
      [["true"], { cause: "success", exit_code: 0, signal: null }],
      [["sh", "-c", "exit 7"], { cause: "exit", exit_code: 7, signal: null }],
      [["sh", "-c", "kill -SEGV $$"], { cause: "signal", exit_code: null, signal: "SIGSEGV" }],
      [["no-such-command"], { cause: "not_found", exit_code: 127 }],
      [["/etc/passwd"], { cause: "not_executable", exit_code: 126 }],
    ];
    for (const [argv] of ends) await place.enqueue("--retries", "0", "--", ...argv);
    await place.enqueue("--retries", "0", "--timeout", "50ms", "--", "sleep", "60");
    await place.work("-j", "2");
    for (const [index, [, end]] of [...ends, [[], { cause: "timeout" }] as const].entries()) {
      expect((await place.inspect(index + 1)).history).toMatchObject([end]);
    }
  });

  test("is one line each when several are asked for", async () => {
    const place = newPlace();
    for (let n = 0; n < 3; n++) await place.enqueue("--input", "two\nlines", "--", "true");
    const { stdout } = await place.lease("inspect", "1-3", "--json");
    expect(
      stdout
        .trimEnd()
        .split("\n")
        .map((line) => parse(line)["id"]),
    ).toEqual([1, 2, 3]);
  });
});

describe("the overview", () => {
  const NAMES = ["schema", "queues", "workers", "leases", "retries", "recovery", "failures"];

  test("has all its names in an empty store", async () => {
    const place = newPlace();
    await place.lease("watchdog", "--once");
    const overview = parse((await place.lease("inspect", "--json")).stdout);
    expect(Object.keys(overview)).toEqual(NAMES);
    expect(overview).toMatchObject({
      schema: 1,
      queues: [],
      workers: [],
      leases: { held: 0, stale: 0 },
      retries: [],
      failures: [],
    });
  });

  test("counts jobs by queue and state, retries, and shows the latest failures as jobs", async () => {
    const place = newPlace();
    await place.enqueue("-q", "a", "--", "true");
    await place.enqueue("-q", "a", "--retries", "1", "--backoff", "none", "--", "false");
    await place.enqueue("-q", "b", "--delay", "1h", "--", "true");
    await place.work("-q", "*");
    await place.enqueue("-q", "c", "--backoff", "1h", "--", "false");
    await place.lease("worker", "-q", "c", "--max-jobs", "1");
    const overview = parse((await place.lease("inspect", "--json")).stdout);
    expect(Object.keys(overview)).toEqual(NAMES);
    const none = {
      paused: false,
      workers: 0,
      blocked: 0,
      scheduled: 0,
      pending: 0,
      running: 0,
      completed: 0,
      failed: 0,
      cancelled: 0,
      cancelling: 0,
      retrying: 0,
    };
    expect(overview["queues"]).toEqual([
      { queue: "a", ...none, completed: 1, failed: 1 },
      { queue: "b", ...none, scheduled: 1 },
      { queue: "c", ...none, retrying: 1 },
    ]);
    const queues = (await place.lease("inspect", "queues", "--json")).stdout.trimEnd().split("\n");
    expect(queues.map((line) => ({ ...parse(line), schema: 1 }))).toEqual(
      (overview["queues"] as object[]).map((queue) => ({ schema: 1, ...queue })),
    );
    expect(overview["retries"]).toEqual([
      { retries: 0, jobs: 1 },
      { retries: 1, jobs: 1 },
    ]);
    expect(overview["leases"]).toEqual({ held: 0, stale: 0, next_expires_at: null });
    const failures = overview["failures"] as Record<string, unknown>[];
    expect(failures.map((job) => job["id"])).toEqual([2]);
    expect(Object.keys(failures[0] ?? {})).toEqual(JOB);
    const [worker] = overview["workers"] as Record<string, unknown>[];
    expect(Object.keys(worker ?? {})).toEqual(
      `id name state host pid version queues task slots slots_idle slots_processing slots_draining slots_stopped completed failed
        current started_at seen_at stopped_at have`.split(/\s+/),
    );
    expect(worker).toMatchObject({ queues: null, state: "stopped" });
  });
});
