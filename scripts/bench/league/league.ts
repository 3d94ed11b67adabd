/**
 * The league: holds every contest, prints the table, keeps it, and tells what has become worse.
 *
 *   league.ts                    all of it: about half an hour on a quiet machine
 *   league.ts --only shell,store some groups of contests
 *   league.ts --quick            small and once, to see that all of it works: about a minute
 *   league.ts --turns 3          no more turns than that
 *   league.ts --json             a line of JSON per figure
 *   league.ts --history FILE     kept there instead of in scripts/bench/history.jsonl; none: not kept
 *   league.ts --readme           and written into README.md, with what earlier runs had of the rest (--only "": that alone)
 */

import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { quiet, root } from "../harness.ts";
import { hold, type Contest, type Result } from "./contest.ts";
import { intoPage, misses, newest, regressions, textTable, type Kept } from "./report.ts";

export interface Size {
  quick: boolean;
}

/** Loaded when they are held: a bench of shell jobs needs no PostgreSQL. */
const GROUPS: Readonly<Record<string, (size: Size) => Promise<Group>>> = {
  shell: async (size) => ({ contests: (await import("./shell.ts")).shellContests(size) }),
  store: async (size) => ({ contests: (await import("./store.ts")).storeContests(size) }),
  library: async (size) => ({ contests: (await import("./library.ts")).libraryContests(size) }),
  postgres: async (size) => (await import("./postgres.ts")).postgresContests(size),
};

export interface Group {
  contests: Contest[];
  end?: () => Promise<void>;
}

/** For a moment in which nobody else needs the machine, before each turn of each side. */
const PATIENCE_MS = 2_000;

const { values: flags } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    json: { type: "boolean", default: process.env["LEASE_BENCH_JSON"] === "1" },
    readme: { type: "boolean", default: false },
    turns: { type: "string" },
    only: { type: "string", default: Object.keys(GROUPS).join() },
    history: { type: "string", default: join(root, "scripts/bench/history.jsonl") },
  },
});

const machine = `${cpus().length} × ${cpus()[0]?.model.trim() ?? "unknown"}`;
const size: Size = { quick: flags.quick };
const results: Result[] = [];
for (const name of flags.only.split(",").filter((word) => word !== "")) {
  const load = GROUPS[name];
  if (load === undefined) throw new Error(`no group "${name}"; there are ${Object.keys(GROUPS).join(", ")}`);
  const group = await load(size);
  try {
    for (const contest of group.contests) results.push(...(await heldOrTold(contest)));
  } finally {
    await group.end?.();
  }
}

/** One that can't be held leaves its figures out, and the others in. */
async function heldOrTold(contest: Contest): Promise<Result[]> {
  try {
    const turns = flags.turns === undefined ? contest.turns : Math.min(Number(flags.turns), contest.turns);
    const found = await hold({ ...contest, turns }, () => (size.quick ? Promise.resolve() : quiet(PATIENCE_MS)));
    if (!size.quick) console.error(textTable(found).split("\n").slice(1).join("\n"));
    return found;
  } catch (error) {
    console.error(`${contest.name}: ${error}`);
    process.exitCode = 1;
    return [];
  }
}

const history = existsSync(flags.history) ? readFileSync(flags.history, "utf8").trim().split("\n") : [];
const before = history.filter((line) => line !== "").map((line) => JSON.parse(line) as Kept);
const commit = Bun.spawnSync(["git", "rev-parse", "--short", "HEAD"], { cwd: root }).stdout.toString().trim();
const kept: Kept = { at: new Date().toISOString(), commit, machine, results };
if (flags.json) for (const result of results) console.log(JSON.stringify(result));
else console.log(textTable(results));
// A run that only shows that it works says nothing about speed.
if (!flags.quick) {
  for (const line of misses(results)) console.error(`not reached: ${line}`);
  for (const line of regressions(results, machine, before)) console.error(`worse: ${line}`);
}
if (flags.history !== "none" && results.length > 0) appendFileSync(flags.history, `${JSON.stringify(kept)}\n`);
if (flags.readme) {
  const page = join(root, "README.md");
  writeFileSync(
    page,
    intoPage(readFileSync(page, "utf8"), { at: kept.at, machine, results: newest([...before, kept], machine) }),
  );
}
process.exit(process.exitCode ?? 0);
