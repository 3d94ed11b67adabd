import { describe, expect, test } from "bun:test";
import {
  BACKOFF,
  ENV,
  EXIT_RANGES,
  GRACE,
  IDS,
  integer,
  LEASE,
  readJson,
  readValue,
  SINCE,
  SIZE,
} from "../../src/core/values.ts";
import { LeaseError } from "../../src/core/errors.ts";

/** The one line that a person gets. */
function refusal(parse: () => unknown): string {
  try {
    parse();
  } catch (error) {
    if (error instanceof LeaseError && error.code === "usage") return error.message;
    throw error;
  }
  throw new Error("it was accepted");
}

describe("a whole number", () => {
  test("is read with a sign and within its range", () => {
    expect(["0", "7", "-7", "+7", "007"].map((text) => readValue(integer(), text, "-p"))).toEqual([0, 7, -7, 7, 7]);
    expect(readValue(integer({ min: 1, max: 10 }), "10", "-j")).toBe(10);
  });

  test.each(["", " ", "1.5", "1e3", "0x10", "seven", "--1", "1 2", "١"])("is not %j", (text) => {
    expect(refusal(() => readValue(integer(), text, "-p"))).toBe(`-p ${JSON.stringify(text)} is not a whole number`);
  });

  test("out of its range is refused with the range", () => {
    expect(refusal(() => readValue(integer(), "9".repeat(20), "-p"))).toEndWith(
      "is out of range: -9007199254740991 to 9007199254740991",
    );
    expect(refusal(() => readValue(integer({ min: 1, max: 10 }), "0", "-j"))).toBe(
      '-j "0" is not a whole number from 1 to 10',
    );
    expect(refusal(() => readValue(integer({ min: 0 }), "-1", "-n"))).toBe('-n "-1" is not a whole number from 0 up');
  });
});

describe("a size", () => {
  test.each([
    ["0", 0],
    ["4096", 4_096],
    ["64k", 65_536],
    ["64 KiB", 65_536],
    ["16MiB", 2 ** 24],
    ["16mb", 2 ** 24],
    ["1g", 2 ** 30],
  ])("%j is %d bytes", (text, bytes) => {
    expect(readValue(SIZE, text, "--log-limit")).toBe(bytes);
  });

  test.each(["", "-1", "1.5k", "5q", "2g", "k", "1ki", "1e9", "9".repeat(30)])("is not %j", (text) => {
    expect(refusal(() => readValue(SIZE, text, "--log-limit"))).toContain("write 4096, 64k or 16MiB");
  });
});

describe("exit codes", () => {
  test("are a list of numbers and ranges", () => {
    expect(readValue(EXIT_RANGES, "2,64-78, 255", "-x")).toEqual([
      [2, 2],
      [64, 78],
      [255, 255],
    ]);
  });

  test.each(["", ",", "256", "5-2", "-1", "a", "1-", "1,,2"])("are not %j", (text) => {
    expect(refusal(() => readValue(EXIT_RANGES, text, "--fatal-exit"))).toContain("write 2,64-78");
  });
});

describe("ids", () => {
  test("are lists and ranges in any mixture, each id once, in the order given", () => {
    expect(readValue(IDS, "7 9-12,3,4 10", "cancel")).toEqual([7, 9, 10, 11, 12, 3, 4]);
  });

  test.each(["0", "-1", "x", "1-", "-", "9-7", "1.5", "1e3", "9".repeat(20)])("are not %j", (word) => {
    expect(refusal(() => readValue(IDS, word, "cancel"))).toContain(`cancel ${JSON.stringify(word)} is not a job id`);
  });

  test("are not more than a machine can hold", () => {
    expect(refusal(() => readValue(IDS, "1-999999999", "cancel"))).toContain("is more than 1000000 jobs at once");
    expect(readValue(IDS, "1-1000000", "cancel")).toHaveLength(1_000_000);
  });
});

describe("a backoff", () => {
  test.each([
    ["5s", { first_ms: 5_000, factor: 2, max_ms: 600_000 }],
    ["1h", { first_ms: 3_600_000, factor: 2, max_ms: 3_600_000 }],
    ["1s..1m", { first_ms: 1_000, factor: 2, max_ms: 60_000 }],
    ["fixed:30s", { first_ms: 30_000, factor: 1, max_ms: 30_000 }],
    ["none", { first_ms: 0, max_ms: 0 }],
    ["0", { first_ms: 0, max_ms: 0 }],
  ])("%s is %j", (text, backoff) => {
    expect(readValue(BACKOFF, text, "--backoff")).toMatchObject(backoff);
  });

  test.each(["", "soon", "fixed:", "fixed:soon", "1s..", "..1s", "10m..1s", "-1s", "1s..2s..3s"])(
    "is not %j",
    (text) => {
      expect(refusal(() => readValue(BACKOFF, text, "--backoff"))).toContain("--backoff");
    },
  );
});

describe("variables to take along", () => {
  test("are names, or names with a value", () => {
    expect(readValue(ENV, "A,EMPTY,B=2,C=x=y,D=", "--env")).toEqual({ A: null, EMPTY: null, B: "2", C: "x=y", D: "" });
    expect(readValue(ENV, "", "--env")).toEqual({});
  });

  test("may have commas in their values, behind a backslash", () => {
    expect(readValue(ENV, String.raw`A,B=1\,2\,,C=\x`, "--env")).toEqual({ A: null, B: "1,2,", C: String.raw`\x` });
    expect(refusal(() => readValue(ENV, "B=/1,/2", "--env"))).toContain(
      String.raw`a comma inside a value is written \,`,
    );
  });

  test("are refused when they could not be set", () => {
    for (const text of ["1A=2", "A B=1", "=1", "a-b=1"]) {
      expect(refusal(() => readValue(ENV, text, "--env"))).toContain("is not a variable's name");
    }
  });

  test("are an object in JSON, or the same text", () => {
    expect(readJson(ENV, { A: "1" }, "env")).toEqual({ A: "1" });
    expect(readJson(ENV, "A=1", "env")).toEqual({ A: "1" });
    for (const given of [{ A: 1 }, 7, null, ["A"]]) {
      expect(refusal(() => readJson(ENV, given, "env"))).toStartWith("env must be variables and their texts");
    }
    expect(refusal(() => readJson(ENV, "a-b=1", "env"))).toBe(`env "a-b" is not a variable's name`);
  });
});

describe("JSON", () => {
  test("may have a number, or a list of them, where the flag has text", () => {
    expect(readJson(integer(), -7, "priority")).toBe(-7);
    expect(readJson(SIZE, 4096, "log_limit")).toBe(4_096);
    expect(readJson(IDS, [3, "9-10"], "after")).toEqual([3, 9, 10]);
    expect(readJson(EXIT_RANGES, [2, "64-78"], "fatal_exit")).toEqual([
      [2, 2],
      [64, 78],
    ]);
  });

  test("is refused by what it should have been, or by what it says", () => {
    expect(refusal(() => readJson(integer(), true, "priority"))).toBe("priority must be a number");
    expect(refusal(() => readJson(LEASE, 30, "lease"))).toBe('lease must be a time as text: "30s"');
    expect(refusal(() => readJson(integer(), 1.5, "retries"))).toBe('retries "1.5" is not a whole number');
    expect(refusal(() => readJson(IDS, [0], "after"))).toContain('after "0" is not a job id');
  });
});

test("a lease is a time, or learned", () => {
  expect(readValue(LEASE, "auto", "--lease")).toBe("auto");
  expect(readValue(LEASE, "5m", "--lease")).toBe(300_000);
  expect(refusal(() => readValue(LEASE, "automatic", "--lease"))).toContain("--lease");
});

test("a grace is a time, or never", () => {
  expect(readValue(GRACE, "never", "--grace")).toBe("never");
  expect(readValue(GRACE, "10s", "--grace")).toBe(10_000);
  expect(readValue(GRACE, "0", "--grace")).toBe(0);
  expect(refusal(() => readValue(GRACE, "forever", "--grace"))).toContain("--grace");
});

describe("since when", () => {
  const now_ms = Date.UTC(2026, 2, 1, 12);
  const since = (text: string) => readValue(SINCE, text, "--since")(now_ms);

  test("is a time before now, or a moment", () => {
    expect(since("2h")).toBe(now_ms - 7_200_000);
    expect(since("2026-03-01T09:30:00Z")).toBe(Date.UTC(2026, 2, 1, 9, 30));
    expect(since("2026-03-01T09:30:00.250+02:00")).toBe(Date.UTC(2026, 2, 1, 7, 30, 0, 250));
    expect(since("2026-03-01")).toBe(new Date(2026, 2, 1).getTime());
    expect(since("2026-03-01 09:30")).toBe(new Date(2026, 2, 1, 9, 30).getTime());
  });

  test.each(["", "yesterday", "2026-13-01", "2026-03-01T25:00Z", "2026-03", "2026-03-01T09:30:00 CET", "-2h"])(
    "is not %p, and the error says what would be",
    (text) => {
      expect(refusal(() => since(text))).toMatch(/^--since ".*: write (?:500ms|2h)/);
    },
  );
});
