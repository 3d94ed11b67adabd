/** What reaches the eyes of a person: colour, width, and never a byte that their terminal would obey. */

import { beforeAll, describe, expect, test } from "bun:test";
import { inTerminal, LEASE, run, usePlaces, type Answer, type Place } from "./lease.ts";

const newPlace = usePlaces();

const ESCAPE = "\u001b";
/** Clears the screen, sets the title, and rings, in seven and in eight bits. */
const NASTY = `${ESCAPE}[2J${ESCAPE}]0;owned\u0007\u009b31m\r\u202e`;
// oxlint-disable-next-line no-control-regex
const OBEYED = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e]/;
/** Colours are ours, and harmless. */
const withoutColour = (text: string): string => text.replaceAll(new RegExp(`${ESCAPE}\\[[\\d;]*m`, "g"), "");

describe("colour", () => {
  let place: Place;
  beforeAll(async () => {
    place = newPlace();
    await place.enqueue("--retries", "0", "--", "false");
    await place.work();
  });

  test("is used in a terminal, and not in a pipe", async () => {
    const seen = await inTerminal(place, ["inspect"]);
    expect(seen.screen).toContain(`${ESCAPE}[31m`);
    const piped = await place.lease("inspect");
    expect(piped.stdout).not.toContain(ESCAPE);
    expect(withoutColour(seen.screen).replaceAll(/ +$/gm, "")).toContain("Latest failures");
  });

  test("is not used with NO_COLOR, TERM=dumb or --color never", async () => {
    for (const env of [{ NO_COLOR: "1" }, { TERM: "dumb" }]) {
      expect((await inTerminal(place, ["inspect", "1"], { env })).screen).not.toContain(ESCAPE);
    }
    expect((await inTerminal(place, ["inspect", "--color", "never"])).screen).not.toContain(ESCAPE);
    expect((await inTerminal(place, ["--help"], { env: { NO_COLOR: "1" } })).screen).not.toContain(ESCAPE);
    // Set to nothing, it is not set.
    expect((await inTerminal(place, ["inspect"], { env: { NO_COLOR: "" } })).screen).toContain(ESCAPE);
  });

  test("is used with --color always, also in a pipe and against NO_COLOR", async () => {
    for (const args of [["inspect"], ["inspect", "1"], ["help"], ["enqueue", "--help"]]) {
      const answer = await place.leaseWith({ env: { NO_COLOR: "1" } }, ...args, "--color", "always");
      expect({ args, coloured: answer.stdout.includes(`${ESCAPE}[`) }).toEqual({ args, coloured: true });
    }
  });

  test("is not used where a script reads: ids, JSON, logs", async () => {
    const { screen } = await inTerminal(place, ["enqueue", "--color", "always", "--", "true"]);
    expect(screen).toMatch(/^\d+\n$/);
    const json = await place.lease("inspect", "1", "--json", "--color", "always");
    expect(json.stdout).not.toContain(ESCAPE);
  });
});

describe("a line that is redrawn", () => {
  test("shows how far a cancel of very many is, and how many in the end instead of a line for each", async () => {
    const place = newPlace();
    const many = Array.from({ length: 5_000 }, (_, i) => i).join("\n");
    await place.leaseWith({ stdin: many }, "enqueue", "--from", "-", "--lines", "--", "true");
    const { screen } = await inTerminal(place, ["cancel", "--queue", "default"]);
    expect(screen.trim().split("\n").at(-1)).toEndWith("5000 jobs cancelled");
    expect(screen.split("\n").length).toBeLessThan(10);
    expect((await place.lease("retry", "--status", "cancelled")).stdout.split("\n")).toHaveLength(5_001);
  });

  test("shows how far a worker is, in a terminal that can do it and in no other", async () => {
    const place = newPlace();
    const up = `\r${ESCAPE}[1A`;
    const work = async (env: Record<string, string>) => {
      // Longer than the line takes to appear.
      await place.enqueue("--", "sleep", "0.6");
      return (await inTerminal(place, ["worker", "--until-empty"], { env })).screen;
    };
    expect(await work({})).toContain(up);
    const uncoloured = await work({ NO_COLOR: "1" });
    expect(uncoloured).toContain(up);
    // All that is left are moves, and no colours.
    expect(uncoloured.match(new RegExp(`${ESCAPE}\\[[\\d;]*m`, "g"))).toBeNull();
    expect(await work({ TERM: "dumb" })).not.toContain(ESCAPE);
  });
});

describe("width", () => {
  test("no line is wider than the terminal, however long the words are", async () => {
    const place = newPlace();
    await place.enqueue(
      "--retries",
      "0",
      "-q",
      "a-rather-long-name-of-a-queue",
      "--",
      "sh",
      "-c",
      `echo ${"long ".repeat(60)}; exit 1`,
    );
    await place.work("-q", "*");
    for (const cols of [40, 80, 132]) {
      const lists = ["jobs", "queues", "workers", "leases", "checkpoints"].map((list) => ["inspect", list]);
      for (const args of [["inspect"], ["inspect", "1"], ...lists, ["help"], ["worker", "--help"]]) {
        const { screen } = await inTerminal(place, args, { cols });
        const widest = Math.max(
          ...withoutColour(screen)
            .split("\n")
            .map((line) => Bun.stringWidth(line)),
        );
        // A command to copy is never cut.
        const copied = args.includes("--help") || args[1] === "1";
        expect({ args, cols, fits: copied || widest <= cols }).toEqual({ args, cols, fits: true });
      }
    }
  });
});

describe("escape sequences that came in as words", () => {
  /** The lines with something to obey, written so that a failure does not obey it either. */
  const raw = ({ stdout, stderr }: Pick<Answer, "stdout" | "stderr">) =>
    withoutColour(stdout + stderr)
      .split("\n")
      .filter((line) => OBEYED.test(line))
      .map((line) => encodeURI(line));

  test.each<[string, string[]]>([
    ["a command", [NASTY]],
    ["a command to help with", ["help", NASTY]],
    ["a flag", ["enqueue", `--${NASTY}`]],
    ["a short flag", ["enqueue", `-${NASTY}`]],
    ["a queue", ["enqueue", "-q", NASTY, "--", "true"]],
    ["a time", ["enqueue", "--delay", NASTY, "--", "true"]],
    ["a moment", ["enqueue", "--at", NASTY, "--", "true"]],
    ["a file of jobs", ["enqueue", "--from", NASTY]],
    ["a key to run", ["run", "--key", NASTY, "--", "true"]],
    ["a command to run", ["run", "--", NASTY]],
    ["a number", ["enqueue", "--retries", NASTY, "--", "true"]],
    ["a variable", ["enqueue", "--env", NASTY, "--", "true"]],
    ["a file", ["enqueue", "--input", `@${NASTY}`, "--", "true"]],
    ["a job to wait for", ["enqueue", "--after", NASTY, "--", "true"]],
    ["a choice", ["enqueue", "--if-exists", NASTY, "--", "true"]],
    ["a word too many", ["enqueue", "-c", "x", NASTY]],
    ["a store", ["inspect", "--store", NASTY]],
    ["an id", ["inspect", NASTY]],
    ["an id to read", ["logs", NASTY]],
    ["a task to cancel", ["cancel", "--task", NASTY]],
    ["a queue to retry", ["retry", "--queue", NASTY]],
    ["a list", ["inspect", `jobs${NASTY}`]],
    ["a state", ["inspect", "jobs", "--status", NASTY]],
    ["a moment", ["inspect", "jobs", "--since", NASTY]],
    ["a task to wait for", ["wait", "--task", NASTY]],
    ["an age", ["prune", "--older-than", NASTY]],
    ["a queue to pause", ["pause", NASTY]],
    ["a queue to resume", ["resume", NASTY]],
    ["a queue to serve", ["worker", "--until-empty", "-q", NASTY]],
    ["a lease", ["worker", "--lease", NASTY]],
    ["a word for a role", ["watchdog", NASTY]],
  ])("are shown and not obeyed where they are wrong: %s", async (_what, args) => {
    const place = newPlace();
    await place.enqueue("--", "true");
    expect(raw(await place.lease(...args))).toEqual([]);
  });

  test("are shown and not obeyed in all that is told about a job", async () => {
    const place = newPlace();
    await place.enqueue("--retries", "0", "--input", NASTY, "--cwd", NASTY, "--", NASTY, NASTY);
    await place.enqueue(
      "--retries",
      "0",
      "-c",
      `printf '%s' "$0$1" > "$LEASE_OUTPUT"; "$LEASE" beat --message '${NASTY}'; "$LEASE" checkpoint '${NASTY}'; printf '%s\\n' '${NASTY}'; exit 1`,
    );
    await place.enqueue("--", "true");
    await place.lease("cancel", "3", "--reason", NASTY);
    await place.lease("worker", "--until-empty", "--name", NASTY);
    const lists = ["jobs", "queues", "workers", "leases", "checkpoints"];
    const shown = [["inspect"], ["inspect", "1-3", "--show-env"], ...lists.map((list) => ["inspect", list])];
    const tsv = lists.map((list) => ["inspect", list, "--tsv"]);
    for (const args of [...shown, ...shown.map((words) => [...words, "--json"]), ...tsv]) {
      const answer = await place.lease(...args);
      expect({ args, ...answer }).toMatchObject({ code: 0, stderr: "" });
      expect({ args, raw: raw(answer) }).toEqual({ args, raw: [] });
      const seen = await inTerminal(place, args);
      expect({ args, raw: raw({ stdout: seen.screen, stderr: "" }) }).toEqual({ args, raw: [] });
    }
  });

  test("are shown and not obeyed in lines of jobs and in what a run says", async () => {
    const place = newPlace();
    const bulk = (line: string) => place.leaseWith({ stdin: `${line}\n` }, "enqueue", "--from", "-");
    for (const line of [NASTY, JSON.stringify({ [NASTY]: 1 }), JSON.stringify({ argv: ["a"], queue: NASTY })]) {
      expect(raw(await bulk(line))).toEqual([]);
    }
    await place.lease("run", "--key", "k", "--cwd", `/${NASTY}`, "--", "true");
    expect(raw(await place.lease("run", "--key", "k"))).toEqual([]);
  });

  test("are shown and not obeyed in what a worker says about a job", async () => {
    const place = newPlace();
    await place.enqueue("--retries", "1", "--backoff", "none", "--", NASTY);
    await place.enqueue("--retries", "0", "--cwd", `/${NASTY}`, "--", "true");
    const answer = await place.lease("worker", "--until-empty", "-v");
    expect(answer.code).toBe(1);
    expect(raw(answer)).toEqual([]);
  });
});

describe("a reader that went away", () => {
  let place: Place;
  beforeAll(async () => {
    place = newPlace();
    await place.enqueue("-c", "seq 1 100000");
    await place.enqueue("--delay", "1h", "--", "true");
    await place.work();
  });

  test("ends every command quietly, as the signal for it would", async () => {
    // A pipe whose only reader has left before lease begins.
    const script = `pipe=$TMPDIR/pipe.$$; mkfifo "$pipe"; : <"$pipe" & exec 3>"$pipe"; wait; "$0" "$@" >&3`;
    const commands = [
      ["inspect"],
      ["inspect", "1"],
      ["inspect", "--json"],
      ["inspect", "jobs"],
      ["inspect", "jobs", "--tsv"],
      ["inspect", "queues", "--watch"],
      ["prune", "--older-than", "1d"],
      ["logs", "1"],
      ["help"],
      ["worker", "--help"],
      ["version"],
      ["cancel", "2"],
      ["watchdog", "--once", "--json"],
      ["enqueue", "--", "true"],
      ["watchdog", "--every", "1s"],
      ["watchdog", "--json"],
      ["logs", "-f", "1"],
      ["retry", "1", "--json"],
      ["doctor"],
      ["doctor", "--json"],
      ["completions", "zsh"],
      ["completions", "--query", "queues"],
      ["inspect", "1-2"],
      ["inspect", "1", "--json"],
      ["version", "--json"],
      [],
    ];
    const ends = await Promise.all(
      commands.map(async (args) => {
        const { code, stderr } = await run(["sh", "-c", script, LEASE, ...args], { cwd: place.folder, env: place.env });
        return { args, code, stderr };
      }),
    );
    expect(ends).toEqual(commands.map((args) => ({ args, code: 141, stderr: "" })));
  });

  test("ends `lease logs` when it has seen enough", async () => {
    const script = '"$0" logs 1 | head -n 1; echo "${PIPESTATUS[0]}"';
    const { stdout, stderr } = await run(["bash", "-c", script, LEASE], { cwd: place.folder, env: place.env });
    expect({ stdout, stderr }).toEqual({ stdout: "1\n141\n", stderr: "" });
  });

  test("of a worker's log does not keep it from its jobs", async () => {
    const own = newPlace();
    for (let jobs = 0; jobs < 5; jobs++) await own.enqueue("-c", "echo $LEASE_JOB_ID");
    const script = '"$0" worker --until-empty -v 2>&1 | head -n 1; echo "${PIPESTATUS[0]}"';
    const { stdout } = await run(["bash", "-c", script, LEASE], { cwd: own.folder, env: own.env });
    expect(stdout).toMatch(/^[^\n]+\n0\n$/);
    expect(own.rows("SELECT state, count(*) AS jobs FROM jobs GROUP BY state")).toEqual([
      { state: "completed", jobs: 5 },
    ]);
  });

  test("is told from a disk that is full, which is an error", async () => {
    const { code, stderr } = await run(["sh", "-c", 'exec "$0" inspect > /dev/full', LEASE], { env: place.env });
    expect({ code, stderr }).toEqual({ code: 125, stderr: expect.stringMatching(/^lease: .*no space left[^\n]*\n$/) });
  });

  test("does not change the code of an error that nobody could read", async () => {
    const { code } = await run(["sh", "-c", 'exec "$0" frobnicate 2> /dev/full', LEASE], { env: place.env });
    expect(code).toBe(2);
  });

  test("and standard streams that are closed from the start harm nothing", async () => {
    const own = newPlace();
    const closed = [">&-", "2>&-", "<&-", "<&- >&- 2>&-"];
    const codes = [];
    for (const how of closed) {
      const line = `"$0" enqueue -- true ${how}`;
      codes.push((await run(["sh", "-c", line, LEASE], { cwd: own.folder, env: own.env })).code);
    }
    // Whoever could not be told the id must not think that all is well.
    expect(codes).toEqual([125, 0, 0, 125]);
    expect(own.rows("SELECT count(*) AS jobs FROM jobs")).toEqual([{ jobs: 4 }]);
    expect(own.rows("PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
  });
});
