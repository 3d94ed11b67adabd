/** The lists of `inspect`: jobs, workers, leases, checkpoints. */

import { describe, expect, test } from "bun:test";
import { checkpointsText, jobsText, leasesText, type JobRow } from "../../src/view/lists.ts";
import { ansi } from "../../src/view/style.ts";
import { checkpointJson, jobTsv, leaseJson, TSV_NAMES, tsvHeader, tsvLine } from "../../src/view/json.ts";
import { displayWidth } from "../../src/view/text.ts";
import { workersText, workerState } from "../../src/view/workers.ts";
import { jobIn } from "../support/jobs.ts";
import { checkpoint, failed, HOUR_MS, MINUTE_MS, now_ms, running, screen, worker } from "./fixture.ts";

const jobsTsv = (shown: readonly JobRow[]) => shown.map((row) => tsvLine(TSV_NAMES.jobs, jobTsv(row, now_ms))).join("");

const rows = [
  { job: running(), reason: "40 % linking" },
  { job: failed(), reason: "silent 5m02s of 5m" },
];

describe("the list of jobs", () => {
  test("shows each job with its command and its reason", () => {
    expect(jobsText(rows, screen())).toBe(
      [
        " ID  STATE    RUNS     WHEN   TOOK  COMMAND                            REASON",
        "─".repeat(89),
        "128  running     ·   3m ago  3m12s  ./build.sh release 'x86_64 linux'  40 % linking",
        "101  failed      4  12m ago     2m  make -j8 all                       silent 5m02s of 5m",
        "",
      ].join("\n"),
    );
  });

  test("has columns for queue, task, key and priority only when a job uses them", () => {
    expect(jobsText(rows, screen())).not.toMatch(/QUEUE|TASK|KEY|PRIORITY/);
    const used = { job: running({ queue: "gpu", task: "nightly", key: "k", priority: 5 }), reason: null };
    const header = jobsText([used, ...rows], screen()).split("\n")[0] ?? "";
    expect(header.split(/ +/)).toEqual([
      "",
      "ID",
      "STATE",
      "QUEUE",
      "TASK",
      "KEY",
      "PRIORITY",
      "RUNS",
      "WHEN",
      "TOOK",
      "COMMAND",
      "REASON",
    ]);
  });

  test.each([40, 60, 80, 120])("fits into %d columns", (width) => {
    const lines = jobsText(rows, screen(width)).split("\n");
    expect(Math.max(...lines.map(displayWidth))).toBeLessThanOrEqual(width);
  });

  test("colours states when colour is wanted", () => {
    expect(jobsText(rows, screen(80, ansi))).toContain("\u001b[31mfailed\u001b[0m");
  });

  test("for pipes always has the same columns, and exact times", () => {
    const lines = jobsTsv(rows).trimEnd().split("\n");
    const names = tsvHeader(TSV_NAMES.jobs).trimEnd().split("\t");
    expect(lines.map((line) => line.split("\t").length)).toEqual([names.length, names.length]);
    const values = Object.fromEntries(names.map((name, at) => [name, lines[1]?.split("\t")[at]]));
    expect(values).toMatchObject({ id: "101", state: "failed", queue: "default", task: "", holder: "", exit_code: "" });
    expect(values).toMatchObject({ finished_at: "2026-05-02T09:48:00.000Z", runtime: "120.000" });
    expect(values).toMatchObject({ cause: "silent", reason: "silent 5m02s of 5m", command: "make -j8 all" });
  });

  test("can't be made to send escape sequences by a job", () => {
    const evil = "\u001b]0;owned\u0007\u009b2J\n";
    const job = running({ argv: [evil], queue: evil, task: evil, key: evil });
    for (const text of [jobsText([{ job, reason: evil }], screen(200)), jobsTsv([{ job, reason: evil }])]) {
      expect(text.replaceAll(/[\n\t]/g, "")).not.toMatch(/\p{Cc}/u);
    }
  });

  test("says so when it is empty", () => {
    expect(jobsText([], screen())).toBe("no jobs match\n");
    expect(jobsTsv([])).toBe("");
  });
});

describe("the list of workers", () => {
  test("tells who is live, missing, stopped and dead", () => {
    const states = [
      worker(),
      worker({ seen_at_ms: now_ms - 4 * MINUTE_MS }),
      worker({ stopped_at_ms: now_ms, ended: "clean" }),
      worker({ stopped_at_ms: now_ms, ended: "dead" }),
      worker({ draining: true }),
    ].map((record) => workerState(record, now_ms));
    expect(states).toEqual(["live", "missing", "stopped", "dead", "draining"]);
  });

  test("shows what each takes, how busy it is, what it has done, and each job with its last beat", () => {
    const record = worker({ name: "builder", queues: ["gpu", "mail"], completed: 150, failed: 5 });
    const text = workersText([{ worker: record, held: [running(), running({ id: 130 })] }], screen());
    expect(text.split("\n")[2]).toBe(
      "builder  live   ci-3  8841  gpu, mail  2 of 4        150       5   1d ago  1s ago  0.1.0    128 (2s ago), 130 (2s ago)",
    );
  });

  test("names a few of many jobs", () => {
    const held = [1, 2, 3, 4, 5, 6].map((id) => running({ id }));
    expect(workersText([{ worker: worker({ slots: 6 }), held }], screen())).toMatch(/ 4 \(2s ago\) and 2 more$/m);
  });

  test("tells of one that takes no more jobs", () => {
    expect(workersText([{ worker: worker({ draining: true }), held: [] }], screen())).toContain("draining");
  });

  test("says how to start one when there is none", () => {
    expect(workersText([], screen())).toContain("lease worker");
  });
});

describe("the list of leases", () => {
  test("shows who holds what, the last beat and the end", () => {
    expect(leasesText([running()], screen()).split("\n")[2]).toBe(
      "128  default      1  ci-3:8841:a1f  2s ago  in 4m  ./build.sh release 'x86_64 linux'",
    );
    const tsv = tsvLine(TSV_NAMES.leases, leaseJson(running(), now_ms));
    expect(tsv).toContain("\tfalse\t2026-05-02T10:04:01.000Z\t");
  });

  test("marks a lease that is over", () => {
    const state = {
      name: "running",
      holder: "w",
      expires_at_ms: now_ms - 12_000,
      cancel_requested_at_ms: null,
    } as const;
    expect(leasesText([jobIn(state)], screen(null, ansi))).toContain("\u001b[31mstale, 12s ago\u001b[0m");
    expect(leasesText([], screen())).toBe("no leases held\n");
  });
});

describe("the list of checkpoints", () => {
  const error = checkpoint({ kind: "error", at_ms: now_ms - 2 * HOUR_MS, text: "exit code 2\nmore" });

  test("shows each on one line", () => {
    expect(checkpointsText([checkpoint(), error], screen()).split("\n").slice(2)).toEqual([
      "101  1h ago  progress      1  page 41",
      String.raw`101  2h ago  error         1  exit code 2\nmore`,
      "",
    ]);
    expect(checkpointsText([], screen())).toBe("no checkpoints\n");
  });

  test("for pipes keeps the whole text", () => {
    expect(tsvLine(TSV_NAMES.checkpoints, checkpointJson(error))).toBe(
      "1\t101\t\terror\t1\t2026-05-02T08:00:00.000Z\texit code 2\\nmore\n",
    );
  });
});
