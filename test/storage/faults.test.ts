/**
 * Every write, sync, truncation and removal of a store's files fails once, or is the last: of enqueue, settle, bulk, prune,
 * copy and migration. What was acknowledged is there afterwards, and the command said what happened. A part of the places
 * is tried in each run, others in the next; `STORAGE_FAULTS=all` tries all of them.
 */

import { Database } from "bun:sqlite";
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { writeProof } from "../../scripts/proof/report.ts";
import { hasStrace, Stage, type Operation, type Outcome, type Point } from "./inject.ts";
import { IN_STORE, OPERATIONS } from "./operations.ts";
import { endProblems, storeOf, storeProblems } from "./survey.ts";

setDefaultTimeout(30 * 60_000);
if (!hasStrace) console.warn("SKIPPED: disks that fail, for which strace is needed (apt-get install strace)");

const all = process.env["STORAGE_FAULTS"] === "all";
/** Of each operation in a run of the tests. */
const SOME = 24;
/** Sizes at which a file may not grow any more, for writes that end short. */
const SHORT_BYTES = [1_024, 4_000, 4_096, 6_000, 50_000, 98_304, 131_073, 170_000, 210_000, 400_000];

const tried = { faults: 0, lost: 0, stacks: 0 };

/** Evenly spread, and elsewhere each day. */
function some<T>(points: readonly T[]): T[] {
  if (all || points.length <= SOME) return [...points];
  const shift = Math.floor(Date.now() / 86_400_000) % Math.ceil(points.length / SOME);
  return Array.from({ length: SOME }, (_, index) => points[Math.floor((index * points.length) / SOME) + shift]).filter(
    (point) => point !== undefined,
  );
}

async function problemsOf({ name }: Operation, outcome: Outcome): Promise<string[]> {
  const made = name.startsWith("the first");
  const migrated = name === "a migration";
  const before = made ? 0 : migrated ? 8 : IN_STORE;
  const problems = [
    ...endProblems(outcome),
    ...(await storeProblems(storeOf(outcome), { before, pruned: name === "a prune" }, outcome)),
  ];
  // A copy that was not finished is no store yet, but says so, and can be begun again.
  if (name === "a copy" && outcome.code === 0) {
    problems.push(...(await storeProblems(storeOf(outcome, "copy.db"), { before }, outcome)));
  }
  return problems;
}

describe.skipIf(!hasStrace).each(OPERATIONS.map((operation) => [operation.name, operation] as const))(
  "%s",
  (_, operation) => {
    const stage = hasStrace ? new Stage(operation) : null;
    afterAll(() => stage?.end());

    async function judge(told: string, outcome: Outcome): Promise<string[]> {
      tried.faults += 1;
      const problems = await problemsOf(operation, outcome);
      stage?.clear(outcome);
      return problems.map((problem) => `${told}: ${problem}`);
    }

    test("survives each fault of its disk, and being killed there", async () => {
      const points = some(stage?.points() ?? []);
      expect(points.length).toBeGreaterThan(3);
      const problems: string[] = [];
      for (const point of points) {
        problems.push(...(await judge(pointText(point), stage?.try(point) as Outcome)));
      }
      expect(problems).toEqual([]);
    });

    test("survives writes that end short", async () => {
      const problems: string[] = [];
      for (const bytes of SHORT_BYTES)
        problems.push(...(await judge(`files of ${bytes} bytes`, stage?.tryShort(bytes) as Outcome)));
      expect(problems).toEqual([]);
    });
  },
);

test("what is lost, or said badly, is found", async () => {
  const folder = mkdtempSync(join(tmpdir(), "lease-storage-"));
  OPERATIONS.find(({ name }) => name === "an enqueue")?.prepare(folder);
  const ended: Outcome = { code: 0, signal: null, stdout: `${IN_STORE + 1}\n`, stderr: "", folder };
  const database = new Database(storeOf(ended));
  database.run("DELETE FROM jobs WHERE id = 3");
  database.close();
  const problems = await storeProblems(storeOf(ended), { before: IN_STORE }, ended);
  const lost = problems.filter((problem) => problem.endsWith("was acknowledged and is gone"));
  expect(lost).toEqual(["job 3", `job ${IN_STORE + 1}`].map((job) => `${job} was acknowledged and is gone`));
  expect(endProblems({ ...ended, code: 125 })).toEqual(["125 without a line"]);
  expect(endProblems({ ...ended, code: 134 })).toEqual(["ended with 134: "]);
  expect(endProblems({ ...ended, stderr: "TypeError: x\n    at y.ts:1:1" })).toHaveLength(1);
  rmSync(folder, { recursive: true, force: true });
});

const pointText = ({ call, index, fault }: Point) => `${call} ${index} ${fault}`;

afterAll(() => {
  writeProof("storage", {
    order: 50,
    title: "A disk that fails at one write, sync or truncation, or is the last thing that a command sees",
    command: `${all ? "STORAGE_FAULTS=all " : ""}bun test test/storage/faults.test.ts`,
    counts: { "faults injected": tried.faults },
    violations: { lost: tried.lost, stacks: tried.stacks },
  });
});
