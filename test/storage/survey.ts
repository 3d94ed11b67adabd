/** What must hold of a store after its disk failed in the middle of something: nothing that was acknowledged is lost. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { breaches } from "../contract/subject.ts";
import type { Outcome } from "./inject.ts";

const STACK = /^\s+at |unexpected error|broken promise|\[object |undefined is not|Cannot read/m;
const CODES = new Set([0, 1, 125]);

/** Ids that were printed: `7`, `9-12`. */
function printed(stdout: string): number[] {
  return [...stdout.matchAll(/^(\d+)(?:-(\d+))?$/gm)].flatMap(([, from, to = from]) => {
    const first = Number(from);
    return Array.from({ length: Number(to) - first + 1 }, (_, index) => first + index);
  });
}

/** How it ended: with a line and a code of ours, or as it was killed. */
export function endProblems({ code, signal, stderr }: Outcome): string[] {
  if (STACK.test(stderr)) return [`a stack: ${stderr.slice(0, 500)}`];
  if (signal === "SIGABRT") return ["it did not end"];
  if (code === null || CODES.has(code)) return code === 125 && !/^lease: /m.test(stderr) ? ["125 without a line"] : [];
  // Killed, as a shell tells it; or by the limit of a file's size.
  return code === 137 || code === 153 ? [] : [`ended with ${code}: ${stderr.slice(-300)}`];
}

export interface Expected {
  /** Of the store, how many jobs had been acknowledged before. */
  before: number;
  /** Those may be gone that had ended. */
  pruned?: boolean;
}

/** What is wrong with what is there now, however it ended. */
export async function storeProblems(
  path: string,
  { before, pruned = false }: Expected,
  outcome: Outcome,
): Promise<string[]> {
  const ids = /^enqueue|^\d/m.test(outcome.stdout) ? printed(outcome.stdout) : [];
  if (!existsSync(path)) return before + ids.length === 0 ? [] : ["the store is gone"];
  const store = await openSqlite(path, { clock: systemClock, random: systemRandom, trust: true });
  try {
    const jobs = await store.list({ limit: 10_000, newest_first: false });
    const known = new Map(jobs.map((job) => [job.id, job]));
    const expected = [...Array.from({ length: before }, (_, index) => index + 1), ...ids];
    const lost = expected.filter((id) => !known.has(id) && !(pruned && id <= before));
    const unfit = (await store.diagnose()).filter(({ name }) => name === "integrity" || name === "counts");
    return [
      ...lost.map((id) => `job ${id} was acknowledged and is gone`),
      ...jobs.flatMap(({ id, damaged }) => (damaged === undefined ? [] : [`job ${id} is ${damaged}`])),
      ...unfit.filter(({ level }) => level !== "ok").map(({ name, value }) => `${name}: ${value}`),
      ...(await breaches(store)),
    ];
  } catch (error) {
    return [`it can't be read any more: ${(error as Error).message}`];
  } finally {
    await store.close();
  }
}

export const storeOf = ({ folder }: Outcome, name = "lease.db"): string => join(folder, name);
