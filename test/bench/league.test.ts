/** The league of benches: that all of it works, and that its arithmetic is right. Nothing here is about how fast anything is. */

import { describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compare, hold, type Contest, type Contestant, type Result } from "../../scripts/bench/league/contest.ts";
import { intoPage, markdownTable, misses, newest, regressions, textTable } from "../../scripts/bench/league/report.ts";

const ROOT = join(import.meta.dir, "../..");

function player(name: string, run: () => number): Contestant {
  return { name, durability: `kept by ${name}`, run: async () => run() };
}

function contest(ours: Contestant, others: Contestant[], more: Partial<Contest> = {}): Contest {
  return { name: "running", unit: "m/s", turns: 3, ours, others, ...more };
}

const RESULT: Result = {
  contest: "running",
  unit: "m/s",
  durability: "kept by us",
  ours: 12,
  against: "them",
  their_durability: "kept by them",
  theirs: 10,
  ratio: 1.2,
  low: 1.1,
  high: 1.3,
  turns: 3,
  at_least: 1,
};

describe("a contest", () => {
  test("gives everybody every place of a turn, one after the other", async () => {
    const order: string[] = [];
    const named = (name: string) => player(name, () => order.push(name));
    await hold(contest(named("a"), [named("b"), named("c")]), async () => {});
    expect(order.join("")).toBe("abcbcacab");
  });

  test("is decided by the median of the turns, each turn against its own neighbours", () => {
    const [us, them] = [player("us", () => 0), player("them", () => 0)];
    const found = compare(contest(us, [them]), [10, 100, 30], them, [10, 50, 60]);
    expect(found).toMatchObject({ ours: 30, theirs: 50, ratio: 1, low: 0.5, high: 2 });
  });

  test("of times has ratios above 1 where ours is shorter", () => {
    const [us, them] = [player("us", () => 0), player("them", () => 0)];
    expect(compare(contest(us, [them], { less_is_better: true }), [5], them, [10]).ratio).toBe(2);
  });
});

describe("the table", () => {
  test("has what each side keeps beside every figure", () => {
    for (const table of [textTable([RESULT]), markdownTable([RESULT])]) {
      for (const part of ["running", "12 m/s", "kept by us", "them", "kept by them", "1.20×", "1.10–1.30"]) {
        expect(table).toContain(part);
      }
    }
  });

  test("takes the place of the one before in a page, and leaves the rest of it alone", () => {
    const kept = { at: "2026-01-02T03:04:05Z", machine: "a machine", results: [RESULT] };
    const page = intoPage("# A\n<!-- league:begin -->\nold\n<!-- league:end -->\nz\n", kept);
    expect(page).toStartWith("# A\n<!-- league:begin -->\n");
    expect(page).toEndWith("<!-- league:end -->\nz\n");
    expect(page).not.toContain("old");
    expect(intoPage(page, kept)).toBe(page);
    expect(() => intoPage("# A", kept)).toThrow("league:begin");
  });
});

describe("what has become worse", () => {
  const kept = (ratio: number, machine = "m") => ({ at: "", commit: "", machine, results: [{ ...RESULT, ratio }] });

  test("is what is clearly below every run before on such a machine", () => {
    const history = [kept(1.2), kept(1.1), kept(1.3)];
    expect(regressions([{ ...RESULT, ratio: 0.9 }], "m", history)).toHaveLength(1);
    expect(regressions([{ ...RESULT, ratio: 1.05 }], "m", history)).toEqual([]);
    expect(regressions([{ ...RESULT, ratio: 0.5 }], "another", history)).toEqual([]);
    expect(regressions([{ ...RESULT, contest: "swimming", ratio: 0.5 }], "m", history)).toEqual([]);
  });

  test("is not mixed up with what is newest of each figure, which a page shows", () => {
    const [old, other] = [kept(1.2), { ...kept(3), results: [{ ...RESULT, against: "others", ratio: 3 }] }];
    expect(newest([old, other, kept(1.1), kept(9, "another")], "m").map(({ ratio }) => ratio)).toEqual([1.1, 3]);
  });

  test("or is below its target", () => {
    expect(misses([RESULT, { ...RESULT, ratio: 0.8 }, { ...RESULT, at_least: null, ratio: 0 }])).toHaveLength(1);
  });
});

test("a small run of the whole league has a figure for every side of every contest", async () => {
  const folder = mkdtempSync(join(tmpdir(), "lease-league-"));
  const history = join(folder, "history.jsonl");
  const argv = [join(ROOT, "scripts/bench/run.sh"), "--quick", "--json", "--history", history];
  const env = { ...process.env, TMPDIR: "/var/tmp" };
  const child = Bun.spawn(argv, { env, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  expect({ code: await child.exited, err }).toMatchObject({ code: 0 });
  const results = out
    .trim()
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Result);
  for (const result of results) {
    const { ours, theirs, ratio, durability, their_durability } = result;
    expect({ result, positive: [ours, theirs, ratio].every((figure) => figure > 0) }).toEqual({
      result,
      positive: true,
    });
    expect([durability, their_durability]).not.toContain("");
  }
  const against = results.map((result) => result.against).join("\n");
  for (const peer of ["xargs", "bare Bun.spawn", "plainjob", "bunqueue", "graphile-worker", "pg-boss", "empty Bun"]) {
    expect(against).toContain(peer);
  }
  const tools = { sem: "GNU parallel", tsp: "tsp", nq: "nq" };
  for (const [tool, peer] of Object.entries(tools)) if (Bun.which(tool) !== null) expect(against).toContain(peer);
  const kept = readFileSync(history, "utf8").trim().split("\n");
  expect(kept.map((line) => (JSON.parse(line) as { results: Result[] }).results.length)).toEqual([results.length]);
  rmSync(folder, { recursive: true, force: true });
}, 300_000);
