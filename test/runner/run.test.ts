import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { isProvenDead, identify } from "../../src/platform/machine.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { GROUP_FENCE } from "../../src/runner/fence.ts";
import { groupLives } from "../../src/runner/group.ts";
import { ManualClock } from "../support/clock.ts";
import { eventually, fastClock, killQuietly, Program, script } from "./fixture.ts";

/** Prints `ready` and then sits out every TERM. */
const STUBBORN = "trap '' TERM; echo ready; while :; do sleep 1; done";

const TOOK = { fence: "group" as const, cpu_ms: expect.any(Number), memory_bytes: null };

describe("a program that runs to its end", () => {
  test("succeeds with exit code 0", async () => {
    expect(await script("echo hi; echo oh >&2").done).toEqual({
      cause: "success",
      exit_code: 0,
      signal: null,
      error: null,
      output: null,
      ...TOOK,
    });
  });

  test("fails with the code it exits with", async () => {
    expect(await script("exit 7").done).toEqual({
      cause: "exit",
      exit_code: 7,
      signal: null,
      error: "exit code 7",
      output: null,
      ...TOOK,
    });
  });

  test("fails with the signal that killed it", async () => {
    expect(await script("kill -SEGV $$").done).toEqual({
      cause: "signal",
      exit_code: null,
      signal: "SIGSEGV",
      error: "killed by SIGSEGV",
      output: null,
      ...TOOK,
    });
  });

  test("has all it printed passed on before it counts as over, per stream", async () => {
    const program = script("i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo bad >&2");
    await program.done;
    expect(program.stdout.split("\n")).toHaveLength(2_001);
    expect(program.stderr).toBe("bad\n");
  });

  test("can open its streams by name, as scripts do", async () => {
    const program = script("echo out > /dev/stdout; echo bad > /dev/stderr; echo both | tee /dev/stderr");
    expect(await program.done).toMatchObject({ cause: "success" });
    expect([program.stdout, program.stderr]).toEqual(["out\nboth\n", "bad\nboth\n"]);
  });

  test("leaves no descriptor open in the one who started it, and neither does one that can't be started", async () => {
    const open = () => readdirSync("/proc/self/fd").length;
    await script("true").done;
    const before = open();
    for (let run = 0; run < 20; run++) await script("echo x; echo y >&2").done;
    for (let run = 0; run < 5; run++) await new Program({ argv: ["/no/such/program"] }).done;
    expect(open()).toBeLessThanOrEqual(before + 2);
  });

  test("passes bytes on as they are", async () => {
    const program = script(String.raw`printf '\377\376\000end'`);
    await program.done;
    expect(program.stdout).toBe("\xff\xfe\0end");
  });

  test("reads its input to the end, and nothing when it has none", async () => {
    const input = new TextEncoder().encode("line\n".repeat(50_000));
    const reading = script("wc -c", undefined, { input });
    await reading.done;
    expect(Number(reading.stdout)).toBe(input.length);
    const empty = script("wc -c");
    await empty.done;
    expect(Number(empty.stdout)).toBe(0);
  });

  test("may leave input unread that is larger than the pipe", async () => {
    const input = new Uint8Array(1024 * 1024).fill(120);
    expect(await script("exit 0", undefined, { input }).done).toMatchObject({ cause: "success" });
  });

  test("runs in its folder, with exactly the environment it was given", async () => {
    const env = { PATH: "/usr/bin:/bin", GREETING: "hello there" };
    const program = script("pwd; echo $GREETING; echo ${HOME-unset}", undefined, { cwd: "/usr", env });
    await program.done;
    expect(program.stdout).toBe("/usr\nhello there\nunset\n");
  });

  test("leads a group and a session of its own", async () => {
    const program = script("ps -o pid=,pgid=,sid= -p $$; :");
    const pid = await program.started;
    await program.done;
    expect(program.stdout.trim().split(/\s+/).map(Number)).toEqual([pid, pid, pid]);
  });

  test("tells its pid once it runs", async () => {
    const program = script("echo $$; read line");
    const pid = await program.started;
    expect(Number(await program.prints(/\d+/))).toBe(pid);
    await program.done;
  });

  test("may close its output and go on", async () => {
    const program = script("exec >&- 2>&-; sleep 0.05; exit 4");
    expect(await program.done).toMatchObject({ exit_code: 4 });
  });

  test("has a terminal when it asked for one", async () => {
    const program = script("if [ -t 1 ]; then echo terminal; else echo pipe; fi", undefined, { pty: true });
    expect(await program.done).toMatchObject({ cause: "success" });
    expect(program.stdout).toContain("terminal");
  });
});

describe("a program that can't be started", () => {
  test("ends as not found, with the shell's code and what to do", async () => {
    const exit = await new Program({ argv: ["no-such-command-here"] }).done;
    expect(exit).toMatchObject({ cause: "not_found", exit_code: 127, signal: null });
    expect(exit.error).toContain("no-such-command-here");
  });

  test("ends as not executable, with the shell's code", async () => {
    expect(await new Program({ argv: ["/etc/passwd"] }).done).toMatchObject({
      cause: "not_executable",
      exit_code: 126,
    });
  });
});

describe("a program that is told to stop", () => {
  test("is asked with TERM and may end in its own way", async () => {
    const program = script("trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done");
    await program.prints(/ready/);
    program.run.stop(60_000);
    expect(await program.done).toMatchObject({ cause: "exit", exit_code: 3 });
    expect(program.stdout).toBe("ready\nbye\n");
  });

  test("is killed with its whole group when the grace is over, not before", async () => {
    const clock = new ManualClock();
    const program = script(STUBBORN, clock);
    const pid = await program.started;
    await program.prints(/ready/);
    program.run.stop(10_000);
    await clock.advance(9_999);
    expect(isProvenDead(identify(pid))).toBe(false);
    await clock.advance(1);
    await eventually(() => !groupLives(pid), "the group is dead");
    await clock.advance(1_000);
    expect(await program.done).toMatchObject({ cause: "signal", signal: "SIGKILL" });
    expect(clock.timers).toBe(0);
  });

  test("is killed at the end of a shorter grace that comes later", async () => {
    const clock = new ManualClock();
    const program = script(STUBBORN, clock);
    await program.prints(/ready/);
    program.run.stop(60_000);
    program.run.stop(1_000);
    await clock.advance(1_000);
    await eventually(() => !groupLives(program.pid), "the group is dead");
    await clock.advance(1_000);
    await program.done;
  });

  test.each([[60_000], [10_000]])(
    "is killed when its first grace is over, though it is told again later with %p",
    async (later_ms) => {
      const clock = new ManualClock();
      const program = script(STUBBORN, clock);
      await program.prints(/ready/);
      program.run.stop(10_000);
      await clock.advance(9_000);
      program.run.stop(later_ms);
      await clock.advance(1_000);
      const killed = eventually(() => !groupLives(program.pid), "the group is dead", 60);
      const dead = await killed.then(
        () => true,
        () => false,
      );
      program.run.kill();
      await eventually(() => !groupLives(program.pid), "the group is dead");
      await clock.advance(1_000);
      await program.done;
      expect(dead).toBe(true);
    },
  );

  test("hears it though it was stopped by a SIGSTOP", async () => {
    const program = script("echo ready; kill -STOP $$; sleep 60");
    await program.prints(/ready/);
    program.run.stop(60_000);
    expect(await program.done).toMatchObject({ cause: "signal", signal: "SIGTERM" });
  });

  test("before it was started ends at once", async () => {
    const program = script("sleep 60");
    program.run.stop(60_000);
    expect(await program.done).toMatchObject({ cause: "signal", signal: "SIGTERM" });
  });

  test("takes what it started along", async () => {
    const program = script("sh -c 'trap \"\" TERM; sleep 60' & sh -c 'sleep 60' & echo $!; wait", fastClock(20));
    await program.prints(/\d+/);
    program.run.stop(1_000);
    await program.done;
    expect(groupLives(await program.started)).toBe(false);
  });
});

describe("a program that is killed", () => {
  test("is gone with its group at once", async () => {
    const program = script(`${STUBBORN} & ${STUBBORN}`);
    await program.prints(/ready\nready/);
    program.run.kill();
    expect(await program.done).toMatchObject({ cause: "signal", signal: "SIGKILL" });
    expect(groupLives(await program.started)).toBe(false);
  });

  test("before it was started ends at once", async () => {
    const program = script(STUBBORN);
    program.run.kill();
    expect(await program.done).toMatchObject({ cause: "signal", signal: "SIGKILL" });
  });
});

describe("what a program leaves behind", () => {
  test("in its group is stopped before the program counts as over, and does not change how it ended", async () => {
    const program = script("sleep 60 & exit 3");
    expect(await program.done).toMatchObject({ cause: "exit", exit_code: 3 });
    expect(program.leftover).toBe(true);
    expect(groupLives(await program.started)).toBe(false);
  });

  test("in its group is killed when it does not hear", async () => {
    const program = script(`sh -c '${STUBBORN.replaceAll("'", `'\\''`)}' & sleep 0.05; exit 0`, fastClock(20));
    expect(await program.done).toMatchObject({ cause: "success" });
    expect(program.leftover).toBe(true);
    expect(groupLives(await program.started)).toBe(false);
  });

  test("is not told of when it was stopped anyway", async () => {
    const program = script("sh -c 'sleep 60' & trap 'exit 0' TERM; echo ready; wait");
    await program.prints(/ready/);
    program.run.stop(60_000);
    await program.done;
    expect(program.leftover).toBe(false);
  });

  test("in a session of its own does not hold up the end, though it keeps the output open", async () => {
    const program = script("setsid sleep 60 & echo $!; exit 0");
    const daemon = Number(await program.prints(/(\d+)\n/));
    try {
      expect(await program.done).toMatchObject({ cause: "success" });
      expect([program.stdout, program.leftover]).toEqual([`${daemon}\n`, false]);
      expect(isProvenDead(identify(daemon))).toBe(false);
    } finally {
      killQuietly(daemon);
    }
  });
});

test("a fence in which nothing can be born does not keep a program from running", async () => {
  const fence = { ...GROUP_FENCE, cgroup: "/nonexistent/cgroup" };
  const program = script("echo ran", systemClock, { fence: () => fence });
  expect(await program.done).toMatchObject({ cause: "success" });
  expect(program.stdout).toBe("ran\n");
});
