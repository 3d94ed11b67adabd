/** Who shares a statement with whom, and who does not wait for one that is under way. */

import { expect, test } from "bun:test";
import { GroupCommit } from "../../src/store/postgres/group_commit.ts";

/** What was sent so far; each is answered when the test says so. */
function recorded(at_once: number) {
  const sent: { rows: readonly number[]; answer: () => void }[] = [];
  const send = (rows: readonly number[]) =>
    new Promise<number[]>((resolve) => sent.push({ rows, answer: () => resolve([...rows]) }));
  return { sent, commits: new GroupCommit<number, number>(send, { at_once }) };
}

const rows = (count: number) => Array.from({ length: count }, (_, index) => index);
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

test("few that are asked while a statement is under way go together by the next", async () => {
  const { sent, commits } = recorded(2);
  const asked = [commits.ask([1])];
  await turn();
  asked.push(commits.ask([2]), commits.ask([3]));
  await turn();
  expect(sent.map((one) => one.rows)).toEqual([[1]]);
  sent[0]?.answer();
  await turn();
  expect(sent.map((one) => one.rows)).toEqual([[1], [2, 3]]);
  sent[1]?.answer();
  expect(await Promise.all(asked)).toEqual([[1], [2], [3]]);
});

test("many don't wait for the statement that is under way, and no more than two are", async () => {
  const { sent, commits } = recorded(2);
  const asked = [commits.ask([1])];
  await turn();
  asked.push(commits.ask(rows(500)));
  await turn();
  asked.push(commits.ask(rows(600)));
  await turn();
  expect(sent.map((one) => one.rows.length)).toEqual([1, 500]);
  sent[1]?.answer();
  await turn();
  expect(sent.map((one) => one.rows.length)).toEqual([1, 500, 600]);
  for (const { answer } of sent) answer();
  await Promise.all(asked);
});

test("many wait where only one statement may be under way", async () => {
  const { sent, commits } = recorded(1);
  const asked = [commits.ask([1]), commits.ask([2])];
  await turn();
  asked.push(commits.ask(rows(500)));
  await turn();
  expect(sent.map((one) => one.rows.length)).toEqual([2]);
  sent[0]?.answer();
  await turn();
  sent[1]?.answer();
  await Promise.all(asked);
});

test("what few are left when one of two ends goes by the other", async () => {
  const { sent, commits } = recorded(2);
  const asked = [commits.ask([1])];
  await turn();
  asked.push(commits.ask(rows(500)));
  await turn();
  asked.push(commits.ask([7]));
  sent[1]?.answer();
  await turn();
  expect(sent).toHaveLength(2);
  sent[0]?.answer();
  await turn();
  expect(sent[2]?.rows).toEqual([7]);
  sent[2]?.answer();
  await Promise.all(asked);
  await commits.settled();
});
