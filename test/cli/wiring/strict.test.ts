import { quickWords } from "../../../src/cli/quick_words.ts";
import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { LeaseError } from "../../../src/core/errors.ts";
import { parseLine, strictLine, type Grammar } from "../../../src/cli/strict.ts";
import { TEXT } from "../../../src/core/values.ts";
import type { RestMode } from "../../../src/cli/command.ts";
import type { FlagsDef } from "../../../src/cli/flags.ts";

const flags: FlagsDef = {
  queue: { type: "string", alias: "q", value: TEXT },
  task: { type: "string", alias: "t", value: TEXT },
  priority: { type: "string", alias: "p", value: TEXT },
  slots: { type: "string", alias: "j", value: TEXT },
  scale_up_at: { type: "string", default: "5", value: TEXT },
  follow: { type: "boolean", alias: "f" },
  verbose: { type: "boolean", alias: "v" },
  help: { type: "boolean", alias: "h" },
  sweep: { type: "boolean", default: true, negativeDescription: "don't sweep" },
  status: { type: "enum", options: ["pending", "running", "failed"] },
  beat: { type: "enum", options: ["output", "timer"] },
};

function grammar(rest: RestMode, repeat: string[] = []): Grammar {
  return { meta: { name: "lease test" }, flags, repeat, rest };
}

const values = (...raw: string[]) => parseLine(grammar("words"), raw).args;

function complaint(rest: RestMode, ...raw: string[]): string {
  try {
    parseLine(grammar(rest), raw);
  } catch (error) {
    if (error instanceof LeaseError && error.exit_code === 2) return error.message;
    throw error;
  }
  throw new Error(`accepted: ${raw.join(" ")}`);
}

describe("a value", () => {
  test.each(["--queue mail", "--queue=mail", "-q mail", "-qmail", "-q=mail"])("is taken from: %s", (line) => {
    expect(values(...line.split(" "))["queue"]).toBe("mail");
  });

  test("may be attached to a short flag, as in -j4", () => {
    expect(values("-j4")["slots"]).toBe("4");
  });

  test("may be a negative number", () => {
    expect(values("-p", "-5")["priority"]).toBe("-5");
    expect(values("--priority", "-0.5")["priority"]).toBe("-0.5");
    expect(values("-p-5")["priority"]).toBe("-5");
  });

  test("may be a single dash, which means standard input", () => {
    expect(values("--queue", "-")["queue"]).toBe("-");
  });

  test("may begin with a dash, contain = or be empty when it is written with =", () => {
    expect(values("--queue=--task")["queue"]).toBe("--task");
    expect(values("--queue=a=b")["queue"]).toBe("a=b");
    expect(values("--queue=")["queue"]).toBe("");
  });

  test("of a flag with several words is found under its name with underscores", () => {
    expect(values("--scale-up-at", "9")["scale_up_at"]).toBe("9");
  });

  test("is the default when the flag is missing, and the default is not counted as given", () => {
    const line = parseLine(grammar("words"), ["-f"]);
    expect(line.args).toMatchObject({ scale_up_at: "5", follow: true, verbose: false, sweep: true });
    expect(line.args["queue"]).toBeUndefined();
    expect([...line.given.keys()]).toEqual(["follow"]);
  });
});

describe("booleans", () => {
  test("can be grouped, and a group can end in a flag with a value", () => {
    expect(values("-fv")).toMatchObject({ follow: true, verbose: true });
    expect(values("-fvqmail")).toMatchObject({ follow: true, verbose: true, queue: "mail" });
    expect(values("-fq", "mail")).toMatchObject({ follow: true, queue: "mail" });
  });

  test("have a negative form only where they declare one", () => {
    expect(values("--no-sweep")["sweep"]).toBe(false);
    expect(complaint("words", "--no-follow")).toStartWith("unknown flag --no-follow");
  });
});

describe("words", () => {
  test("begin the command line where one is expected, and its own flags stay with it", () => {
    expect(parseLine(grammar("command"), ["-q", "mail", "ls", "-l", "--queue", "x"])).toMatchObject({
      args: { queue: "mail" },
      rest: ["ls", "-l", "--queue", "x"],
    });
  });

  test("behind -- are left alone", () => {
    const line = parseLine(grammar("command"), ["-j", "4", "--", "./h", "-x", "--"]);
    expect(line.rest).toEqual(["./h", "-x", "--"]);
  });

  test("and flags come in any order where words are expected", () => {
    const line = parseLine(grammar("words"), ["7", "-f", "9-12", "--queue", "mail", "--", "-x"]);
    expect(line).toMatchObject({ rest: ["7", "9-12", "-x"], args: { follow: true, queue: "mail" } });
  });

  test("are refused where none are expected", () => {
    expect(complaint("none", "now")).toBe('lease test takes no words, and got "now"');
    expect(complaint("none", "--", "now")).toBe('lease test takes no words, and got "now"');
    expect(parseLine(grammar("none"), ["-f", "--"]).rest).toEqual([]);
  });
});

describe("repeatable flags", () => {
  test("keep their values in the order given", () => {
    const line = parseLine(grammar("words", ["queue"]), ["-q", "mail", "--queue=gpu", "-qmail"]);
    expect(line.lists).toEqual({ queue: ["mail", "gpu", "mail"] });
    expect(line.args).not.toHaveProperty("queue");
  });

  test("are an empty list when they are not given", () => {
    expect(parseLine(grammar("words", ["queue"]), []).lists).toEqual({ queue: [] });
  });

  test("take lists when they are a choice", () => {
    const line = parseLine(grammar("words", ["status"]), ["--status", "failed,running", "--status=pending"]);
    expect(line.lists["status"]).toEqual(["failed", "running", "pending"]);
    expect(() => parseLine(grammar("words", ["status"]), ["--status", "failed,runing"])).toThrow(
      "did you mean running?",
    );
  });
});

describe("one line says what is wrong with", () => {
  test.each([
    ["an unknown flag close to a known one", ["--quue", "x"], "unknown flag --quue; did you mean --queue?"],
    ["an unknown flag with a value attached", ["--quue=x"], "unknown flag --quue; did you mean --queue?"],
    ["the beginning of a flag", ["--prio", "5"], "unknown flag --prio; did you mean --priority?"],
    ["an unknown flag that is like no other", ["--zzzz"], "unknown flag --zzzz; see lease test --help"],
    ["a name from JavaScript", ["--constructor"], "unknown flag --constructor; see lease test --help"],
    ["an unknown letter", ["-x"], "unknown flag -x; see lease test --help"],
    ["an unknown letter in a group", ["-fx"], "unknown flag -x; see lease test --help"],
    ["a long flag with one dash", ["-queue", "mail"], "unknown flag -queue; did you mean --queue?"],
    ["a number where no value is expected", ["-5"], "unknown flag -5; see lease test --help"],
    ["a flag at the end without its value", ["--queue"], "--queue needs a value"],
    ["a flag before -- without its value", ["-q", "--", "ls"], "-q needs a value"],
    [
      "a flag that would swallow the next one",
      ["--queue", "--task", "x"],
      "--queue needs a value, and --task looks like a flag; if it is the value, write --queue=--task",
    ],
    [
      "a short flag that would swallow the next one",
      ["-q", "-f"],
      "-q needs a value, and -f looks like a flag; if it is the value, write -q=-f",
    ],
    ["a value for a boolean", ["--follow=yes"], '--follow takes no value, and got "yes"'],
    ["a value for a short boolean", ["-f=yes"], '-f takes no value, and got "yes"'],
    ["a value for a negative form", ["--no-sweep=1"], '--no-sweep takes no value, and got "1"'],
    ["a choice misspelt", ["--beat", "tmer"], '--beat can\'t be "tmer"; did you mean timer?'],
    ["a choice that does not exist", ["--beat", "x"], '--beat can\'t be "x"; use output, timer'],
    [
      "a list where one choice is expected",
      ["--beat", "output,timer"],
      '--beat can\'t be "output,timer"; use output, timer',
    ],
    ["a flag given twice", ["-q", "a", "--queue", "b"], "--queue is given twice; it can be given once"],
    ["a boolean given twice", ["-ff"], "-f is given twice; it can be given once"],
    ["both forms of a boolean", ["--sweep", "--no-sweep"], "--no-sweep is given twice; it can be given once"],
  ])("%s", (_, raw, message) => {
    expect(complaint("words", ...raw)).toBe(message);
  });
});

describe("for any words", () => {
  const word = fc.oneof(
    fc.string(),
    fc.constantFrom("--", "-", "-q", "--queue", "--queue=x", "-h", "--help", "--no-sweep"),
  );
  const words = fc.array(word);
  const mode = fc.constantFrom<RestMode>("command", "words");

  test("what follows -- survives verbatim", () => {
    fc.assert(
      fc.property(mode, words, (rest, argv) => {
        const line = parseLine(grammar(rest), ["-fq", "mail", "--", ...argv]);
        expect(line.rest).toEqual(argv);
        expect(line.args).toMatchObject({ queue: "mail", follow: true });
      }),
    );
  });

  test("what follows the first word of a command survives verbatim, without any --", () => {
    fc.assert(
      fc.property(words, (argv) => {
        expect(parseLine(grammar("command"), ["--queue", "mail", "cmd", ...argv]).rest).toEqual(["cmd", ...argv]);
      }),
    );
  });

  test("a value behind = survives verbatim", () => {
    fc.assert(
      fc.property(fc.string(), (value) => {
        expect(values(`--queue=${value}`)["queue"]).toBe(value);
      }),
    );
  });

  test("a line that is plain is read alike with and without node:util", () => {
    const odd = ["-fv", "-j4", "-q=x", "-queue", "--status", "failed,running", "-p", "-5", "--no-follow", "-f=1"];
    const line = fc.array(fc.oneof(word, fc.constantFrom(...odd)));
    fc.assert(
      fc.property(fc.constantFrom<RestMode>("command", "words", "none"), line, (rest, raw) => {
        const lists = grammar(rest, ["status", "task"]);
        const plain = quickWords({ ...lists, names: Object.keys(flags) }, raw);
        if (plain !== null) expect(plain).toEqual(strictLine(lists, raw));
      }),
      { numRuns: 3_000 },
    );
  });

  test("a line is either understood or refused as usage, never anything else", () => {
    fc.assert(
      fc.property(fc.constantFrom<RestMode>("command", "words", "none"), words, (rest, raw) => {
        try {
          parseLine(grammar(rest), raw);
        } catch (error) {
          expect(error).toBeInstanceOf(LeaseError);
          expect((error as LeaseError).exit_code).toBe(2);
        }
      }),
    );
  });
});
