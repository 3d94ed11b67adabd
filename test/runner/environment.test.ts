import { describe, expect, test } from "bun:test";
import process from "node:process";
import { jobEnvironment, jobVariables } from "../../src/runner/environment.ts";

describe("the environment of a job", () => {
  test("is the worker's, then the job's own, then what is said about it", () => {
    const env = jobEnvironment({ PATH: "/job", MINE: "1", LEASE_QUEUE: "forged" }, { LEASE_QUEUE: "mail" });
    expect(env).toMatchObject({ PATH: "/job", MINE: "1", LEASE_QUEUE: "mail" });
    expect(env["HOME"]).toBe(process.env["HOME"] as string);
  });

  test("has no variable that is said to be none, not even inherited", () => {
    const env = jobEnvironment({ LEASE_TASK: "inherited" }, { LEASE_TASK: null });
    expect("LEASE_TASK" in env).toBe(false);
  });
});

describe("what is said about a job", () => {
  const job = { id: 7, token: 2, queue: "mail", task: null, key: "welcome" };
  const about = {
    job,
    worker_id: "w1",
    store_id: "an-id",
    store_url: "jobs.db",
    checkpoint: "page 3",
    output_path: "/tmp/output",
    interval_ms: 2_000,
    extension_ms: 20_000,
  };

  test("are its id, attempt, queue and what is known of it, as text", () => {
    expect(jobVariables(about)).toMatchObject({ LEASE_JOB_ID: "7", LEASE_ATTEMPT: "2", LEASE_TOKEN: "2" });
    expect(jobVariables(about)).toMatchObject({ LEASE_CHECKPOINT: "page 3", LEASE_KEY: "welcome" });
    expect(jobVariables(about)).toMatchObject({ LEASE_INTERVAL: "2000ms", LEASE_EXTENSION: "20000ms" });
  });

  test("is none for what it has not", () => {
    expect(jobVariables({ ...about, checkpoint: null })).toMatchObject({ LEASE_TASK: null, LEASE_CHECKPOINT: null });
  });
});
