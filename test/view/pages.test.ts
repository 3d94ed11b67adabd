/** The two pages of `inspect`: the overview, and everything about one job. */

import { describe, expect, test } from "bun:test";
import { jobText, type JobPage } from "../../src/view/job.ts";
import { overviewText } from "../../src/view/overview.ts";
import { queuesText, summarizeQueues } from "../../src/view/queues.ts";
import { changedSettings } from "../../src/view/job.ts";
import { bar } from "../../src/view/progress.ts";
import { ansi, plain } from "../../src/view/style.ts";
import { displayWidth } from "../../src/view/text.ts";
import { DEFAULT_SETTINGS } from "../../src/core/job.ts";
import { end } from "../support/jobs.ts";
import { attempt, checkpoint, failed, HOUR_MS, now_ms, overview, running, screen } from "./fixture.ts";

const page = (overrides: Partial<JobPage> = {}): JobPage => ({
  job: failed({ queue: "builds", priority: 5, cwd: "/srv/app", env: { TOKEN: "secret-value" } }),
  reason: "silent 5m02s of 5m",
  learned: null,
  attempts: [
    attempt({
      started_at_ms: now_ms - 3 * HOUR_MS,
      ended_at_ms: now_ms - 3 * HOUR_MS + 302_000,
      end: end("silent", { error: "silent 5m02s of 5m", last_line: "\u001b[1mlinking…\u001b[0m" }),
    }),
    attempt({
      attempt: 2,
      host: "ci-1",
      started_at_ms: now_ms - 2 * HOUR_MS,
      ended_at_ms: now_ms - 2 * HOUR_MS + 12_000,
      end: end("exit", { exit_code: 2, error: "exit code 2", last_line: "make: *** Error 2" }),
    }),
  ],
  checkpoints: [checkpoint()],
  parents: [],
  last_lines: ["cc -c a.c", "\u001b[32mok\u001b[0m\tb.c"],
  show_env: false,
  ...overrides,
});

describe("the page of a job", () => {
  test("has a long reason below its head, in lines that fit", () => {
    const reason = 'silent on stdout, which is all that counts with --beat stdout, 2s of 2s, last line "x"';
    for (const paint of [plain, ansi]) {
      const text = Bun.stripANSI(jobText(page({ reason }), screen(40, paint)));
      expect(text.split("\n").slice(0, 4)).toEqual([
        expect.stringMatching(/^Job \d+ {2}failed$/),
        "  silent on stdout, which is all that",
        "  counts with --beat stdout, 2s of 2s,",
        '  last line "x"',
      ]);
    }
  });

  test("begins with its state, the reason and its command", () => {
    const [head, command] = jobText(page(), screen()).split("\n");
    expect(head).toBe("Job 101  failed  silent 5m02s of 5m");
    expect(command).toBe("$ make -j8 all");
  });

  test("shows its attempts as a timeline, one line each", () => {
    expect(jobText(page(), screen())).toContain(
      [
        "Attempts",
        "#  STARTED   TOOK  END                 EXIT  HOST  BEATS  LAST LINE",
        "─".repeat(75),
        "1   3h ago  5m02s  silent 5m02s of 5m     ·  ci-3    211  linking…",
        "2   2h ago    12s  exit                   2  ci-1    211  make: *** Error 2",
      ].join("\n"),
    );
  });

  test("shows what its environment is set to when somebody asks for it", () => {
    expect(jobText(page({ show_env: true }), screen())).toMatch(/^environment +TOKEN=secret-value$/m);
  });

  test("shows names of its environment and no value", () => {
    const text = jobText(page(), screen());
    expect(text).toMatch(/^environment +TOKEN$/m);
    expect(text).not.toContain("secret-value");
  });

  test("shows checkpoints and the last lines it printed", () => {
    const text = jobText(page(), screen());
    expect(text).toContain("1h ago  progress      1  page 41");
    expect(text).toContain("Last lines\n│ cc -c a.c\n│ ok    b.c\n");
  });

  test("shows when it was created, started and finished, and how long it took", () => {
    const text = jobText(page(), screen());
    expect(text).toMatch(/^created +2026-05-0\d \d\d:00:00 \(3h ago\)$/m);
    expect(text).toMatch(/^finished +2026-05-0\d \d\d:48:00 \(12m ago\), took 2m$/m);
  });

  test("shows lease and progress while it runs", () => {
    const job = running({ progress: 40, message: "linking" });
    const text = jobText(page({ job, reason: null, attempts: [attempt()] }), screen());
    expect(text).toMatch(/^lease +ends in 4m, token 1, held by ci-3:8841:a1f$/m);
    expect(text).toMatch(/^progress +━{8}─{12} 40 % linking$/m);
    expect(text).toMatch(/^1 +3m ago +3m12s +running/m);
  });

  test("leaves out what there is nothing to say about", () => {
    const text = jobText(page({ job: running(), attempts: [], checkpoints: [], last_lines: [] }), screen());
    expect(text).not.toMatch(/Attempts|Checkpoints|Last lines|task|key|input|queue/);
  });

  test.each([40, 60, 120])("keeps its tables within %d columns", (width) => {
    const lines = jobText(page(), screen(width)).split("\n");
    expect(Math.max(...lines.map(displayWidth))).toBeLessThanOrEqual(width);
  });

  test("can't be made to send escape sequences by anything in it", () => {
    const evil = "\u001b]0;owned\u0007\u009b2J";
    const job = running({ argv: [evil], cwd: evil, message: evil, task: evil, key: evil, env: { [evil]: evil } });
    const text = jobText(
      page({ job, reason: evil, last_lines: [evil], checkpoints: [checkpoint({ text: evil })] }),
      screen(),
    );
    expect(text.replaceAll("\n", "")).not.toMatch(/\p{Cc}/u);
  });
});

describe("settings", () => {
  test("that are the defaults are not worth a word", () => {
    expect(changedSettings(DEFAULT_SETTINGS)).toEqual([]);
  });

  test("that differ are told in words", () => {
    const changed = changedSettings({
      retries: 0,
      backoff: { first_ms: 2_000, factor: 3, max_ms: 300_000, jitter: 0.2 },
      retry_on: "lost",
      fatal_exit: [
        [2, 2],
        [64, 78],
      ],
      timeout_ms: 600_000,
      lease_ms: "auto",
      interval_ms: 2_000,
      extension_ms: 20_000,
      grace_ms: "never",
      on_failed: "./notify.sh",
      hook: null,
      aged: 0,
      beat: "timer",
      pty: true,
      log_limit_bytes: 1_536,
      output_limit_bytes: 0,
      memory_bytes: 2 ** 31,
      pids: 64,
      cpus: 0.5,
    });
    expect(changed).toEqual([
      "no retries",
      "backoff 2s ×3 to 5m",
      "retried only when its worker is lost",
      "exit 2,64-78 not retried",
      "timeout 10m",
      "lease auto",
      "interval 2s",
      "extension 20s",
      "beats by timer",
      "grace never",
      "when it fails: ./notify.sh",
      "on a terminal (pty)",
      "memory up to 2 GiB",
      "up to 64 processes",
      "up to 0.5 processors",
      "log up to 1.5 KiB",
      "output up to 0 B",
    ]);
  });
});

describe("the overview", () => {
  test("shows queues by state, paused ones marked, and empty ones only when paused", () => {
    expect(queuesText(overview().queues, screen())).toBe(
      [
        "QUEUE          RUNNING  PENDING  SCHEDULED  BLOCKED  COMPLETED  FAILED  CANCELLED  WORKERS",
        "─".repeat(90),
        "default              ·       12          ·        ·      18204       ·          ·        1",
        "gpu (paused)         1        ·          ·        ·          ·       ·          ·        2",
        "mail (paused)        ·        ·          ·        ·          ·       ·          ·        1",
        "",
      ].join("\n"),
    );
  });

  test("sums counts of one queue and state", () => {
    const count = { queue: "q", state: "failed", count: 2 } as const;
    expect(summarizeQueues({ counts: [count, count], paused: [], served: [] })[0]?.counts.failed).toBe(4);
  });

  test("tells jobs that retry or cancel from those that only wait or run", () => {
    const counts = [
      { queue: "q", state: "scheduled", count: 5 },
      { queue: "q", state: "running", count: 3 },
    ] as const;
    const split = { retrying: new Map([["q", 2]]), cancelling: new Map([["q", 7]]) };
    expect(summarizeQueues({ counts, paused: [], served: [], ...split })[0]?.counts).toMatchObject({
      scheduled: 3,
      retrying: 2,
      running: 0,
      cancelling: 3,
    });
  });

  test("ends its queues with what they are together, where there are several", () => {
    expect(overviewText(overview(), screen())).toMatch(/^all queues +1 +12 +· +· +18204 +· +· +1$/m);
  });

  test("tells of leases, workers, retries and recovery in a line each", () => {
    const text = overviewText(overview(), screen());
    expect(text).toMatch(/^Leases +3 held, 1 stale, next ends in 2m$/m);
    expect(text).toMatch(/^Workers +1 live, 1 of 4 slots busy, 1 missing, 150 completed, 5 failed$/m);
    expect(text).toMatch(/^Retries +812 ended without one, 40 after 1$/m);
    expect(text).toMatch(/^Recovery +7 found, 6 recovered, 1 failed, 1 orphan killed \(85 % saved\); last 40s ago$/m);
  });

  test("lists workers that are there and the latest failures", () => {
    const text = overviewText(overview(), screen());
    expect(text).toMatch(/^builder +live/m);
    expect(text).not.toMatch(/^old /m);
    expect(text).toMatch(/^101 +12m ago +make -j8 all +silent 5m02s of 5m$/m);
  });

  test.each([60, 120])("fits into %d columns", (width) => {
    const lines = overviewText(overview(), screen(width)).split("\n");
    expect(Math.max(...lines.map(displayWidth))).toBeLessThanOrEqual(width);
  });

  test("of an empty store says how to begin", () => {
    const empty = { queues: [], workers: [], retries: [], failures: [], recovery: null };
    const text = overviewText({ ...empty, leases: { held: 0, stale: 0, next_expires_at_ms: null } }, screen());
    expect(text).toContain("lease enqueue -- COMMAND");
    expect(text).toMatch(/^Workers +none live$/m);
    expect(text).toMatch(/^Recovery +nothing so far$/m);
  });

  test("is the same with colour, but for the colour", () => {
    const coloured = overviewText(overview(), screen(100, ansi));
    expect(coloured).toContain("\u001b[31m1 stale\u001b[0m");
    expect(Bun.stripANSI(coloured)).toBe(overviewText(overview(), screen(100)));
  });
});

test("a bar is as long as asked, whatever the fraction", () => {
  expect([-1, 0, 0.5, 1, 7].map((fraction) => bar(fraction, 4, plain))).toEqual([
    "────",
    "────",
    "━━──",
    "━━━━",
    "━━━━",
  ]);
});

describe("the page of a job whose lease is learned", () => {
  test("says what it is and what from", () => {
    const learned = { runs: 23, gaps: {}, gap_ms: 12_000, lease_ms: 36_000 };
    const text = jobText(page({ job: failed({ queue: "builds" }), learned }), screen());
    expect(text).toContain("36s from 23 runs of queue builds, 99 % of whose gaps between beats were up to 12s");
  });

  test("says what is missing until enough is known", () => {
    const learned = { runs: 1, gaps: {}, gap_ms: 12_000, lease_ms: null };
    const text = jobText(page({ job: failed({ key: "nightly" }), learned }), screen());
    expect(text).toContain("5m until 20 runs are seen; so far 1 run of key nightly");
  });
});
