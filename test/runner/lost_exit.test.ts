/** A runtime that loses the end of a child must not lose the slot. */

import { afterEach, expect, test } from "bun:test";
import { platform } from "#platform";
import { endOfChild } from "../../src/platform/machine.ts";
import { eventually, fastClock, killQuietly, script } from "./fixture.ts";

const { spawn } = platform;
const pids: number[] = [];
afterEach(() => {
  platform.spawn = spawn;
  for (const pid of pids.splice(0)) killQuietly(pid);
});

/** The runtime never tells of an end. */
function loseEnds(): void {
  platform.spawn = async (options) => ({ ...(await spawn(options)), exited: new Promise(() => {}) });
}

test("a program whose end the runtime lost is over all the same", async () => {
  loseEnds();
  const program = script("exit 3", fastClock(100));
  const outcome = await program.done;
  // By then the runtime has waited for it, and only it knew the code.
  expect(outcome).toMatchObject({ cause: "exit", error: expect.stringMatching(/exit code 3|nobody knows how/) });
});

test("one that lives is left alone however often it is looked at", async () => {
  loseEnds();
  const program = script("echo ready; exec sleep 60", fastClock(100));
  await program.prints(/ready/);
  pids.push(program.pid);
  const over = program.done.then(() => true);
  expect(await Promise.race([over, new Promise((done) => setTimeout(done, 100, false))])).toBe(false);
  program.run.kill();
  expect((await program.done).cause).toBeOneOf(["signal", "exit"]);
});

test("a zombie tells how it ended", async () => {
  // The shell becomes a program that never waits for its children.
  const parent = Bun.spawn(
    ["sh", "-c", "sh -c 'sleep 0.1; exit 7' & echo $!; sh -c 'sleep 0.1; kill -TERM $$' & echo $!; exec sleep 60"],
    {
      stdout: "pipe",
    },
  );
  pids.push(parent.pid);
  let said = "";
  for await (const piece of parent.stdout) {
    said += new TextDecoder().decode(piece);
    if (said.split("\n").length > 2) break;
  }
  const [code = 0, signal = 0] = said.trim().split("\n").map(Number);
  await eventually(() => endOfChild(code) !== null && endOfChild(signal) !== null, "both are zombies");
  expect([endOfChild(code), endOfChild(signal)]).toEqual([
    { exit_code: 7, signal: null },
    { exit_code: null, signal: "SIGTERM" },
  ]);
  expect(endOfChild(parent.pid)).toBeNull();
});
