import { describe, expect, test } from "bun:test";
import { LeaseError } from "../../src/core/errors.ts";
import { checkNewJob } from "../../src/core/check_job.ts";
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
