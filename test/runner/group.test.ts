import { describe, expect, test } from "bun:test";
import { signalGroup } from "../../src/platform/signals.ts";
import { askToEnd, groupLives } from "../../src/runner/group.ts";
import { eventually, script } from "./fixture.ts";

/** Higher than any pid that the system gives out. */
const NOBODY = 2 ** 30;

describe("a process group", () => {
  test("lives while any member does, its leader or not", async () => {
    const program = script("sleep 60 & sleep 60 & echo ready; wait");
    const pid = await program.started;
    await program.prints(/ready/);
    expect(groupLives(pid)).toBe(true);
    program.run.kill();
    await program.done;
    expect(groupLives(pid)).toBe(false);
  });

  test("is reached by a signal as a whole", async () => {
    const program = script(
      "for i in 1 2 3; do sh -c 'trap \"echo got; exit\" USR1; echo ready; while :; do sleep 0.01; done' & done; trap '' USR1; wait; wait; wait; wait",
    );
    const pid = await program.started;
    await program.prints(/(ready\n){3}/);
    expect(signalGroup(pid, "SIGUSR1")).toBe(true);
    await program.prints(/(got\n?){3}/);
    program.run.kill();
    await program.done;
  });

  test("that is not there lives not, and nobody receives its signals", () => {
    expect([groupLives(NOBODY), signalGroup(NOBODY, "SIGTERM")]).toEqual([false, false]);
    expect(() => askToEnd(NOBODY)).not.toThrow();
  });

  test("of nothing but a zombie lives not: nobody may ever collect it", async () => {
    // The inner shell dies at once, and the one above never waits for it.
    const text = "setsid sh -c 'echo $$' & exec sleep 60";
    const program = script(text);
    const zombie = Number(await program.prints(/(\d+)\n/));
    await eventually(() => !groupLives(zombie), "its group counts as gone");
    program.run.kill();
    await program.done;
  });

  test("that was stopped is woken up to hear that it should end", async () => {
    const program = script("trap 'echo bye; exit 0' TERM; echo ready; kill -STOP $$; sleep 60");
    await program.prints(/ready/);
    askToEnd(await program.started);
    expect(await program.done).toMatchObject({ exit_code: 0 });
    expect(program.stdout).toBe("ready\nbye\n");
  });
});
