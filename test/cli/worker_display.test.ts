/** What a worker shows at a terminal, and what it prints of its jobs. */

import { afterEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { environment, LEASE, until, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();
const open: { kill: (signal: "SIGKILL") => void }[] = [];
afterEach(() => {
  for (const child of open.splice(0)) child.kill("SIGKILL");
});

/** In a terminal: all that was written to it so far, without colours. */
function atTerminal(place: Place, args: string[], cols = 100, env: Record<string, string> = {}) {
  let raw = "";
  const terminal = { cols, rows: 24, data: (_: unknown, bytes: Uint8Array) => void (raw += Buffer.from(bytes)) };
  const all = environment({ TERM: "xterm", ...place.env, ...env });
  const child = Bun.spawn([LEASE, ...args], { cwd: place.folder, env: all, terminal });
  open.push(child);
  return { child, raw: () => raw, screen: () => Bun.stripANSI(raw) };
}

const WAIT = "while [ ! -e go ]; do sleep 0.02; done";
const go = (place: Place) => writeFileSync(join(place.folder, "go"), "");

describe("a worker at a terminal", () => {
  test("says what it serves and shows each job with what it printed, its failures above, and in the end the sum", async () => {
    const place = newPlace();
    await place.enqueue("-c", `echo linking; ${WAIT}`);
    await place.enqueue("--retries", "0", "-c", "echo bad magic number >&2; exit 1");
    const { child, screen } = atTerminal(place, ["worker", "-j", "2", "--until-empty"]);
    await until(() => /1 {2}echo linking; while .* \d+s {2}linking/.test(screen()));
    expect(screen()).toContain("lease worker serves queue default with 2 slots, until nothing is left");
    await until(() => screen().includes("job 2: failed for good: exit code 1 (bad magic number)"));
    go(place);
    expect(await child.exited).toBe(1);
    expect(screen()).toMatch(/1 done, 1 failed in [\d.]+m?s\s*$/);
  });

  test("goes on for ever without being mute, and Ctrl-C ends it", async () => {
    const place = newPlace();
    const { child, screen, raw } = atTerminal(place, ["worker"], 40, { NO_COLOR: "1" });
    await until(() => screen().includes("0 done"));
    expect(screen()).toContain("serves queue default with 1 slot, until Ctrl-C");
    expect(raw()).not.toContain("\u001b[3");
    child.kill("SIGINT");
    expect(await child.exited).toBe(0);
  });

  test.each([
    [["--once"], "1 slot, for one job"],
    [["--max-jobs", "3"], "1 slot, for 3 jobs"],
    [["--until-empty"], "1 slot, until nothing is left"],
  ])("says how long it serves, and that there was nothing to do: %j", async (flags, text) => {
    const { child, screen } = atTerminal(newPlace(), ["worker", ...flags]);
    await until(() => screen().includes(text));
    if (flags[0] === "--max-jobs") child.kill("SIGINT");
    expect(await child.exited).toBe(0);
    expect(screen().includes("there was nothing to run")).toBe(flags[0] !== "--max-jobs");
  });

  test("draws nothing with --quiet, and still tells what failed", async () => {
    const place = newPlace();
    await place.enqueue("--retries", "0", "-c", "exit 3");
    const { child, screen } = atTerminal(place, ["worker", "--until-empty", "--quiet"]);
    expect(await child.exited).toBe(1);
    expect(screen()).toContain("job 1: failed for good: exit code 3");
    expect(screen()).not.toContain("serves");
    expect(screen()).not.toContain("done");
  });
});

describe("what jobs print", () => {
  test("is passed on line by line behind the job's id with --tag, each stream to its own", async () => {
    const place = newPlace();
    await place.enqueue("-c", "echo one; echo two >&2; printf end");
    await place.enqueue("-c", "echo other");
    const { code, stdout, stderr } = await place.lease("worker", "--until-empty", "--tag");
    expect(code).toBe(0);
    expect(stdout.split("\n").toSorted()).toEqual(["", "1 | end", "1 | one", "2 | other"]);
    expect(stderr).toContain("1 | two\n");
  });

  test("is passed on whole when the job has ended with --group, never mixed with another's", async () => {
    const place = newPlace();
    for (const name of ["a", "b"]) await place.enqueue("-c", `for n in 1 2 3; do echo ${name}$n; sleep 0.05; done`);
    const { stdout } = await place.lease("worker", "-j", "2", "--until-empty", "--group");
    expect(["a1\na2\na3\nb1\nb2\nb3\n", "b1\nb2\nb3\na1\na2\na3\n"]).toContain(stdout);
    await place.enqueue("-c", "echo c");
    expect((await place.lease("worker", "--until-empty", "--group", "--tag")).stdout).toBe("3 | c\n");
  });

  test("goes above what is drawn at a terminal", async () => {
    const place = newPlace();
    await place.enqueue("-c", `echo hello; ${WAIT}`);
    const { child, screen } = atTerminal(place, ["worker", "--until-empty", "--tag"]);
    await until(() => screen().includes("1 | hello"));
    go(place);
    expect(await child.exited).toBe(0);
  });
});
