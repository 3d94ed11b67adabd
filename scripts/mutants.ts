/**
 * Deliberate bugs, and who notices them: each is put into a copy of the tree, the checks that should fail are run, and the
 * table says which did. `bun scripts/mutants.ts` tries all; names, or parts of names, try some; `--list` only lists.
 * With `PROOF=1` the count goes into docs/proof.
 */

import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { MUTANTS, type Mutant } from "./mutants/list.ts";
import { writeProof } from "./proof/report.ts";

const ROOT = join(import.meta.dir, "..");
const COPIED = [
  "src",
  "test",
  "scripts",
  "package.json",
  "tsconfig.json",
  "tsconfig.types.json",
  "bunfig.toml",
  "docs",
];
/** One that makes something go on for ever is noticed by that, too. */
const LONGEST_MS = 600_000;

/** On a busy machine a test that takes long has not noticed anything. */
const SLOWLY = "--timeout=300000";

/** What a check runs; anything else is the path of a test file. */
const CHECKS: Readonly<Record<string, readonly string[]>> = {
  sim: ["scripts/sim.ts", "--seeds", "1-200", "--jobs", "1", "--first"],
  small: ["test", "--bail", SLOWLY, "test/sim/exhaustive.test.ts"],
};

export interface Verdict {
  mutant: Mutant;
  /** The check and what it said; null: nobody noticed. */
  caught: { check: string; by: string } | null;
  seconds: number;
}

/** The files that the bug changes, by path, with it in them; throws when the code is not any more as the mutant knows it. */
export function mutated(files: ReadonlyMap<string, string>, { name, within, swaps }: Mutant): Map<string, string> {
  const changed = new Map<string, string>();
  for (const [from, to] of swaps) {
    const found = [...files].flatMap(([path, source]) => {
      const times = path.startsWith(within) ? source.split(from).length - 1 : 0;
      return Array.from({ length: times }, () => path);
    });
    const [path] = found;
    if (path === undefined || found.length !== 1) {
      throw new Error(`mutant "${name}": ${JSON.stringify(from)} is there ${found.length} times, below ${within}`);
    }
    changed.set(
      path,
      (changed.get(path) ?? files.get(path) ?? "").replace(from, () => to),
    );
  }
  return changed;
}

/** Of the tree at `root`, by path. */
export function sourceFiles(root = ROOT): Map<string, string> {
  const paths = [...new Bun.Glob("src/**/*.{ts,tsx}").scanSync({ cwd: root })].toSorted();
  return new Map(paths.map((path) => [path, readFileSync(join(root, path), "utf8")]));
}

function copyTree(): string {
  const tree = mkdtempSync(join(tmpdir(), "lease-mutants-"));
  for (const name of COPIED) cpSync(join(ROOT, name), join(tree, name), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(tree, "node_modules"));
  return tree;
}

/** What the check said when it failed; null: it did not. */
async function fails(tree: string, check: string): Promise<string | null> {
  const args = CHECKS[check] ?? ["test", "--bail", SLOWLY, check];
  const child = Bun.spawn([process.execPath, ...args], {
    cwd: tree,
    stdout: "pipe",
    stderr: "pipe",
    env: { ...process.env, PROOF: "", NO_COLOR: "1", SIM_DEPTH: "6", SIM_LIVES: "200" },
    timeout: LONGEST_MS,
  });
  const [stdout, stderr] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if ((await child.exited) === 0) return null;
  const said = `${stdout}\n${stderr}`;
  const failed = /^\(fail\) (.*?)(?: \[[\d.]+ms\])?$/m.exec(said)?.[1];
  const objected = /^seed \d+: (.*)$/m.exec(said)?.[1] ?? /\(\d+\) .*$/m.exec(said)?.[0];
  return (CHECKS[check] === undefined ? failed : (objected ?? failed)) ?? said.trim().split("\n").at(-1) ?? "";
}

async function judge(tree: string, mutant: Mutant): Promise<Verdict> {
  const files = sourceFiles(tree);
  const changed = mutated(files, mutant);
  const started_ms = performance.now();
  const verdict = (caught: Verdict["caught"]) => ({
    mutant,
    caught,
    seconds: (performance.now() - started_ms) / 1_000,
  });
  for (const [path, source] of changed) writeFileSync(join(tree, path), source);
  try {
    for (const check of mutant.checks ?? ["sim", "small"]) {
      const by = await fails(tree, check);
      if (by !== null) return verdict({ check, by });
    }
    return verdict(null);
  } finally {
    for (const path of changed.keys()) writeFileSync(join(tree, path), files.get(path) ?? "");
  }
}

function line({ mutant, caught, seconds }: Verdict): string {
  const who = caught === null ? "NOBODY" : `${caught.check}: ${caught.by}`;
  return `${mutant.name.padEnd(62)} ${seconds.toFixed(0).padStart(4)} s  ${who.slice(0, 150)}`;
}

async function judgeAll(mutants: readonly Mutant[], processes: number): Promise<Verdict[]> {
  const left = [...mutants];
  const verdicts: Verdict[] = [];
  const work = async () => {
    const tree = copyTree();
    try {
      for (let mutant = left.shift(); mutant !== undefined; mutant = left.shift()) {
        const verdict = await judge(tree, mutant);
        verdicts.push(verdict);
        console.log(line(verdict));
      }
    } finally {
      rmSync(tree, { recursive: true, force: true });
    }
  };
  await Promise.all(Array.from({ length: processes }, work));
  return verdicts;
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { jobs: { type: "string", default: "2" }, list: { type: "boolean", default: false } },
  });
  const chosen = MUTANTS.filter(
    ({ name }) => positionals.length === 0 || positionals.some((part) => name.includes(part)),
  );
  if (chosen.length === 0) throw new Error(`no mutant's name has ${positionals.join(" or ")} in it; --list names all`);
  if (values.list) for (const { name, within } of chosen) console.log(`${name.padEnd(62)} ${within}`);
  else {
    const verdicts = await judgeAll(chosen, Number(values.jobs));
    const missed = verdicts.filter(({ caught }) => caught === null);
    console.log(`${verdicts.length} mutants, ${verdicts.length - missed.length} caught, ${missed.length} missed`);
    if (positionals.length === 0)
      writeProof("mutants", {
        order: 30,
        title: "Deliberate bugs, put into a copy of the code one by one",
        command: "bun scripts/mutants.ts",
        counts: { mutants: verdicts.length, caught: verdicts.length - missed.length },
        violations: { missed: missed.length },
      });
    process.exitCode = missed.length === 0 ? 0 : 1;
  }
}
