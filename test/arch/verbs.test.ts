import { describe, expect, test } from "bun:test";
import { sources } from "./source.ts";
import { ONLY_IN_ONE, strangers, unevenVerbs } from "./verbs.ts";

const empty = (path: string) => ({ path, source: "" });
/** A store in which everything that only one engine has is there. */
const exceptions = Object.keys(ONLY_IN_ONE).map((name) => empty(name.endsWith("/") ? `${name}link.ts` : name));
const both = (verb: string, sqlite: string, postgres = sqlite) => [
  { path: `src/store/sqlite/${verb}.ts`, source: sqlite },
  { path: `src/store/postgres/${verb}.ts`, source: postgres },
];

describe("the engines have the same verbs", () => {
  test("each file of one has its twin in the other, or a reason why not", async () => {
    expect(unevenVerbs(await sources())).toEqual([]);
  });

  test("the check accepts twins, and what is listed", () => {
    expect(unevenVerbs([...exceptions, ...both("acquire", ""), ...both("settle", "")])).toEqual([]);
  });

  test.each(["src/store/sqlite/limits.ts", "src/store/postgres/limits.ts"])("the check refuses %s alone", (path) => {
    expect(unevenVerbs([...exceptions, empty(path)])).toEqual([
      expect.stringMatching(new RegExp(`^${path} has no twin: write src/store/\\w+/limits.ts`)),
    ]);
  });

  test("the check names an exception that is none any more", () => {
    const [gone = empty(""), ...rest] = exceptions;
    expect(unevenVerbs(rest)).toEqual([`${gone.path} is listed in test/arch/verbs.ts and is not there`]);
  });
});

describe("a verb is under its name in both", () => {
  test("files of both engines export the same verbs", async () => {
    expect(strangers(await sources())).toEqual([]);
  });

  test("the check refuses twins that have nothing in common but their name", () => {
    const pair = both("retry", "export function retry() {}", "export async function cancel() {}");
    expect(strangers(pair)).toEqual(["src/store/sqlite/retry.ts and its twin export nothing of the same name"]);
    expect(strangers(both("retry", "export function retry() {}", "export async function retry() {}"))).toEqual([]);
  });
});
