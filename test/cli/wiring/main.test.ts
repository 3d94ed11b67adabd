import { describe, expect, test } from "bun:test";
import { dispatch } from "../../../src/cli/main.ts";
import type { Io } from "../../../src/cli/io.ts";
import { LeaseError } from "../../../src/core/errors.ts";
import { answer } from "./fixture.ts";

const lease = (line: string, more?: Partial<Io>) => answer(dispatch, line === "" ? [] : line.split(" "), more);

describe("a command", () => {
  test("gets its flags, lists and words, and is the only one that is loaded", async () => {
    const { code, stdout, stderr, loaded } = await lease("enqueue -q mail --env A --env B=1 ls -l --help");
    expect(JSON.parse(stdout)).toEqual({
      queue: "mail",
      env: ["A", "B=1"],
      rest: ["ls", "-l", "--help"],
      given: ["queue", "env"],
    });
    expect({ code, stderr, loaded }).toEqual({ code: 0, stderr: "", loaded: ["enqueue"] });
  });

  test("gets the shared flags that stand before its name", async () => {
    const { stdout } = await lease("--store x.db enqueue -q mail -- ls");
    expect(JSON.parse(stdout)).toMatchObject({ store: "x.db", queue: "mail", rest: ["ls"] });
    expect((await lease("--store a enqueue --store b -- ls")).stderr).toContain("--store is given twice");
  });

  test("decides the exit code", async () => {
    expect((await lease("fail seven")).code).toBe(7);
  });
});

describe("an error", () => {
  test("is one line on stderr with the code of its kind, and nothing on stdout", async () => {
    const { code, stdout, stderr } = await lease("enqueue --quue mail ls");
    expect({ code, stdout, stderr }).toEqual({
      code: 2,
      stdout: "",
      stderr: "lease: unknown flag --quue; did you mean --queue?\n",
    });
  });

  test.each(["-_", "-f_", "-_=1", "--_"])(
    "is one of usage also for flags that no shell program has: %s",
    async (flag) => {
      const { code, stderr } = await lease(`fail ${flag}`);
      expect(code).toBe(2);
      expect(stderr).toMatch(/^lease: unknown flag -+f?_/);
    },
  );

  test("stays one harmless line, whatever its message holds", async () => {
    const { code, stderr } = await lease("fail lost");
    expect({ code, stderr }).toEqual({ code: 4, stderr: "lease: the lease\\nis \\x1b[31mlost\n" });
  });

  test("that nobody planned is said to be one, with code 125", async () => {
    const { code, stderr } = await lease("fail");
    expect({ code, stderr }).toEqual({
      code: 125,
      stderr: "lease: unexpected error: x is not\\na function (--verbose shows where)\n",
    });
    expect((await lease("fail text")).stderr).toStartWith("lease: unexpected error: just text");
  });

  test.each(["fail -v", "fail --verbose", "-v fail", "fail -fv"])("shows where it happened with: %s", async (line) => {
    const { code, stderr } = await lease(line);
    expect(code).toBe(125);
    expect(stderr).toStartWith("lease: unexpected error: x is not\\na function\n");
    expect(stderr).toContain("fixture.ts");
  });

  test("that was planned shows where it happened with --verbose, too, and what caused it", async () => {
    const { code, stderr } = await lease("fail lost -v");
    expect(code).toBe(4);
    expect(stderr).toStartWith("lease: the lease\\nis \\x1b[31mlost\n    at ");
    const caused = new LeaseError("store_failed", "it broke", { cause: new TypeError("deep\u001b[2J down") });
    const broken = { group: "g", description: "d", load: () => Promise.reject(caused) };
    const told = await answer((raw, _, io) => dispatch(raw, { broken }, io), ["broken", "-v"]);
    expect(told.code).toBe(125);
    expect(told.stderr).toMatch(
      /^lease: it broke\n(?: +at .*\n)+caused by TypeError: deep\\x1b\[2J down\n(?: +at .*\n)+$/,
    );
  });

  test("shows it with LEASE_VERBOSE, and not for flags that only have a v in them", async () => {
    expect((await lease("fail", { env: { LEASE_VERBOSE: "1" } })).stderr).toContain("fixture.ts");
    expect((await lease("fail", { env: { LEASE_VERBOSE: "0" } })).stderr).not.toContain("fixture.ts");
    expect((await lease("enqueue -qvip --bogus")).stderr).toBe(
      "lease: unknown flag --bogus; see lease enqueue --help\n",
    );
    expect((await lease("enqueue --bogus -- -v")).stderr).not.toContain("\n ");
  });

  test("while a command is loaded is reported like any other", async () => {
    const broken = { group: "g", description: "d", load: () => Promise.reject(new Error("no such module")) };
    const { code, stderr } = await answer((raw, _, io) => dispatch(raw, { broken }, io), ["broken"]);
    expect(code).toBe(125);
    expect(stderr).toContain("no such module");
  });
});

test("a short name is the words that it stands for", async () => {
  expect((await lease("add -q mail -- ls")).loaded).toEqual(["enqueue"]);
  expect((await lease("help add")).stdout).toBe((await lease("enqueue --help")).stdout);
});

describe("an unknown command", () => {
  test.each([
    ["enqeue ls", 'lease: unknown command "enqeue"; did you mean lease enqueue?\n'],
    ["mail ls", 'lease: unknown command "mail"; did you mean lease enqueue -q mail?\n'],
    ["hepl", 'lease: unknown command "hepl"; did you mean lease help?\n'],
    ["frobnicate", 'lease: unknown command "frobnicate"; lease help lists them\n'],
    ["toString", 'lease: unknown command "toString"; lease help lists them\n'],
    ["__proto__", 'lease: unknown command "__proto__"; lease help lists them\n'],
    ["help enqeue", 'lease: unknown command "enqeue"; did you mean lease enqueue?\n'],
    ["--verison", "lease: unknown flag --verison; did you mean --version?\n"],
  ])("is refused with the nearest match: %s", async (line, message) => {
    const { code, stdout, stderr, loaded } = await lease(line);
    expect({ code, stdout, stderr, loaded }).toEqual({ code: 2, stdout: "", stderr: message, loaded: [] });
  });
});

describe("help", () => {
  test.each(["--help", "-h", "help", "help help", "--color never --help"])(
    "is the first page for: %s",
    async (line) => {
      const { code, stdout, stderr, loaded } = await lease(line);
      expect({ code, stderr, loaded }).toEqual({ code: 0, stderr: "", loaded: [] });
      expect(stdout).toContain("Exit codes");
    },
  );

  test.each([
    "enqueue --help",
    "enqueue -h",
    "help enqueue",
    "--help enqueue",
    "enqueue -q mail -h",
    "enqueue --bogus --help",
    "enqueue -q -h",
    "enqueue --pty -h -- ls",
  ])("is about the command for: %s", async (line) => {
    const { code, stdout, stderr } = await lease(line);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toStartWith("Queue a command and print the job's id.\n");
  });

  test("behind -- belongs to the job", async () => {
    expect(JSON.parse((await lease("enqueue -- ls --help")).stdout)).toMatchObject({ rest: ["ls", "--help"] });
    expect((await lease("enqueue --bogus -- ls --help")).code).toBe(2);
  });

  test("is short when there is no command at all, and that is an error", async () => {
    const { code, stdout, stderr } = await lease("");
    expect({ code, stderr }).toEqual({ code: 2, stderr: "" });
    expect(stdout).toContain("enqueue");
    expect(stdout).not.toContain("Exit codes");
  });

  test("takes one command at most", async () => {
    expect(await lease("help enqueue fail")).toMatchObject({ code: 2, stdout: "" });
  });

  test("is coloured on a terminal and when asked to be, and never otherwise", async () => {
    const escape = "\u001b[";
    expect((await lease("help")).stdout).not.toContain(escape);
    expect((await lease("help", { is_tty: true })).stdout).toContain(escape);
    expect((await lease("help", { is_tty: true, env: { NO_COLOR: "1" } })).stdout).not.toContain(escape);
    expect((await lease("--color always help")).stdout).toContain(escape);
    expect((await lease("help --color always")).stdout).toContain(escape);
    expect((await lease("enqueue -h --color=always")).stdout).toContain(escape);
  });
});

test.each(["--version", "-V", "version"])("the version is shown for: %s", async (line) => {
  expect(await lease(line)).toMatchObject({ code: 0, stdout: "lease 1.2.3\n", stderr: "" });
});
