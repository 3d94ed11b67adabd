/** Bad input to what a job calls about itself, and notes that must not stand in the way of the next attempt. */

import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expectRefusal, usePlaces } from "./lease.ts";

const newPlace = usePlaces();

describe("outside of a job", () => {
  test.each([
    ["beat", []],
    ["checkpoint", ["note"]],
    ["checkpoint", []],
    ["guard", ["--", "true"]],
  ] as const)("lease %s %p is a usage error", async (name, args) => {
    const place = newPlace();
    expectRefusal(await place.lease(name, ...args), 2, "this is for use inside a job");
    expect(place.content()).toEqual({});
  });

  test("so are half of what a job knows, and what no job has", async () => {
    const place = newPlace();
    for (const env of [{ LEASE_JOB_ID: "1" }, { LEASE_TOKEN: "1" }, { LEASE_JOB_ID: "x", LEASE_TOKEN: "-1" }]) {
      expectRefusal(
        await place.leaseWith({ env: env as Record<string, string> }, "beat"),
        2,
        "LEASE_JOB_ID and LEASE_TOKEN",
      );
    }
  });
});

describe("inside of a job", () => {
  /** Runs a script as a job, and answers what it printed. */
  async function printed(script: string, ...flags: string[]): Promise<string> {
    const place = newPlace();
    await place.enqueue("--retries", "0", ...flags, "-c", script);
    await place.work();
    return place.log(1);
  }

  test("a progress is a percentage, and goes on until there is a new one", async () => {
    const show = `"$LEASE" inspect 1 --json | grep -o '"progress":[^,]*,"message":[^,]*'`;
    const log = await printed(`
      "$LEASE" beat --progress 40 --message linking; ${show}
      "$LEASE" beat; ${show}
      "$LEASE" beat --progress=99.5%; ${show}
      "$LEASE" beat --message done; ${show}
      for wrong in 101 -1 half ''; do "$LEASE" beat "--progress=$wrong" 2>&1; echo "$?"; done
    `);
    expect(log.trim().split("\n")).toEqual([
      '"progress":40,"message":"linking"',
      '"progress":40,"message":"linking"',
      '"progress":99.5,"message":"linking"',
      '"progress":99.5,"message":"done"',
      ...["101", "-1", "half", ""].flatMap((wrong) => [
        `lease: --progress "${wrong}" is not a percentage from 0 to 100`,
        "2",
      ]),
    ]);
  });

  test("a checkpoint is one text, read back by asking without one", async () => {
    const log = await printed(`
      "$LEASE" checkpoint; echo "none $?"
      "$LEASE" checkpoint two words 2>&1; echo "two $?"
      "$LEASE" checkpoint "page 7"; echo "one $?"
      "$LEASE" checkpoint; echo "read $?"
      echo "from stdin" | "$LEASE" checkpoint -; "$LEASE" checkpoint
    `);
    expect(log.split("\n")).toEqual([
      "none 1",
      "lease: checkpoint takes one text: quote it",
      "two 2",
      "one 0",
      "page 7",
      "read 0",
      "from stdin",
      "",
    ]);
  });

  test("a guarded command keeps its code, and one that is missing or can't be found has the usual ones", async () => {
    const log = await printed(`
      "$LEASE" guard -- sh -c 'exit 7'; echo "$?"
      "$LEASE" guard -- sh -c 'kill -TERM $$'; echo "$?"
      "$LEASE" guard -- sh -c 'trap "exit 9" HUP; kill -HUP $PPID; while :; do sleep 0.01; done'; echo "$?"
      "$LEASE" guard -- no-such-command 2>&1; echo "$?"
      "$LEASE" guard -- /etc/passwd 2>&1; echo "$?"
      "$LEASE" guard 2>&1; echo "$?"
    `);
    expect(log.trim().split("\n")).toEqual([
      "7",
      "143",
      "9",
      expect.stringMatching(/^lease: command not found: no-such-command/),
      "127",
      expect.stringMatching(/^lease: not executable: \/etc\/passwd/),
      "126",
      "lease: guard what? Write the command after --",
      "2",
    ]);
  });
});

describe("a checkpoint", () => {
  /** The first attempt notes a file's content and fails; the second says how much it was handed. */
  async function handedOn(content: string | Uint8Array) {
    const place = newPlace();
    writeFileSync(join(place.folder, "note"), content);
    const script = `if [ "$LEASE_ATTEMPT" = 1 ]; then "$LEASE" checkpoint - < note; echo "code $?"; exit 1; fi
      echo "handed on"`;
    await place.enqueue("--retries", "1", "--backoff", "none", "-c", script);
    await place.work();
    const first = await place.lease("logs", "1", "--attempt", "1");
    return { first: first.stdout, job: await place.inspect(1) };
  }

  test.each([
    ["of a few words", "page 7"],
    ["of many bytes, more than the system hands on in a variable", "x".repeat(200_000)],
    ["with NUL, which no variable can hold", "a\0b"],
  ])("%s is taken or refused, and either way the next attempt runs", async (_what, content) => {
    const { first, job } = await handedOn(content);
    expect(first).toMatch(/code [02]\n$/);
    expect({ state: job.state, error: job.error }).toEqual({ state: "completed", error: null });
  });

  test("over its limit is refused, and never cut short, however its letters are encoded", async () => {
    for (const content of ["x".repeat(1024 * 1024 + 1), "ä".repeat(700_000)]) {
      const { first, job } = await handedOn(content);
      expect(first).toMatch(/^lease: [^\n]+\ncode 2\n$/);
      expect(job.checkpoints.filter(({ kind }) => kind === "progress")).toEqual([]);
    }
  });
});
