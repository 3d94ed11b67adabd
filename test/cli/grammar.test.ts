/** The command line itself: where flags may stand, what is refused and what is suggested instead, and help. */

import { describe, expect, test } from "bun:test";
import { expectRefusal, LEASE, run, usePlaces } from "./lease.ts";

const newPlace = usePlaces();
const lease = (...args: string[]) => run([LEASE, ...args]);

const COMMANDS = [
  "enqueue",
  "worker",
  "watchdog",
  "inspect",
  "logs",
  "cancel",
  "retry",
  "pause",
  "resume",
  "beat",
  "checkpoint",
  "guard",
  "doctor",
  "completions",
  "version",
];

describe("flags", () => {
  test("that every command has may stand before its name as well", async () => {
    const place = newPlace();
    const store = ["--store", place.store];
    const plain = (...args: string[]) => run([LEASE, ...args], { cwd: place.folder });
    expect(await plain(...store, "enqueue", "--", "true")).toMatchObject({ code: 0, stdout: "1\n" });
    expect(await plain("-v", ...store, "enqueue", "-q", "x", "--", "true")).toMatchObject({ code: 0, stdout: "2\n" });
    for (const args of [
      [...store, "inspect", "1", "2", "--json"],
      ["inspect", "--json", ...store, "1", "2"],
      ["inspect", "1", ...store, "2", "--json"],
      ["inspect", ...store, "--json", "--", "1", "2"],
      ["inspect", `--store=${place.store}`, "--json", "1-2"],
      ["inspect", ...store, "--json", "1,2"],
    ]) {
      const { code, stdout } = await plain(...args);
      const ids = stdout
        .trim()
        .split("\n")
        .map((line) => (JSON.parse(line) as { id: number }).id);
      expect({ args, code, ids }).toEqual({ args, code: 0, ids: [1, 2] });
    }
  });

  test("end at the first word of a command, which has flags of its own", async () => {
    const place = newPlace();
    const id = await place.enqueue("-q", "mine", "ls", "-q", "theirs", "--nope", "--help");
    expect(await place.inspect(id)).toMatchObject({ queue: "mine", argv: ["ls", "-q", "theirs", "--nope", "--help"] });
  });

  test.each([
    ["enqueue", "--queu", "unknown flag --queu; did you mean --queue?"],
    ["enqueue", "--prioritty", "did you mean --priority?"],
    ["enqueue", "--retires=3", "unknown flag --retires; did you mean --retries?"],
    ["enqueue", "--if-exist", "did you mean --if-exists?"],
    ["enqueue", "-queue", "unknown flag -queue; did you mean --queue?"],
    ["enqueue", "--xyzzy", "unknown flag --xyzzy; see lease enqueue --help"],
    ["enqueue", "-z", "unknown flag -z; see lease enqueue --help"],
    ["worker", "--untilempty", "did you mean --until-empty?"],
    ["worker", "--no-swep", "did you mean --no-sweep?"],
    ["worker", "--no-once", "unknown flag --no-once"],
    ["watchdog", "--onec", "did you mean --once?"],
    ["inspect", "--jsn", "did you mean --json?"],
    ["logs", "--folow", "did you mean --follow?"],
    ["cancel", "--reasons", "did you mean --reason?"],
    ["retry", "--statsu", "did you mean --status?"],
    ["beat", "--progres", "did you mean --progress?"],
    ["checkpoint", "--stor", "did you mean --store?"],
    ["guard", "--colour", "did you mean --color?"],
    ["version", "--jso", "did you mean --json?"],
  ])("that `lease %s` does not have are refused: %s", async (command, flag, message) => {
    expectRefusal(await lease(command, flag, "--", "1"), 2, message);
  });

  test.each([
    [["enqueue", "--queue"], "--queue needs a value"],
    [["enqueue", "-q"], "-q needs a value"],
    [["enqueue", "--queue", "--", "true"], "--queue needs a value"],
    [
      ["enqueue", "--queue", "--task", "x", "--", "true"],
      "--task looks like a flag; if it is the value, write --queue=--task",
    ],
    [["logs", "--attempt"], "--attempt needs a value"],
    [["inspect", "--store"], "--store needs a value"],
    [["inspect", "--json=yes"], '--json takes no value, and got "yes"'],
    [["enqueue", "-q", "a", "-q", "b", "--", "true"], "-q is given twice"],
    [["enqueue", "-q", "a", "--queue=b", "--", "true"], "--queue is given twice"],
    [["watchdog", "soon"], 'lease watchdog takes no words, and got "soon"'],
    [["version", "2"], 'lease version takes no words, and got "2"'],
  ] as const)("without what they need, or with too much, are refused: lease %p", async (args, message) => {
    expectRefusal(await lease(...args), 2, message);
  });
});

describe("commands", () => {
  test.each([
    ["enqeue", 'unknown command "enqeue"; did you mean lease enqueue?'],
    ["workers", "did you mean lease inspect workers?"],
    ["jobs", "did you mean lease inspect jobs?"],
    ["wachdog", "did you mean lease watchdog?"],
    ["inspct", "did you mean lease inspect?"],
    ["follow", "did you mean lease logs -f?"],
    ["push", "did you mean lease enqueue?"],
    ["lss", "did you mean lease ls?"],
    ["rm", "did you mean lease cancel?"],
    ["restart", "did you mean lease retry?"],
    ["frobnicate", "lease help lists them"],
    ["constructor", "lease help lists them"],
    ["", 'unknown command ""'],
  ])("that do not exist are refused, with what was probably meant: %p", async (name, message) => {
    expectRefusal(await lease(name, "--", "true"), 2, message);
  });

  test("have short names, which take the same flags", async () => {
    const place = newPlace();
    const id = (await place.lease("add", "-q", "mail", "--", "true")).stdout.trim();
    expect((await place.lease("ls", "--queue", "mail", "--json")).stdout).toContain(`"id":${id},`);
    expect((await place.lease("status", "--json")).stdout).toContain('"queues":');
    expect((await place.lease("kill", id)).code).toBe(0);
    expect((await place.lease("log", id)).code).toBe((await place.lease("logs", id)).code);
    expect((await lease("help", "ls")).stdout).toBe((await lease("inspect", "--help")).stdout);
  });

  test.each<[string[], string]>([
    [["ls", "--failed"], "did you mean --status failed?"],
    [["retry", "--failed"], "did you mean --status failed?"],
    [["ls", "--done"], "did you mean --status completed?"],
    [["worker", "--concurrency", "4"], "did you mean --slots?"],
    [["worker", "-n", "4"], "did you mean --slots?"],
    [["enqueue", "--max-retries", "4", "--", "true"], "did you mean --retries?"],
    [["enqueue", "--in", "5m", "--", "true"], "did you mean --delay?"],
    [["enqueue", "--name", "x", "--", "true"], "did you mean --task?"],
    [["enqueue", "--every", "5m", "--", "true"], "lease schedule NAME --every … -- COMMAND"],
    [["ls", "--grep", "x"], "did you mean --match?"],
    [["ls", "-n", "5"], "did you mean --limit?"],
    [["logs", "--tail", "5", "7"], "did you mean --lines?"],
    [["ls", "--all"], "jobs in every state are listed already; --limit 1000 shows more of them"],
    [["ls", "-a"], "jobs in every state are listed already"],
    [["inspect", "workers", "--all"], "those that have ended are --status stopped,dead"],
    [["cancel", "--all"], "lease cancel --status pending,scheduled,retrying,blocked,running"],
    [["retry", "--all"], "all that failed are lease retry --status failed"],
    [["wait", "--all"], "all jobs of a queue are lease wait --queue NAME"],
    [["logs", "-t", "release"], "lease logs takes ids; lease ls --task NAME lists them"],
    [["logs", "--queue=mail"], "lease logs takes ids; lease ls --queue NAME lists them"],
    [["enqueue", "--after", "5m", "--", "true"], "not before a time is --delay 5m"],
    [["wait", "abc"], "; by label it is --task abc, by queue --queue abc"],
    [["cancel", "abc"], "; by label it is --task abc, by queue --queue abc"],
    [["worker", "./send.sh"], "takes no words before --; a handler goes behind it: lease worker -- ./send.sh"],
    [["worker", "mail", "--", "./send.sh"], "takes no words before --; did you mean -q mail?\n"],
    [["stop", "3"], "did you mean lease cancel?"],
    [["failed"], "did you mean lease inspect jobs --status failed?"],
    [["priority", "3", "10"], "did you mean lease edit -p?"],
  ])("in the words of other tools lead to ours: %j", async (words, hint) => {
    const { code, stderr } = await lease(...words);
    expect(code).toBe(2);
    expect(stderr).toContain(hint);
  });

  test("that everything is cancelled by are those that the hint names", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    await place.enqueue("--delay", "1h", "--", "true");
    const [, line = ""] = /lease (cancel --status \S+)/.exec((await place.lease("cancel", "--all")).stderr) ?? [];
    expect((await place.lease(...line.split(" "))).stdout).toBe("1 cancelled\n2 cancelled\n");
  });

  test("that are missing get the short help and a code that says so", async () => {
    const { code, stdout, stderr } = await lease();
    expect({ code, stderr }).toEqual({ code: 2, stderr: "" });
    for (const name of COMMANDS) expect(stdout).toMatch(new RegExp(`^  .*\\b${name}\\b`, "m"));
    // Its beginning, where to begin, is still to be seen in a small terminal.
    expect(stdout.split("\n").length).toBeLessThan(24);
    expect(stdout).toContain("lease enqueue -- ./build.sh");
  });
});

describe("help", () => {
  test.each(COMMANDS)("of `lease %s` is an answer, with an example, and the same by every way to ask", async (name) => {
    const answers = await Promise.all([
      lease(name, "--help"),
      lease(name, "-h"),
      lease("help", name),
      lease("--help", name),
      lease(name, "--help", "--no-such-flag"),
    ]);
    const [first] = answers;
    expect(first).toMatchObject({ code: 0, stderr: "" });
    expect(first?.stdout).toMatch(new RegExp(`^Usage\n  lease ${name} \\[FLAGS\\]`, "m"));
    expect(first?.stdout).toMatch(new RegExp(`^Examples\n  .*lease ${name}`, "m"));
    expect(first?.stdout).toContain("--trust-store");
    for (const answer of answers) expect(answer).toEqual(first);
    // Of a page that is read in a terminal of usual width, nothing wraps.
    expect(Math.max(...(first?.stdout ?? "").split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  test("of everything tells about the environment and the exit codes", async () => {
    const [help, flag] = await Promise.all([lease("help"), lease("--help")]);
    expect(help).toMatchObject({ code: 0, stderr: "" });
    expect(flag).toEqual(help);
    for (const text of ["LEASE_STORE", "NO_COLOR", "LEASE_OUTPUT", "Exit codes", "125"])
      expect(help.stdout).toContain(text);
  });

  test("makes no store and needs none", async () => {
    const place = newPlace();
    await Promise.all(COMMANDS.map((name) => place.lease(name, "--help")));
    expect(place.content()).toEqual({});
  });

  test("of a command that does not exist is refused like the command", async () => {
    expectRefusal(await lease("help", "wroker"), 2, "did you mean lease worker?");
    expectRefusal(await lease("help", "worker", "logs"), 2, "takes one command");
  });
});

describe("the version", () => {
  test("is the same by every way to ask, and tells what it stands on", async () => {
    const [command, flag, short, json] = await Promise.all([
      lease("version"),
      lease("--version"),
      lease("-V"),
      lease("version", "--json"),
    ]);
    expect(command).toEqual({
      code: 0,
      stderr: "",
      stdout: expect.stringMatching(/^lease \S+ \(\w+-\w+, bun [\d.]+, SQLite [\d.]+\)\n$/),
    });
    expect([flag, short]).toEqual([command, command]);
    const told = JSON.parse(json?.stdout ?? "") as Record<string, unknown>;
    expect(Object.keys(told)).toEqual(["schema", "version", "commit", "system", "runtime", "sqlite"]);
    const below = `${told["system"]}, ${told["runtime"]}, SQLite ${told["sqlite"]}`;
    expect(command?.stdout).toBe(`lease ${told["version"]} (${below})\n`);
  });
});

describe("settings that contradict each other are refused, with the rule and the two values:", () => {
  test.each([
    [
      ["worker", "--lease", "2s", "--interval", "1s"],
      "interval must be less than half of lease, and is 1s with a lease of 2s",
    ],
    [["worker", "--interval", "3m"], "interval must be less than half of lease, and is 3m with a lease of 5m"],
    [["worker", "--lease", "500ms"], "lease must be at least 1s, and is 500ms"],
    [["worker", "--lease", "0"], "lease must be at least 1s, and is 0ms"],
    [["watchdog", "--every", "500ms"], "every (between two sweeps) must be at least 1s, and is 500ms"],
    [["watchdog", "--once", "--every", "0"], "every (between two sweeps) must be at least 1s, and is 0ms"],
    [["enqueue", "--lease", "999ms", "--", "true"], "lease must be at least 1s, and is 999ms"],
  ] as const)("lease %p", async (args, message) => {
    expectRefusal(await newPlace().lease(...args), 2, message);
  });
});

describe("what a role is told is checked before it touches a store:", () => {
  test.each([
    [["worker", "-j", "0"], '-j "0" is not a whole number from 1'],
    [["worker", "-j", "many"], '-j "many"'],
    [["worker", "--max-jobs", "0"], '--max-jobs "0"'],
    [["worker", "--once", "--max-jobs", "x"], '--max-jobs "x"'],
    [["worker", "--grace", "x"], '--grace "x" is not a duration'],
    [["worker", "--grace", "-1s"], `--grace "-1s" can't be negative`],
    [["worker", "--drain", "-1s"], `--drain "-1s" can't be negative`],
    [["worker", "--poll", "-1s"], `--poll "-1s" can't be negative`],
    [["worker", "--beat", "hart"], '--beat can\'t be "hart"'],
    [["worker", "-q", ""], "queue"],
    [["worker", "--min", "2"], "--min needs --max"],
    [["worker", "--min", "3", "--max", "2"], "--min 3 is more than --max 2"],
    [["worker", "-j", "2", "--max", "4"], "-j is a fixed number of slots"],
    [["worker", "--scale-up-at", "2"], "--scale-up-at needs --max"],
    [["worker", "--max", "2", "--scale-down-after", "soon"], '--scale-down-after "soon" is not a duration'],
    [["watchdog", "--once", "--grace", "-1s"], `--grace "-1s" can't be negative`],
    [["watchdog", "--once", "--keep-checkpoints", "-1"], '--keep-checkpoints "-1" is not a whole number from 0 up'],
  ] as const)("lease %p", async (args, message) => {
    const place = newPlace();
    // Ends at once where it is taken for an order after all.
    const answer = await place.lease(...args, ...(args[0] === "worker" ? ["--until-empty"] : []));
    expectRefusal(answer, 2, message);
    expect(place.content()).toEqual({});
  });
});
