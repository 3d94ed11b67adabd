/** What `lease enqueue` does not take: one line that says what to do, exit code 2, and not a byte written. */

import { beforeAll, describe, expect, test } from "bun:test";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expectRefusal, LEASE, run, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();
const LIMIT = 1024 * 1024;

let place: Place;

beforeAll(async () => {
  place = newPlace();
  await place.enqueue("--key", "taken", "--", "true");
  writeFileSync(join(place.folder, "nul"), "ab\0c");
  writeFileSync(join(place.folder, "large"), "x".repeat(LIMIT + 1));
});

async function expectRefused(message: string | RegExp, args: readonly string[], code = 2): Promise<void> {
  const before = place.content();
  expectRefusal(await place.lease("enqueue", ...args), code, message);
  expect(place.content()).toEqual(before);
}

type Case = readonly [what: string, message: string | RegExp, ...args: string[]];

const T = ["--", "true"];

describe("an enqueue without a proper command is refused:", () => {
  const cases: Case[] = [
    ["nothing at all", "there is no command"],
    ["nothing behind --", "there is no command", "--"],
    ["an empty command", "the command is empty", "--", ""],
    ["an empty command with arguments", "the command is empty", "--", "", "x"],
    ["an empty shell line", "-c is empty", "-c", ""],
    ["a blank shell line", "-c is empty", "-c", "  \n"],
    ["a shell line that was not quoted", /-c takes the whole line.*"hi"/, "-c", "echo", "hi"],
  ];
  test.each(cases)("%s", async (_what, message, ...args) => expectRefused(message, args));
});

describe("an enqueue with an input that can't be had is refused:", () => {
  const cases: Case[] = [
    ["a file that does not exist", /--input @missing .*no such file/, "--input", "@missing", ...T],
    ["a folder", /--input @\. .*it is a folder/, "--input", "@.", ...T],
    ["a file without a name", "--input @ ", "--input", "@", ...T],
    ["a file without an end", "1 MiB", "--input", "@/dev/zero", ...T],
    ["a file with NUL", /byte 2 of this one is NUL/, "--input", "@nul", ...T],
    ["a file over 1 MiB", /1048577 bytes.*1 MiB/, "--input", "@large", ...T],
  ];
  test.each(cases)("%s", async (_what, message, ...args) => expectRefused(message, args));

  test("more than 1 MiB on stdin, without reading on for ever", async () => {
    const before = place.content();
    const piped = await place.leaseWith({ stdin: "x".repeat(LIMIT + 1) }, "enqueue", "--input", "-", "--", "cat");
    expectRefusal(piped, 2, "1 MiB");
    const endless = await run(["sh", "-c", 'cat /dev/zero | "$0" enqueue --input - -- cat', LEASE], {
      env: place.env,
      cwd: place.folder,
    });
    expectRefusal(endless, 2, "1 MiB");
    expect(place.content()).toEqual(before);
  });
});

describe("an enqueue with a time that makes no sense is refused:", () => {
  const cases: Case[] = [
    ["a negative delay", /--delay "-5s" can't be negative/, "--delay", "-5s", ...T],
    ["a delay without a unit", /--delay "5".*did you mean 5s/, "--delay", "5", ...T],
    ["a delay in words", /--delay "soon" is not a duration/, "--delay", "soon", ...T],
    ["an empty delay", /--delay "" is not a duration/, "--delay=", ...T],
    ["a delay of centuries", /--delay 99999d is too long: at most 3650d/, "--delay", "99999d", ...T],
    ["a delay of more digits than a number has", /--delay 9+d is too long/, "--delay", `${"9".repeat(400)}d`, ...T],
    ["a timeout of nothing", "timeout must be longer than 0", "--timeout", "0", ...T],
    ["a negative timeout", /--timeout "-1s" can't be negative/, "--timeout", "-1s", ...T],
    ["a lease below a second", /lease must be at least 1s, and is 500ms/, "--lease", "500ms", ...T],
    ["a negative lease", /--lease "-1m" can't be negative/, "--lease", "-1m", ...T],
    ["a backoff in words", /--backoff "slowly" is not a backoff: write 5s, 1s..10m/, "--backoff", "slowly", ...T],
    ["a negative backoff", /--backoff "-1s" can't be negative/, "--backoff", "-1s", ...T],
    ["a backoff that ends below its beginning", /10m is more than 1s/, "--backoff", "10m..1s", ...T],
    ["a backoff with two ends", "--backoff", "--backoff", "1s..2s..3s", ...T],
  ];
  test.each(cases)("%s", async (_what, message, ...args) => expectRefused(message, args));
});

describe("an enqueue with a number that is none is refused:", () => {
  const cases: Case[] = [
    ["negative retries", /--retries "-1" is not a whole number from 0/, "--retries", "-1", ...T],
    ["half a retry", /--retries "1.5"/, "--retries", "1.5", ...T],
    ["retries in scientific notation", /--retries "1e3"/, "--retries", "1e3", ...T],
    ["too many retries", /--retries "1000001"/, "--retries", "1000001", ...T],
    ["a priority in words", /--priority "high" is not a whole number/, "--priority", "high", ...T],
    [
      "a priority beyond integers",
      /-p "9+" is out of range: -9007199254740991 to 9007199254740991/,
      "-p",
      "99999999999999999999",
      ...T,
    ],
    ["an exit code that no process has", /--fatal-exit "256"/, "--fatal-exit", "256", ...T],
    ["a range of exit codes backwards", /--fatal-exit "5-2"/, "--fatal-exit", "5-2", ...T],
    ["no exit codes", /--fatal-exit ""/, "--fatal-exit=", ...T],
    ["a size with an unknown unit", /--log-limit "5q"/, "--log-limit", "5q", ...T],
    ["a size above a gigabyte", /--output-limit "2g"/, "--output-limit", "2g", ...T],
    ["a negative size", /--log-limit "-1"/, "--log-limit", "-1", ...T],
  ];
  test.each(cases)("%s", async (_what, message, ...args) => expectRefused(message, args));
});

describe("an enqueue with a name that is none is refused:", () => {
  const cases: Case[] = [
    ["an empty queue", /queue "" is not a name/, "-q", "", ...T],
    ["a queue of two lines", String.raw`queue "a\nb"`, "-q", "a\nb", ...T],
    ["a queue of 256 letters", "255 characters", "-q", "q".repeat(256), ...T],
    ["a queue that a worker would take for two", /queue "a,b" is not one that a worker can name/, "-q", "a,b", ...T],
    ["a queue that a worker would take for all", /queue "\*" is not one/, "-q", "*", ...T],
    ["an empty task", /task "" is not a name/, "--task=", ...T],
    ["an empty key", /key "" is not a name/, "--key=", ...T],
    ["a variable that begins with a digit", /--env "1B" is not a variable's name/, "--env", "1B=2", ...T],
    ["what to do about a key without one", "--if-exists says what to do", "--if-exists", "skip", ...T],
    ["a variable that is not set", /--env NOT_SET_HERE is not set here/, "--env", "NOT_SET_HERE", ...T],
    ["a variable that only JavaScript has", /--env toString is not set here/, "--env", "toString", ...T],
    ["a store without a name", "--store is empty", "--store=", ...T],
  ];
  test.each(cases)("%s", async (_what, message, ...args) => expectRefused(message, args));
});

describe("an enqueue that waits for what is not there is refused:", () => {
  const cases: Case[] = [
    ["an unknown job", "there is no job 99 to wait for", "--after", "99", ...T],
    ["an unknown job in any end", "there is no job 99 to wait for", "--after-any", "99", ...T],
    ["a known job and an unknown one", "there is no job 98", "--after", "1,98", ...T],
    ["a word", /--after "x" is not a job id/, "--after", "x", ...T],
    ["number 0", /--after "0" is not a job id/, "--after", "0", ...T],
    ["a range backwards", /--after "9-7" is not a job id/, "--after", "9-7", ...T],
    // `--after "$id"` with an id that was never set must not run at once.
    ["nothing", "--after", "--after=", ...T],
  ];
  test.each(cases)("%s", async (_what, message, ...args) => expectRefused(message, args));
});

test("an enqueue that waits for itself, which would be a cycle, is refused", async () => {
  const own = newPlace();
  await own.enqueue("--", "true");
  const before = own.content();
  expectRefusal(await own.lease("enqueue", "--after", "2", "--", "true"), 2, "there is no job 2 to wait for");
  expect(own.content()).toEqual(before);
});

describe("an enqueue with a choice that does not exist is refused, and hears the nearest one:", () => {
  const cases: Case[] = [
    ["--if-exists", /"fial"; did you mean fail\?/, "--key", "k", "--if-exists", "fial", ...T],
    ["--beat", /"tmier"; did you mean timer\?/, "--beat", "tmier", ...T],
    ["--retry-on", /"never"; use any, lost/, "--retry-on", "never", ...T],
    ["--color", /"alway"; did you mean always\?/, "--color", "alway", ...T],
  ];
  test.each(cases)("%s", async (_what, message, ...args) => expectRefused(message, args));
});

describe("an enqueue whose words are not UTF-8", () => {
  const script = String.raw`exec "$0" enqueue -- printf %s "$(printf '\377')"`;

  test("is refused, or runs exactly these bytes", async () => {
    const own = newPlace();
    const answer = await run(["sh", "-c", script, LEASE], { cwd: own.folder, env: own.env });
    if (answer.code !== 0) return expectRefusal(answer, 2, "UTF-8");
    await own.work();
    const { stdout } = await run(["sh", "-c", '"$0" logs 1 | od -An -tx1', LEASE], { env: own.env });
    expect(stdout.trim()).toBe("ff 0a");
  });
});

describe("a refused enqueue", () => {
  test.each([
    ["of an empty command", ["--", ""]],
    ["of a lease that is too short", ["--lease", "1ms", "--", "true"]],
    ["of a queue without a name", ["-q", "", "--", "true"]],
    ["of an unknown flag", ["--nope", "--", "true"]],
  ] as const)("%s makes no store where there was none", async (_what, args) => {
    const fresh = newPlace();
    const answer = await fresh.leaseWith(
      { env: { LEASE_STORE: join(fresh.folder, "new/lease.db") } },
      "enqueue",
      ...args,
    );
    expectRefusal(answer, 2, "");
    expect(existsSync(join(fresh.folder, "new"))).toBe(false);
  });

  test("of a store that this lease has no engine for is its own fault, 125", async () => {
    await expectRefused("postgres://", ["--store", "postgres://host/db", "--", "true"], 125);
  });
});

describe("an enqueue of which a flag is not UTF-8", () => {
  test.each(["--queue", "--task", "--key", "--input", "--cwd", "--env A="])("is refused: %s", async (flag) => {
    const own = newPlace();
    const script = String.raw`exec "$LEASE" enqueue ${flag}${flag.endsWith("=") ? "" : " "}"$(printf '\377')" -- true`;
    expectRefusal(await run(["sh", "-c", script], { cwd: own.folder, env: own.env }), 2, "UTF-8");
    expect(existsSync(own.store)).toBe(false);
  });

  test("is refused for a variable that it takes along too, and a real U+FFFD is fine", async () => {
    const own = newPlace();
    const script = String.raw`A="$(printf '\377')" exec "$LEASE" enqueue --env A -- true`;
    expectRefusal(await run(["sh", "-c", script], { cwd: own.folder, env: own.env }), 2, "UTF-8");
    await own.enqueue("--key", "\uFFFD", "--env", "A=\uFFFD", "--", "true");
  });
});
