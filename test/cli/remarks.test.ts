/** What is said, on stderr, about a line that was understood and may not be what was meant. */

import { describe, expect, test } from "bun:test";
import { expectRefusal, LEASE, usePlaces } from "./lease.ts";

const newPlace = usePlaces();

describe("enqueue tells", () => {
  test("when a job is due that was queued with --at", async () => {
    const { stdout, stderr } = await newPlace().lease("enqueue", "--at", "2030-12-24 18:00", "--", "true");
    expect(stdout).toBe("1\n");
    expect(stderr).toMatch(/^lease: due 2030-12-24 18:00:00 \(in \d+d\d*h?\)\n$/);
  });

  test("of a working folder that is not there", async () => {
    const { code, stderr } = await newPlace().lease("enqueue", "--cwd", "/not/there", "--", "true");
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: "lease: /not/there does not exist here; the job fails unless it does where it runs\n",
    });
  });

  test("of a working folder that is a file", async () => {
    const { code, stderr } = await newPlace().lease("enqueue", "--cwd", LEASE, "--", "true");
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: `lease: ${LEASE} is not a folder here; the job fails unless it is one where it runs\n`,
    });
  });

  test("that the job with the key has another command, and nothing when it is the same", async () => {
    const place = newPlace();
    await place.enqueue("--key", "k", "--", "echo", "one");
    const other = await place.lease("enqueue", "--key", "k", "--", "echo", "two");
    expect(other).toEqual({
      code: 0,
      stdout: "1\n",
      stderr: "lease: job 1 has this key and another command: echo one\n",
    });
    expect((await place.lease("enqueue", "--key", "k", "--", "echo", "one")).stderr).toBe("");
  });

  test("that a job will not run because what it waits for was cancelled", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    await place.lease("cancel", "1");
    const { code, stderr } = await place.lease("enqueue", "--after", "1", "--", "true");
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: "lease: job 2 will not run: job 1, which it waits for, was cancelled\n",
    });
  });

  test("at a terminal of a flag that went to the command, and queues it as it was written", async () => {
    const place = newPlace();
    let screen = "";
    const terminal = {
      cols: 120,
      rows: 20,
      data: (_: unknown, bytes: Uint8Array) => void (screen += Buffer.from(bytes)),
    };
    const argv = [LEASE, "enqueue", "./x.sh", "-q", "gpu"];
    const child = Bun.spawn(argv, { cwd: place.folder, env: { ...process.env, ...place.env }, terminal });
    expect(await child.exited).toBe(0);
    expect(screen).toContain("lease: -q went to ./x.sh; flags of lease stand before the command, and -- between them");
    expect(await place.inspect(1)).toMatchObject({ argv: ["./x.sh", "-q", "gpu"], queue: "default" });
    expect((await place.lease("enqueue", "./x.sh", "-q", "gpu")).stderr).toBe("");
  });
});

describe("a message says what is wrong", () => {
  test.each([
    [["worker", "--min", "5", "--max", "2"], "--min 5 is more than --max 2"],
    [["enqueue", "--at", "2020-01-01", "--", "x"], '--at "2020-01-01" has passed: leave it out to run at once'],
    [["wait", "abc"], 'wait "abc" is not a job id: write 7, or 9-12 for a range'],
    [["enqueue", "--input", "@nofile", "--", "x"], "--input @nofile can't be read: there is no such file"],
    [["enqueue", "--from", "nofile"], "--from nofile can't be read: there is no such file"],
    [["inspect", "jobs", "--status", "done"], '--status can\'t be "done"; did you mean completed?'],
    [["inspect", "jobs", "--status", "killed"], '--status can\'t be "killed"; did you mean cancelled?'],
  ])("%p", async (args, message) => {
    expectRefusal(await newPlace().lease(...args), 2, message);
  });
});

describe("a variable that is nearly a setting", () => {
  test.each([
    ["LEASE_STOER", "LEASE_STORE"],
    ["LEASE_COLOUR", "LEASE_COLOR"],
    ["LEASE_ENQUEUE_RETRYS", "LEASE_ENQUEUE_RETRIES"],
    ["LEASE_ENQEUE_RETRIES", "LEASE_ENQUEUE_RETRIES"],
  ])("%s is named with %s, also by the quickest enqueue", async (name, meant) => {
    const place = newPlace();
    const { stderr } = await place.leaseWith({ env: { [name]: "1" } }, "enqueue", "--", "true");
    expect(stderr).toBe(`lease: ${name} is no setting; did you mean ${meant}?\n`);
  });

  test("of another command is named by all but the quickest enqueue", async () => {
    const { stderr } = await newPlace().leaseWith({ env: { LEASE_WORKER_SLOT: "1" } }, "worker", "--until-empty");
    expect(stderr).toBe("lease: LEASE_WORKER_SLOT is no setting; did you mean LEASE_WORKER_SLOTS?\n");
  });

  test("is not seen in what a job is told, or in what is not like any", async () => {
    const env = { LEASE_JOB_ID: "1", LEASE_NEED_GPU: "0", LEASE_FAILED_JOB: "3", LEASE_OF_LIFE: "new" };
    expect((await newPlace().leaseWith({ env }, "enqueue", "--", "true")).stderr).toBe("");
  });
});
