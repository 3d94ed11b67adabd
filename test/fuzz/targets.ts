/**
 * Everything that reads what others wrote. A target gets one input after the other and must end each in one of two ways:
 * an answer that is right by itself, or a `LeaseError` whose exit code is that of what was done wrong. All else, a
 * TypeError, a hang, an answer that contradicts itself, is a finding.
 */

import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseAt } from "../../src/config/at.ts";
import { readConfig } from "../../src/config/file.ts";
import { jobOfLine } from "../../src/config/job_json.ts";
import { storeLocation } from "../../src/config/location.ts";
import { formatDuration, LONGEST_MS, parseDuration } from "../../src/core/duration.ts";
import { gateText, readGate } from "../../src/core/gate.ts";
import { draftJob } from "../../src/core/draft.ts";
import { JOB_FIELDS } from "../../src/core/job_fields.ts";
import { nearest } from "../../src/core/nearest.ts";
import * as plan_values from "../../src/core/plan_values.ts";
import { dueTimes, type Schedule } from "../../src/core/schedule.ts";
import * as value_lists from "../../src/core/value_lists.ts";
import * as values from "../../src/core/values.ts";
import { firstTime, timesAhead, timesOf } from "../../src/recovery/schedule_times.ts";
import { LogCapture } from "../../src/runner/log/capture.ts";
import { decodeChunk, encodeChunk } from "../../src/runner/log/chunk.ts";
import { LineCounter, Tail } from "../../src/runner/log/tail.ts";
import { parseTarget, passwordIn, urlForJobs } from "../../src/store/postgres/session/url.ts";
import { toLogChunk } from "../../src/store/shared/log_rows.ts";
import { toHeld } from "../../src/store/shared/room.ts";
import * as rows from "../../src/store/shared/rows.ts";
import { toSchedule } from "../../src/store/shared/schedules.ts";
import { attemptJson, checkpointJson, jobJson, jsonLine } from "../../src/view/json.ts";
import { TerminalFilter } from "../../src/view/terminal_filter.ts";
import { displayWidth, truncate, visible, withoutPassword, wrap } from "../../src/view/text.ts";
import type { Chance } from "../sim/chance.ts";
import { commandLine } from "./command_lines.ts";
import { cell, garbled, noise, type Words } from "./inputs.ts";

export interface Target {
  /** How often, of all inputs of a run: as parts of their sum. */
  share: number;
  /** Ends like `LeaseError`s of these codes. */
  codes: readonly number[];
  /** Makes an input and reads it; `told` gets the input before it is read, so that it can be named. */
  go: (chance: Chance, told: (input: unknown) => void) => unknown;
}

const USAGE = [2];
const NOW_MS = Date.UTC(2026, 2, 28, 22, 30);

function holds(condition: boolean, what: string): void {
  if (!condition) throw new Error(`contradiction: ${what}`);
}

/** A target whose input is one text. */
function text(share: number, words: Words, read: (given: string) => unknown, codes = USAGE): Target {
  const go = (chance: Chance, told: (input: unknown) => void) => {
    const given = garbled(words, chance);
    told(given);
    return read(given);
  };
  return { share, codes, go };
}

const DURATIONS: Words = {
  samples: ["500ms", "30s", "5m", "2h", "1d", "1h30m", "1.5h"],
  parts: ["1", "0", ".", "ms", "s", "m", "h", "d", "w", "-", " "],
};

const duration = text(8, DURATIONS, (given) => {
  const ms = parseDuration(given, "--lease");
  holds(Number.isFinite(ms) && ms >= 0 && ms <= LONGEST_MS, `${given} is ${ms} ms`);
  holds(/^[\d.a-z<]+$/.test(formatDuration(ms)), `${ms} ms is ${formatDuration(ms)}`);
});

const at = text(
  8,
  {
    samples: [
      "18:30",
      "today 18:30",
      "tomorrow 9:00",
      "2026-12-24 18:00",
      "2026-12-24T18:00:00+01:00",
      "2026-03-29 02:30",
    ],
    parts: ["2026", "-", "12", "24", "T", ":", "30", "z", "+01:00", "today ", "tomorrow ", ".", "99", " "],
  },
  (given) => {
    const at_ms = parseAt(given, "--at", NOW_MS);
    holds(Number.isInteger(at_ms) && at_ms >= NOW_MS - 60_000 && at_ms <= NOW_MS + LONGEST_MS, `${given} is ${at_ms}`);
  },
);

const ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC", "Asia/Kathmandu", "Nowhere/Land", ""];
const CRONS: Words = {
  samples: [
    "*/5 * * * *",
    "0 3 * * *",
    "30 2 * * 0",
    "0 0 29 2 *",
    "0 0 30 2 *",
    "@daily",
    "0 9-17/2 * * MON-FRI",
    "0 0 L * *",
    "0 0 * * 5#3",
    "15,45 * 1 1 *",
  ],
  parts: ["*", "/", "-", ",", "0", "5", "59", "60", "L", "W", "#", "MON", "JAN", "@hourly", " ", "?"],
};
const cron: Target = {
  share: 3,
  codes: USAGE,
  async go(chance, told) {
    const settings = {
      name: "s",
      job: draftJob("/"),
      cron: garbled(CRONS, chance),
      every_ms: null,
      zone: chance.pick(ZONES) || null,
      overlap: "skip",
      catch_up: "all",
      jitter_ms: 0,
    } as const;
    told(settings);
    const first_ms = await firstTime(settings, NOW_MS);
    const next = await timesOf({ ...settings, set_at_ms: NOW_MS });
    const ahead = timesAhead(next, NOW_MS, 3);
    holds(first_ms > NOW_MS && ahead[0] === first_ms, `the first is ${first_ms} of ${ahead.join(", ")}`);
    holds(
      ahead.every((time_ms, index) => index === 0 || time_ms > (ahead[index - 1] ?? 0)),
      `times fall: ${ahead.join(", ")}`,
    );
    const schedule = {
      ...settings,
      set_at_ms: NOW_MS,
      paused: false,
      next_at_ms: first_ms,
      last_at_ms: null,
      last_job: null,
    };
    dueTimes(schedule as unknown as Schedule, next, first_ms + 1);
  },
};

const CONTEXT = {
  env: { HOME: "/root", A: "1" },
  folder: (path: string) => join("/", path),
  moment: (given: string, name: string) => parseAt(given, name, NOW_MS),
  input: (given: string) => new TextEncoder().encode(given),
};
const JSON_PARTS = [
  "{",
  "}",
  "[",
  "]",
  ":",
  ",",
  '"',
  "\\u0000",
  "1",
  "-1",
  "null",
  "true",
  ...Object.keys(JOB_FIELDS).map((name) => `"${name}":`),
];
const line = text(
  12,
  {
    samples: [
      '{"argv":["echo","hi"],"queue":"mail","lease":"30s","retries":3}',
      '{"shell":"a | b","after":[3,4],"env":{"A":"1"},"backoff":"1s..10m","key":"k"}',
      '{"input":"text","priority":-5,"at":"tomorrow 9:00","need":{"gpu":1},"limit":["a"],"fatal_exit":"2,64-78"}',
      '{"argv":["x"],"timeout":"1h","grace":"never","memory":"1G","pids":5,"cpus":1.5,"on_failed":["mail","me"]}',
    ],
    parts: JSON_PARTS,
  },
  (given) => {
    const job = jobOfLine(given, draftJob("/"), CONTEXT);
    holds(
      job.argv.every((word) => !word.includes("\0")),
      "NUL in argv",
    );
    holds(job.queue !== "" && job.settings.retries >= 0, "a job that no store takes");
  },
);

const folder = mkdtempSync(join(tmpdir(), "lease-fuzz-"));
const toml_path = join(folder, "lease.toml");
writeFileSync(toml_path, "");
chmodSync(toml_path, 0o600);
const toml = text(
  5,
  {
    samples: [
      'store = "x.db"\ncolor = "never"\n[worker]\nslots = 4\nqueue = ["a", "b"]\n',
      '[enqueue]\nretries = 5\nbackoff = "1s..1m"\non_failed = ["mail"]\n',
      '[watchdog]\nevery = "1m"\n',
    ],
    parts: [
      "[",
      "]",
      "=",
      '"',
      "'''",
      "\n",
      "worker",
      "slots",
      "queue",
      "true",
      "1979-05-27T07:32:00Z",
      "0xff",
      "inf",
      "{ a = 1 }",
      ".",
      "#",
    ],
  },
  (given) => {
    writeFileSync(toml_path, given);
    const config = readConfig({ path: toml_path, named: true } as Parameters<typeof readConfig>[0], {});
    for (const [table, key] of [
      [null, "store"],
      [null, "__proto__"],
      ["worker", "slots"],
      ["worker", "constructor"],
    ] as const) {
      const value = config.value(table, key);
      holds(
        value === undefined || typeof value === "string" || typeof value === "boolean" || Array.isArray(value),
        `${key} is ${typeof value}`,
      );
    }
  },
);

const ALL_VALUES = (
  [
    ...Object.values(values),
    ...Object.values(plan_values),
    ...Object.values(value_lists),
    values.integer({ min: 1, max: 9 }),
  ] as unknown[]
).filter((value): value is values.Value<unknown> => typeof value === "object" && value !== null && "schema" in value);
const VALUE_WORDS: Words = {
  samples: [
    "7 9-12",
    "7,9-12",
    "2,64-78",
    "1s..10m",
    "fixed:30s",
    "A,B=1",
    "stale=5m,oldest=1h,failed=10/1h",
    "127.0.0.1:9464",
    "[::1]:80",
    "64k",
    "1.5G",
    "10/1m",
    "gpu=0,1",
    "mem=32G",
    "gpu=0-7",
    "1-100",
    "never",
    "auto",
    "50%",
    "1h",
  ],
  parts: ["1", "0", "-", ",", "=", "/", ":", ".", "..", "G", "k", "s", "m", "gpu", "A", "[", "]"],
};
const value: Target = {
  share: 25,
  codes: USAGE,
  go(chance, told) {
    const [of, given] = [chance.pick(ALL_VALUES), garbled(VALUE_WORDS, chance)];
    told([of.hint, given]);
    const read = values.readValue(of, given, "--flag");
    holds(read !== undefined && !Number.isNaN(read), `${given} is ${String(read)}`);
    if (typeof read === "function")
      holds(Number.isFinite((read as (now_ms: number) => number)(NOW_MS)), `${given} is no time`);
  },
};

const url = text(
  8,
  {
    samples: [
      "postgres://app:s3cret@db.example:5433/jobs?schema=lease&sslmode=require",
      "postgres://u@h1:1,h2:2/d?target_session_attrs=read-write",
      "postgresql://%2Frun%2Fpg/d",
      "postgres://u:p%40ss@[::1]/x?connect_timeout=5",
    ],
    parts: [
      "postgres://",
      "@",
      ":",
      "/",
      "?",
      "&",
      "=",
      ",",
      "s3cret",
      "schema",
      "sslmode",
      "require",
      "host",
      "[",
      "]",
      "%2F",
      "owner",
      "port",
    ],
  },
  (given) => {
    const target = parseTarget(given, {});
    // Whoever writes it a second time, elsewhere, has given it away.
    const written = passwordIn(given);
    const password = given.split(written).length === 2 ? written : "";
    const shown = withoutPassword(given);
    holds(target.hosts.length > 0 && target.hosts.every(({ port }) => port > 0 && port < 65_536), `hosts of ${given}`);
    if (password.length > 4) holds(!target.location.includes(password), `the password is in ${target.location}`);
    if (password.length > 4) holds(!shown.includes(password), `the password is in ${shown}`);
    urlForJobs(given, {});
  },
  [2, 125],
);

const location = text(
  2,
  { samples: ["jobs.db", "/var/x.db", "postgres://h/d", "~/x"], parts: ["/", "..", "~", ":", "//", "$HOME"] },
  (given) => storeLocation(given, { HOME: "/root" }),
  [2, 125],
);

/** Bytes in pieces as they come from a pipe. */
function pieces(bytes: Uint8Array, chance: Chance): Uint8Array[] {
  const cut: Uint8Array[] = [];
  for (let from = 0; from < bytes.length;) {
    const to = Math.min(bytes.length, from + chance.between(1, 40));
    cut.push(bytes.subarray(from, to));
    from = to;
  }
  return cut;
}

const lines: Target = {
  share: 8,
  codes: [],
  go(chance, told) {
    const bytes = noise(chance, 300);
    told(bytes);
    const [counter, tail, capture, filter] = [
      new LineCounter(),
      new Tail(),
      new LogCapture(chance.pick([0, 1, 64, 300, 4_096])),
      new TerminalFilter(),
    ];
    let [beats, shown] = [0, ""];
    for (const piece of pieces(bytes, chance)) {
      beats += counter.count(piece);
      tail.add(piece);
      capture.add(chance.of(0.5) ? "stdout" : "stderr", piece, NOW_MS);
      shown += Buffer.from(filter.push(piece)).toString("latin1");
    }
    shown += Buffer.from(filter.end()).toString("latin1");
    const ends =
      Buffer.from(bytes)
        .toString("latin1")
        .match(/\r\n|\r|\n/g)?.length ?? 0;
    holds(beats >= ends, `${beats} beats of ${ends} lines`);
    holds(capture.total === bytes.length, `${capture.total} of ${bytes.length} bytes were seen`);
    holds(tail.lines(10).length <= 10, "too many last lines");
    // oxlint-disable-next-line no-control-regex
    holds(!/[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\x1b(?!\[[0-9;:]{0,64}m)/.test(shown), "a terminal would obey");
  },
};

const chunk: Target = {
  share: 7,
  codes: [],
  go(chance, told) {
    const entries = Array.from({ length: chance.between(0, 5) }, (_, index) => ({
      stream: index % 2 ? ("stderr" as const) : ("stdout" as const),
      at_ms: NOW_MS + index,
      start: 0,
      bytes: noise(chance, 400),
    }));
    const right = encodeChunk(entries);
    const read = decodeChunk({ start: 0, bytes: 0, data: right });
    holds(
      read.length === entries.length &&
        read.every(({ bytes }, index) => Buffer.compare(bytes, entries[index]?.bytes ?? bytes) === 0),
      "a chunk is not what it was",
    );
    const wrong = chance.of(0.3) ? noise(chance, 60) : right.slice(0, chance.between(0, right.length));
    for (let n = chance.between(0, 4); n > 0 && wrong.length > 0; n--)
      wrong[chance.between(0, wrong.length - 1)] = chance.between(0, 255);
    told(wrong);
    for (const { at_ms, bytes } of decodeChunk({ start: 5, bytes: 3, data: wrong })) {
      holds(Number.isFinite(new Date(at_ms).getTime()) && bytes.length <= 8 * 2 ** 20, "an entry that can't be");
    }
    new Tail().addChunk({ start: 0, bytes: 1, data: wrong });
  },
};

const COLUMNS = [
  ...Object.keys(rows.JOB_COLUMNS),
  ...rows.WORKER_COLUMNS,
  ..."id input token attempt worker host boot_id pid pid_started lease_ms started_at_ms ended_at_ms cause exit_code signal error last_line beats fence cpu_ms memory_bytes extensions kind at_ms text job_id runs gaps cron every_ms zone overlap catch_up jitter_ms job set_at_ms paused next_at_ms last_at_ms last_job name start bytes data gate held".split(
    " ",
  ),
];
const row: Target = {
  share: 12,
  codes: [],
  go(chance, told) {
    const made = Object.fromEntries(COLUMNS.map((name) => [name, cell(chance)]));
    told(made);
    const job = rows.toJob(made);
    const shown = [
      jsonLine(jobJson(job)),
      jsonLine(attemptJson(rows.toAttempt(made))),
      jsonLine(checkpointJson(rows.toCheckpoint(made))),
    ];
    for (const text_line of shown)
      holds(
        typeof JSON.parse(text_line) === "object" && text_line.indexOf("\n") === text_line.length - 1,
        "no line of JSON",
      );
    rows.toWorker(made);
    rows.toLearned(made);
    rows.toProcess(made);
    toSchedule(made);
    toLogChunk(made);
    toHeld(made["held"] as string | null);
    const gate = readGate(String(made["gate"]));
    if (gate !== null) holds(typeof gateText(gate) === "string", "a gate that can't be written");
  },
};

const shown: Target = text(
  4,
  {
    samples: ["a name", "\u001b[31mred", "日本語のジョブ", "a\tb", "👩‍👩‍👧", "long ".repeat(40)],
    parts: ["\u001b[", "m", "日", "\u0301", "\u200d", " ", "\u202e"],
  },
  (given) => {
    // oxlint-disable-next-line no-control-regex
    holds(!/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(visible(given)), "a terminal would obey");
    const cut = truncate(visible(given), 10);
    holds(displayWidth(cut) <= 10, `${JSON.stringify(cut)} is wider than asked for`);
    for (const part of wrap(visible(given), 12)) holds(part.length <= given.length * 12 + 12, "a line grew");
    nearest(given, ["enqueue", "worker"]);
  },
);

export const TARGETS: Readonly<Record<string, Target>> = {
  "command lines": { share: 15, codes: USAGE, go: commandLine },
  values: value,
  durations: duration,
  "--at": at,
  cron,
  "JSON lines": line,
  "lease.toml": toml,
  URLs: url,
  locations: location,
  "what jobs print": lines,
  chunks: chunk,
  rows: row,
  "text for terminals": shown,
};
