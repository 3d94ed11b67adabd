import { describe, expect, test } from "bun:test";
import {
  attemptJson,
  checkpointJson,
  jobDetailJson,
  jobJson,
  jsonLine,
  leaseJson,
  overviewJson,
  queueJson,
  workerJson,
} from "../../src/view/json.ts";
import { end, jobIn } from "../support/jobs.ts";
import type { WorkerRecord } from "../../src/core/records.ts";
import { attempt, checkpoint, now_ms, overview, running, worker } from "./fixture.ts";

const JOB_NAMES =
  "schema id state queue task key priority argv input cwd retries attempts retries_left token holder expires_at " +
  "last_beat_at progress message exit_code cause error output reason created_at run_at started_at finished_at limit need";
const ATTEMPT_NAMES =
  "attempt token worker host pid started_at ended_at cause exit_code signal last_line beats extensions extension_failures extension_refusals error fence cpu_ms memory_bytes";

const names = (value: object) => Object.keys(value).join(" ");

describe("a job in JSON", () => {
  test("has exactly the promised names, in their order", () => {
    expect(names(jobJson(jobIn({ name: "blocked" })))).toBe(JOB_NAMES);
    expect(names(jobJson(running()))).toBe(JOB_NAMES);
  });

  test("has null for what is absent", () => {
    const json = jobJson(jobIn({ name: "pending", run_at_ms: 0 }));
    expect(json).toMatchObject({ schema: 1, task: null, key: null, input: null, holder: null, expires_at: null });
    expect(json).toMatchObject({ last_beat_at: null, exit_code: null, cause: null, finished_at: null, reason: null });
    expect(Object.values(json)).not.toContain(undefined);
  });

  test("has times in UTC with milliseconds", () => {
    expect(jobJson(running())).toMatchObject({
      holder: "ci-3:8841:a1f",
      expires_at: "2026-05-02T10:04:01.000Z",
      started_at: "2026-05-02T09:56:48.000Z",
      finished_at: null,
    });
  });

  test("has the state that is shown, and the time of the next run", () => {
    const retrying = jobIn({ name: "scheduled", run_at_ms: now_ms }, { token: 2, failures: 2, run_at_ms: 5 });
    expect(jobJson(retrying)).toMatchObject({
      state: "retrying",
      attempts: 2,
      token: 2,
      retries: 3,
      retries_left: 1,
      run_at: "2026-05-02T10:00:00.000Z",
    });
    const state = { name: "running", holder: "w", expires_at_ms: now_ms, cancel_requested_at_ms: now_ms } as const;
    expect(jobJson(jobIn(state)).state).toBe("cancelling");
  });

  test("has its input as text, and replacement characters for what is no text", () => {
    const input = new Uint8Array([0xef, 0xbb, 0xbf, 0x61, 0xff, 0x62]);
    expect(jobJson(jobIn({ name: "blocked" }, { input })).input).toBe("\ufeffa\ufffdb");
  });

  test("has the reason that was found, or else its own", () => {
    const job = jobIn({ name: "blocked" }, { reason: "its own" });
    expect(jobJson(job).reason).toBe("its own");
    expect(jobJson(job, "found").reason).toBe("found");
  });
});

describe("around a job", () => {
  test("an attempt has exactly the promised names", () => {
    const json = attemptJson(attempt({ end: end("silent", { last_line: "linking…" }), ended_at_ms: now_ms, beats: 7 }));
    expect(names(json)).toBe(ATTEMPT_NAMES);
    expect(json).toMatchObject({ cause: "silent", exit_code: null, last_line: "linking…", beats: 7, pid: 8841 });
  });

  test("an attempt that still runs has no end", () => {
    expect(attemptJson(attempt({ process: null }))).toMatchObject({
      ended_at: null,
      cause: null,
      signal: null,
      pid: null,
    });
  });

  const details = {
    reason: "x",
    learned: null,
    parents: [],
    attempts: [attempt()],
    checkpoints: [checkpoint()],
    show_env: false,
  };

  test("an error checkpoint is told as JSON, with times as everywhere", () => {
    const text = JSON.stringify({ cause: "expired", retry_count: 2, granted_at_ms: now_ms, expires_at_ms: null });
    expect(checkpointJson(checkpoint({ kind: "error", text })).error).toEqual({
      cause: "expired",
      retry_count: 2,
      granted_at: new Date(now_ms).toISOString(),
      expires_at: null,
    });
    expect(checkpointJson(checkpoint({ kind: "error", text: "[damaged" })).error).toBeNull();
    expect(checkpointJson(checkpoint({ kind: "progress", text })).error).toBeNull();
  });

  test("the settings of a job are told by the names by which they are asked for", () => {
    const own = { lease_ms: 90_000, timeout_ms: 1_234, grace_ms: "never" as const, on_failed: "x" };
    const job = { ...running(), settings: { ...running().settings, ...own } };
    const { settings } = jobDetailJson(job, details);
    expect(settings).toMatchObject({
      lease: "1m30s",
      timeout: "1234ms",
      grace: "never",
      on_failed: "x",
      extension: null,
    });
  });

  test("the details of a job are the job with its history and checkpoints", () => {
    const json = jobDetailJson(running({ env: { A: "1" } }), details);
    expect(names(json)).toBe(
      `${JOB_NAMES} settings depends_on extensions extension_failures extension_refusals history checkpoints`,
    );
    expect(json).toMatchObject({ reason: "x", history: [{ attempt: 1 }], checkpoints: [{ text: "page 41" }] });
  });

  test("what was learned about its lease is in it where that is learned", () => {
    const learned = { runs: 23, gaps: { "40": 12 }, gap_ms: 45, lease_ms: 30_000 };
    expect(jobDetailJson(running(), { ...details, learned })).toMatchObject({
      learned: { runs: 23, gap_ms: 45, lease_ms: 30_000 },
    });
  });

  test("the values of its environment are in it only when somebody asked", () => {
    const job = running({ env: { A: "1" } });
    expect(JSON.stringify(jobDetailJson(job, details))).not.toContain('"A"');
    expect(jobDetailJson(job, { ...details, show_env: true })).toMatchObject({ env: { A: "1" } });
  });

  test("a checkpoint, a worker, a queue and a lease are flat objects", () => {
    const flat = [
      checkpointJson(checkpoint()),
      workerJson({ worker: worker(), held: [running()] }, now_ms),
      queueJson({ queue: "mail", paused: true, workers: 1, counts: overview().queues[0]?.counts ?? never() }),
      leaseJson(running(), now_ms),
    ];
    expect(flat.map(names)).toEqual([
      "id job task kind token at text error",
      "id name state host pid version queues task slots slots_idle slots_processing slots_draining slots_stopped completed failed current started_at seen_at stopped_at have",
      "queue paused workers running cancelling pending scheduled retrying blocked completed failed cancelled",
      "id state queue task token holder stale expires_at last_beat_at minutes_since_beat minutes_since_expiry started_at",
    ]);
  });

  test("a lease is stale once it is over, and tells for how long", () => {
    expect(leaseJson(running(), now_ms)).toMatchObject({
      stale: false,
      minutes_since_beat: 0.03,
      minutes_since_expiry: null,
    });
    expect(leaseJson(running(), now_ms + 600_000)).toMatchObject({ stale: true, minutes_since_expiry: 5.98 });
  });

  test("a worker's slots add up, whatever it does", () => {
    const held = [running(), running({ id: 129 })];
    const slots = (record: Partial<WorkerRecord>) => {
      const json = workerJson({ worker: worker({ slots: 4, ...record }), held }, now_ms);
      return [json.state, json.slots_idle, json.slots_processing, json.slots_draining, json.slots_stopped];
    };
    expect(slots({})).toEqual(["live", 2, 2, 0, 0]);
    expect(slots({ slots: 1 })).toEqual(["live", 0, 1, 0, 0]);
    expect(slots({ draining: true })).toEqual(["draining", 0, 0, 2, 2]);
    expect(slots({ stopped_at_ms: now_ms, ended: "dead" })).toEqual(["dead", 0, 0, 0, 4]);
  });

  test("a worker names the jobs it has, and their last beats", () => {
    expect(workerJson({ worker: worker(), held: [running()] }, now_ms).current).toEqual([
      { job: 128, attempt: 1, last_beat_at: "2026-05-02T09:59:58.000Z" },
    ]);
  });
});

describe("the overview in JSON", () => {
  test("has exactly the promised names", () => {
    const json = overviewJson(overview(), now_ms);
    expect(names(json)).toBe("schema queues workers leases retries recovery failures");
    expect(json.recovery).toMatchObject({ expired_found: 7, rate: 6 / 7, last_at: "2026-05-02T09:59:20.000Z" });
    expect(json.failures[0]).toMatchObject({ schema: 1, state: "failed" });
  });

  test("has no recovery before the first sweep", () => {
    expect(overviewJson({ ...overview(), recovery: null }, now_ms).recovery).toBeNull();
  });
});

describe("a line of JSON", () => {
  test("carries the schema, once", () => {
    expect(jsonLine({ id: 1 })).toBe('{"schema":1,"id":1}\n');
    expect(jsonLine({ schema: 1, id: 1 })).toBe('{"schema":1,"id":1}\n');
  });

  test("has nothing in it that a terminal would obey, and still says the same", () => {
    const text = "\u001b[2J\u009b31m\u007f\u202e\\x7f";
    const line = jsonLine({ text });
    expect(line.trimEnd()).toMatch(/^[ -~]*$/);
    expect(JSON.parse(line)).toEqual({ schema: 1, text });
  });
});

function never(): never {
  throw new Error("the fixture has a queue");
}
