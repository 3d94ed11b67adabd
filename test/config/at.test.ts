/** Moments as people write them, in zones where clocks change. */

import { afterAll, describe, expect, test } from "bun:test";
import { parseAt } from "../../src/config/at.ts";
import { LeaseError } from "../../src/core/errors.ts";

const zone_before = process.env["TZ"];
afterAll(() => {
  if (zone_before === undefined) delete process.env["TZ"];
  else process.env["TZ"] = zone_before;
});

/** What `--at TEXT` means in a zone, at a moment. */
function at(zone: string, now: string, text: string): string {
  process.env["TZ"] = zone;
  return new Date(parseAt(text, "--at", Date.parse(now))).toISOString();
}

function refusal(zone: string, now: string, text: string): string {
  try {
    return `taken as ${at(zone, now, text)}`;
  } catch (error) {
    expect(error).toBeInstanceOf(LeaseError);
    return (error as LeaseError).message;
  }
}

const NOON = "2026-06-10T12:00:00Z";

describe("a time of day", () => {
  test.each([
    ["18:30", "2026-06-10T16:30:00.000Z"],
    ["9:00", "2026-06-11T07:00:00.000Z"],
    ["09:00:30", "2026-06-11T07:00:30.000Z"],
    ["14:00", "2026-06-11T12:00:00.000Z"],
    ["0:00", "2026-06-10T22:00:00.000Z"],
    ["today 23:59", "2026-06-10T21:59:00.000Z"],
    ["tomorrow 9:00", "2026-06-11T07:00:00.000Z"],
    ["Tomorrow  15:00", "2026-06-11T13:00:00.000Z"],
    [" 18:30 ", "2026-06-10T16:30:00.000Z"],
  ])("%s is the next time a clock in Berlin shows it: %s", (text, moment) => {
    expect(at("Europe/Berlin", NOON, text)).toBe(moment);
  });

  test("crosses the ends of months and years", () => {
    expect(at("UTC", "2026-12-31T20:00:00Z", "tomorrow 9:00")).toBe("2027-01-01T09:00:00.000Z");
    expect(at("UTC", "2028-02-28T20:00:00Z", "9:00")).toBe("2028-02-29T09:00:00.000Z");
  });
});

describe("a day and a time", () => {
  test.each([
    ["2026-12-24 18:00", "2026-12-24T17:00:00.000Z"],
    ["2026-12-24T18:00", "2026-12-24T17:00:00.000Z"],
    ["2026-12-24 18:00:59", "2026-12-24T17:00:59.000Z"],
    ["2026-12-24T18:00:00Z", "2026-12-24T18:00:00.000Z"],
    ["2026-12-24t18:00:00z", "2026-12-24T18:00:00.000Z"],
    ["2026-12-24 18:00:00 +05:30", "2026-12-24T12:30:00.000Z"],
    ["2026-12-24T18:00:00.57-0800", "2026-12-25T02:00:00.570Z"],
    ["2026-12-24T18:00:00.123456789Z", "2026-12-24T18:00:00.123Z"],
  ])("%s is %s when read in Berlin", (text, moment) => {
    expect(at("Europe/Berlin", NOON, text)).toBe(moment);
  });
});

describe("when clocks go forward in Berlin, at 2:00 of 2026-03-29,", () => {
  const before = "2026-03-28T12:00:00Z";

  test("a time that is skipped is the moment at which it would have come", () => {
    expect(at("Europe/Berlin", before, "2:30")).toBe("2026-03-29T01:30:00.000Z");
    expect(at("Europe/Berlin", before, "2026-03-29 02:30")).toBe("2026-03-29T01:30:00.000Z");
  });

  test("the times around it are what the wall shows", () => {
    expect(at("Europe/Berlin", before, "1:59")).toBe("2026-03-29T00:59:00.000Z");
    expect(at("Europe/Berlin", before, "3:00")).toBe("2026-03-29T01:00:00.000Z");
    expect(at("Europe/Berlin", before, "tomorrow 18:00")).toBe("2026-03-29T16:00:00.000Z");
  });
});

describe("when clocks go back in Berlin, at 3:00 of 2026-10-25,", () => {
  test("a time that comes twice is the first of the two that is still ahead", () => {
    const at_230 = (now: string) => at("Europe/Berlin", now, "2:30");
    expect(at_230("2026-10-24T20:00:00Z")).toBe("2026-10-25T00:30:00.000Z");
    expect(at_230("2026-10-25T00:45:00Z")).toBe("2026-10-25T01:30:00.000Z");
    expect(at_230("2026-10-25T01:45:00Z")).toBe("2026-10-26T01:30:00.000Z");
    expect(at("Europe/Berlin", "2026-10-25T00:45:00Z", "2026-10-25 02:30")).toBe("2026-10-25T01:30:00.000Z");
  });

  test("so in zones that change by half an hour, or west of Greenwich", () => {
    expect(at("Australia/Lord_Howe", "2026-04-04T14:50:00Z", "1:45")).toBe("2026-04-04T15:15:00.000Z");
    expect(at("America/New_York", "2026-11-01T05:45:00Z", "1:30")).toBe("2026-11-01T06:30:00.000Z");
    expect(at("America/New_York", "2026-03-08T04:00:00Z", "2:30")).toBe("2026-03-08T07:30:00.000Z");
  });
});

describe("a moment is refused", () => {
  test("when it has passed, except for the minute that is just over", () => {
    const passed = /^--at ".*" has passed: leave it out to run at once$/;
    for (const text of ["today 9:00", "2026-06-10 13:58", "2020-01-01T00:00:00Z"]) {
      expect(refusal("Europe/Berlin", NOON, text)).toMatch(passed);
    }
    expect(at("Europe/Berlin", NOON, "2026-06-10T13:59:01+02:00")).toBe("2026-06-10T11:59:01.000Z");
  });

  test("when it is more than ten years ahead", () => {
    expect(refusal("UTC", NOON, "2037-01-01 00:00")).toContain("too far ahead");
  });

  test.each([
    ["", "is not a moment"],
    ["soon", "is not a moment: write 18:30"],
    ["18", "is not a moment"],
    ["24:00", "is not a time of day"],
    ["12:60", "is not a time of day"],
    ["12:00:60", "is not a time of day"],
    ["2026-02-30 12:00", "is not a day of the calendar"],
    ["2027-02-29 12:00", "is not a day of the calendar"],
    ["2026-13-01 12:00", "is not a day of the calendar"],
    ["2026-00-10 12:00", "is not a day of the calendar"],
    ["2026-12-24", "say a time as well, 2026-12-24 18:00"],
    ["2026-12-24T18:00+25:00", "has no offset that exists"],
    ["now + 5 minutes", "--delay 5m"],
    ["18:30 tomorrow", "is not a moment"],
    ["18:30\n19:30", "is not a moment"],
  ])("when it is none: %j", (text, message) => {
    expect(refusal("UTC", NOON, text)).toContain(message);
  });
});
