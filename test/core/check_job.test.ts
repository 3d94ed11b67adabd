import { describe, expect, test } from "bun:test";
import { LeaseError } from "../../src/core/errors.ts";
import { checkMessage, checkNewJob, shortMessage } from "../../src/core/check_job.ts";
import { newJob, type JobOverrides } from "../support/jobs.ts";

function refusal(overrides: JobOverrides): LeaseError {
  try {
    checkNewJob(newJob(overrides));
  } catch (error) {
    if (error instanceof LeaseError) return error;
    throw error;
  }
  throw new Error("the job was accepted");
}

const accept = (overrides: JobOverrides): void => checkNewJob(newJob(overrides));

describe("a job", () => {
  test("is a command, an input, or both", () => {
    const input = new TextEncoder().encode("text");
    accept({ argv: ["true"] });
    accept({ argv: [], input });
    accept({ argv: [], input: new Uint8Array(0) });
    accept({ argv: ["cat"], input });
    expect(refusal({ argv: [] }).code).toBe("invalid_job");
  });

  test("may have empty arguments but not an empty command", () => {
    accept({ argv: ["printf", "", " "] });
    expect(refusal({ argv: ["", "x"] }).message).toContain("empty");
  });

  test("may have any argument but one with NUL", () => {
    accept({ argv: ["sh", "-c", "späße\n\t\u{1F980}", "x".repeat(200_000)] });
    expect(refusal({ argv: ["echo", "a\0b"] }).message).toContain("NUL");
  });

  test("may have any bytes but NUL as input, up to 1 MiB", () => {
    accept({ input: new Uint8Array([1, 255]) });
    accept({ input: new Uint8Array(1024 * 1024).fill(1) });
    expect(refusal({ input: new Uint8Array([7, 7, 0, 7]) }).message).toContain("byte 2 of this one is NUL");
    expect(refusal({ input: new Uint8Array(1024 * 1024 + 1) }).code).toBe("input_too_large");
  });

  test("has names of 1 to 255 characters without control characters", () => {
    for (const field of ["queue", "task", "key"] as const) {
      accept({ [field]: "ci/späße #7 日本" });
      accept({ [field]: "x".repeat(255) });
      for (const bad of ["", "x".repeat(256), "a\nb", "a\0b", "\u001b[31m"]) {
        expect(refusal({ [field]: bad }).message).toContain(field);
      }
    }
  });

  test("has variables that a program can be given", () => {
    accept({ env: { A: "", "with-dash": "späße\n=" } });
    for (const env of [{ "": "x" }, { "A=B": "x" }, { "A\0": "x" }, { A: "x\0" }]) {
      expect(refusal({ env }).code).toBe("invalid_job");
    }
  });

  test("has a working folder without NUL", () => {
    expect(refusal({ cwd: "/tmp\0" }).message).toContain("working folder");
  });

  test("has whole numbers for priority and retries", () => {
    accept({ priority: -5, settings: { retries: 0 } });
    for (const priority of [0.5, Number.NaN, Infinity, 2 ** 53]) expect(refusal({ priority }).code).toBe("invalid_job");
    for (const retries of [-1, 1.5, Number.NaN]) expect(refusal({ settings: { retries } }).code).toBe("invalid_job");
  });

  test("has a lease of at least a second, a learned one, or the worker's", () => {
    for (const lease_ms of [1_000, "auto", null] as const) accept({ settings: { lease_ms } });
    expect(refusal({ settings: { lease_ms: 999 } }).code).toBe("calibration");
  });

  test("has a time limit longer than nothing, or none", () => {
    accept({ settings: { timeout_ms: 1 } });
    for (const timeout_ms of [0, -1]) expect(refusal({ settings: { timeout_ms } }).message).toContain("timeout");
  });

  test.each<[string, JobOverrides]>([
    ["a command", { argv: ["echo", "\0"] }],
    ["a queue", { queue: "a\nb" }],
    ["a variable", { env: { "A\nB": "\0" } }],
    ["an input", { input: new Uint8Array(2 * 1024 * 1024) }],
  ])("is refused for %s in one line", (_, overrides) => {
    const { message } = refusal(overrides);
    expect(message).not.toMatch(/\p{Cc}/u);
  });
});

describe("what no job can have", () => {
  const MIB = 1024 * 1024;
  test.each([
    ["a command of more than 1 MiB", { argv: ["echo", "x".repeat(MIB)] }, "the command has more than 1 MiB"],
    ["one of many words", { argv: Array<string>(MIB / 2).fill("ä") }, "the command has more than 1 MiB"],
    ["variables of more than 1 MiB", { env: { A: "x".repeat(MIB) } }, "its environment has more than 1 MiB"],
    ["an input of more than 1 MiB", { input: new Uint8Array(MIB + 1).fill(65) }, "the limit is 1 MiB"],
    ["a folder that no system has", { cwd: `/${"x".repeat(5_000)}` }, "at most 4096 bytes"],
    ["a moment after the year 9999", { run_at_ms: 253_402_300_800_000 }, "beyond the year 9999"],
    ["a moment that is none", { run_at_ms: Number.NaN }, "beyond the year 9999"],
    ["a name of more than 255 characters", { key: "k".repeat(256) }, "is not a name"],
  ])("%s is refused", (_what, fields, message) => {
    expect(() => checkNewJob(newJob(fields))).toThrow(message);
  });

  test("just below the limits is taken", () => {
    const argv = ["x".repeat(MIB / 2 - 1), "x".repeat(MIB / 2)];
    checkNewJob(newJob({ argv, run_at_ms: 253_402_300_799_999, key: "k".repeat(255), cwd: `/${"x".repeat(4_095)}` }));
  });

  test("a message is checked where it is given, and cut where a beat must not fail by it", () => {
    checkMessage("x".repeat(4_096));
    expect(() => checkMessage("x".repeat(4_097))).toThrow("at most 4 KiB");
    expect(shortMessage("x".repeat(4_097))?.length).toBeLessThan(4_096);
    expect(shortMessage("ä")).toBe("ä");
  });
});
