/** What the README says of its league in a few words is what the table below it says in numbers. */

import { expect, test } from "bun:test";
import { read } from "./source.ts";

interface Row {
  contest: string;
  against: string;
  ratio: number;
}

function rowsOf(readme: string): Row[] {
  const [, table = ""] = /<!-- league:begin -->([^]*)<!-- league:end -->/.exec(readme) ?? [];
  const cells = table.split("\n").map((line) => line.split("|").map((cell) => cell.trim()));
  return cells.flatMap(([, contest = "", , , against = "", , , ratio = ""]) =>
    ratio.endsWith("×") ? [{ contest, against, ratio: Number(ratio.slice(0, -1)) }] : [],
  );
}

/** A contest and a peer by how they begin, and between what the ratio has to be. */
const SAID: readonly (readonly [words: string, contest: string, against: RegExp, least: number, most: number])[] = [
  ["end sooner than with GNU parallel, tsp and nq", "shell jobs", /^(?:GNU parallel|tsp|nq)/, 1.2, 20],
  ["two thirds of the rate of xargs", "shell jobs", /^xargs/, 0.58, 0.75],
  ["takes five times as long as nq's", "enqueue, one program each", /^nq/, 0.17, 0.25],
  ["ten times as fast as plainjob and bunqueue", "library, drain", /^(?:plainjob|bunqueue)/, 8, 14],
  ["faster than graphile-worker and pg-boss", "PostgreSQL, drain", /^(?:graphile|pg-boss)/, 1.02, 9],
  ["enqueues in bulk and one by one", "PostgreSQL, bulk enqueue", /^(?:graphile|pg-boss)/, 1.02, 9],
  ["enqueues in bulk and one by one", "PostgreSQL, single enqueue", /^(?:graphile|pg-boss)/, 1.02, 9],
  ["5,000 jobs, are theirs", "PostgreSQL, drain of 5000", /^(?:graphile|pg-boss)/, 0.3, 0.98],
];

/** The contest with that name, or those that go on with a comma, as "shell jobs, 2 slots" does. */
const isOf = (said: string, contest: string) =>
  contest === said ||
  (said !== "PostgreSQL, drain" && contest.startsWith(`${said},`)) ||
  contest.startsWith(`${said} with`);

function untrue(readme: string): string[] {
  const rows = rowsOf(readme);
  const text = readme.replaceAll(/\s+/g, " ");
  return SAID.flatMap(([words, said, against, least, most]) => {
    if (!text.includes(words)) return [`the README does not say any more: ${words}`];
    const found = rows.filter((row) => isOf(said, row.contest) && against.test(row.against));
    if (found.length === 0) return [`the league has nothing about: ${words}`];
    const wrong = found.filter(({ ratio }) => ratio < least || ratio > most);
    return wrong.map((row) => `${words}: ${row.contest}, ${row.against}: ${row.ratio}`);
  });
}

const readme = async () => (await read("README.md"))[0]?.source ?? "";

test("the README says of the league what it says", async () => {
  expect(untrue(await readme())).toEqual([]);
});

test("the check notices a figure that is another", async () => {
  const slower = (await readme()).replace(/(\| GNU parallel -j2 \|.*\| )[\d.]+×( \|)/, "$10.90×$2");
  expect(untrue(slower)).toHaveLength(1);
  expect(untrue("nothing")).toHaveLength(SAID.length);
});
