/**
 * What the benches share: a workspace on a real disk, stores and jobs in it, child processes, statistics, and the one
 * line per figure.
 *
 * The machine is never quiet. So the two sides of a ratio take turns, each turn gives one ratio, and the median of them
 * is the figure: a disturbance hits both sides of a turn, or only a few turns.
 */

import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { platform } from "#platform";
import { draftJob } from "../../src/core/draft.ts";
import type { NewJob } from "../../src/core/job.ts";
import { DEFAULT_SETTINGS } from "../../src/core/job.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";

export const root = join(import.meta.dir, "../..");

/** `run.sh` makes it and removes it; a bench started by itself makes its own. */
const given = process.env["LEASE_BENCH_DIR"];
export const workspace = given ?? mkdtempSync(join(tmpdir(), "lease-bench."));
if (given === undefined) process.on("exit", () => rmSync(workspace, { recursive: true, force: true }));

const TMPFS = 0x01021994;
if (statfsSync(workspace).type === TMPFS) {
  throw new Error(`${workspace} is in memory, where a commit costs nothing: set TMPDIR to a folder on a disk`);
}

// ── Stores and jobs ────────────────────────────────────────────────────────────────────────────────────────────────

let folders = 0;

export function newFolder(parent = workspace): string {
  const folder = join(parent, `${process.pid}-${++folders}`);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return folder;
}

export function newStorePath(parent = workspace): string {
  return join(newFolder(parent), "lease.db");
}

export function openStore(path: string): Promise<Store> {
  return openSqlite(path, { clock: systemClock, random: systemRandom });
}

export function job(argv: readonly string[], settings: Partial<NewJob["settings"]> = {}): NewJob {
  const all = Object.keys(settings).length === 0 ? DEFAULT_SETTINGS : { ...DEFAULT_SETTINGS, ...settings };
  return { ...draftJob(workspace), argv, settings: all };
}

/** How an attempt ends that went well. */
export const SUCCESS = {
  cause: "success",
  exit_code: 0,
  signal: null,
  error: null,
  output: null,
  last_line: null,
  beats: 1,
} as const;

export function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

/** A fresh store that holds `jobs`; answers its path. */
export async function filledStore(jobs: readonly NewJob[]): Promise<string> {
  const path = newStorePath();
  const store = await openStore(path);
  await store.enqueue(jobs);
  await store.close();
  return path;
}

/** Counts what this process commits from now on. */
export function countCommits(): { count: number } {
  const commits = { count: 0 };
  const open = platform.openSqlite;
  platform.openSqlite = (path) => {
    const database = open(path);
    return {
      ...database,
      prepare(sql) {
        const statement = database.prepare(sql);
        if (sql !== "COMMIT") return statement;
        return { ...statement, run: () => ((commits.count += 1), statement.run()) };
      },
    };
  };
  return commits;
}

// ── Processes ──────────────────────────────────────────────────────────────────────────────────────────────────────

let built: string | null = null;

/** The compiled program: of `run.sh`, or built now. */
export function leaseBinary(): string {
  built ??= join(workspace, "lease");
  if (given === undefined && !Bun.file(built).size) compileWith(root, built);
  return built;
}

/** Runs the project's own build script as it lies in `folder`. */
export function compileWith(folder: string, outfile: string): void {
  const done = Bun.spawnSync([process.execPath, join(folder, "scripts/build.ts"), "--outfile", outfile]);
  if (!done.success) throw new Error(`could not build ${outfile}: ${done.stderr}`);
}

/** An empty program by the very build script of the project, so that its flags can't drift apart. */
export function emptyBinary(): string {
  const folder = newFolder();
  for (const name of ["scripts", "src"]) mkdirSync(join(folder, name));
  for (const name of ["build.ts", "pages.ts"]) {
    copyFileSync(join(root, "scripts", name), join(folder, "scripts", name));
  }
  copyFileSync(join(root, "package.json"), join(folder, "package.json"));
  writeFileSync(join(folder, "src/main.ts"), "export {};\n");
  compileWith(folder, join(folder, "empty"));
  return join(folder, "empty");
}

export function has(command: string): boolean {
  return Bun.which(command) !== null;
}

/** moreutils has a `parallel` of its own; `sem` is GNU's alone. */
export function hasGnuParallel(): boolean {
  return has("parallel") && has("sem");
}

interface RunOptions {
  env?: Record<string, string>;
  cwd?: string;
  /** Accept any exit code. */
  may_fail?: boolean;
}

/** Runs a command to its end with its output thrown away; answers how many milliseconds it took. */
export async function timed(argv: readonly string[], options: RunOptions = {}): Promise<number> {
  const started_ms = performance.now();
  const child = Bun.spawn([...argv], {
    cwd: options.cwd ?? workspace,
    env: { ...process.env, ...options.env },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  });
  const [exit_code, stderr] = await Promise.all([child.exited, new Response(child.stderr).text()]);
  if (exit_code !== 0 && options.may_fail !== true) throw new Error(`${argv.join(" ")}: exit ${exit_code}: ${stderr}`);
  return performance.now() - started_ms;
}

export function timedShell(shell_line: string, options: RunOptions = {}): Promise<number> {
  return timed(["sh", "-c", shell_line], options);
}

/** Starts `lease` and leaves it running; it is killed at the end of the bench at the latest. */
export function startLease(args: readonly string[], store: string): Bun.Subprocess {
  const child = Bun.spawn([leaseBinary(), ...args, "--store", store], {
    cwd: workspace,
    stdin: "ignore",
    stdout: "ignore",
    stderr: "inherit",
  });
  process.on("exit", () => child.kill("SIGKILL"));
  return child;
}

/** A script of this folder in a Bun of its own, behind these words; answers what it prints as JSON. */
export async function script<T>(file: string, input: unknown, before: readonly string[] = []): Promise<T> {
  const child = Bun.spawn([...before, process.execPath, join(import.meta.dir, file), JSON.stringify(input)], {
    cwd: root,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  });
  const text = await new Response(child.stdout).text();
  if ((await child.exited) !== 0) throw new Error(`${file} failed`);
  return JSON.parse(text) as T;
}

/** Another process that extends its lease every few milliseconds for as long as the work lasts. */
export async function withBeats<T>(path: string, waits_ms: number[], work: () => Promise<T>): Promise<T> {
  const store = await openStore(path);
  const [own] = await store.enqueue([{ ...job(["/bin/true"]), queue: "beats" }]);
  const request = { holder: "bench", host: "bench", count: 1, queues: ["beats"], task: null, lease_ms: 300_000 };
  await store.acquire(request);
  const worker = new Worker(join(import.meta.dir, "recover_beats.ts"));
  worker.postMessage({ path, id: own?.id }, []);
  const waits = new Promise<number[]>((resolve) => {
    worker.addEventListener("message", (event: MessageEvent<number[]>) => resolve(event.data));
  });
  try {
    return await work();
  } finally {
    worker.postMessage("end", []);
    waits_ms.push(...(await waits));
    worker.terminate();
    await store.close();
  }
}

/** A line of /proc/PID/status in kilobytes. */
export function memoryOf(pid: number, field: "VmRSS" | "VmHWM"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(status)?.[1]);
}

const CLOCK_TICK_MS = 10;

/** Processor time of a process so far. */
export function cpuOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * CLOCK_TICK_MS;
}

/** Waits for `look` to answer something else than null. */
export async function until<T>(look: () => T | null | Promise<T | null>, limit_ms = 60_000): Promise<T> {
  const deadline_ms = performance.now() + limit_ms;
  for (;;) {
    const answer = await look();
    if (answer !== null) return answer;
    if (performance.now() > deadline_ms) throw new Error(`nothing happened within ${limit_ms} ms`);
    await Bun.sleep(5);
  }
}

// ── Figures ────────────────────────────────────────────────────────────────────────────────────────────────────────

export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** One turn of both sides, in the same unit. */
export interface Turn {
  ours: number;
  other: number;
}

/** Processor time that the machine has spent on anything so far. */
function busyMs(): number {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = readFileSync("/proc/stat", "latin1")
    .slice("cpu".length, 200)
    .trim()
    .split(/\s+/)
    .map(Number);
  return (user + nice + system + irq + softirq) * CLOCK_TICK_MS;
}

const QUIET_LOOK_MS = 200;
const QUIET_SHARE = 0.2;
const QUIET_PATIENCE_MS = 10_000;

/** Waits until nobody else needs the machine, but not for ever. */
export async function quiet(patience_ms = QUIET_PATIENCE_MS): Promise<void> {
  for (const deadline_ms = performance.now() + patience_ms; performance.now() < deadline_ms;) {
    const before_ms = busyMs();
    await Bun.sleep(QUIET_LOOK_MS);
    if (busyMs() - before_ms < QUIET_LOOK_MS * QUIET_SHARE) return;
  }
}

/** Takes turns; every second one in the opposite order, so that neither side always comes after the other. */
export async function takeTurns(
  count: number,
  ours: () => Promise<number>,
  other: () => Promise<number>,
): Promise<Turn[]> {
  const turns: Turn[] = [];
  for (let i = 0; i < count; i++) {
    await quiet();
    if (i % 2 === 0) {
      const first = await ours();
      turns.push({ ours: first, other: await other() });
    } else {
      const first = await other();
      turns.push({ other: first, ours: await ours() });
    }
  }
  return turns;
}

export interface Limit {
  /** The figure must be at least, or at most, this. */
  at_least?: number;
  at_most?: number;
}

function holds(value: number, limit: Limit): boolean {
  return value >= (limit.at_least ?? -Infinity) && value <= (limit.at_most ?? Infinity);
}

const json = process.env["LEASE_BENCH_JSON"] === "1" || process.argv.includes("--json");
const WIDTHS = [31, 16, 16, 8, 15];

function line(name: string, ours: string, other: string, ratio: string, limit: Limit, unit: string, ok: boolean): void {
  const target =
    limit.at_least !== undefined
      ? `≥ ${limit.at_least}${unit}`
      : limit.at_most !== undefined
        ? `≤ ${limit.at_most}${unit}`
        : "-";
  const verdict = target === "-" ? "-" : ok ? "ok" : "MISS";
  if (!ok) process.exitCode = 1;
  if (json) console.log(JSON.stringify({ name, ours, other, ratio, target, verdict }));
  else {
    console.log([name, ours, other, ratio, target].map((text, i) => text.padEnd(WIDTHS[i] ?? 0)).join(" ") + verdict);
  }
}

/** A figure that is a ratio of two sides; a limit that is empty only shows it. */
export function ratioFigure(name: string, unit: string, turns: readonly Turn[], limit: Limit): void {
  const ratio = median(turns.map(({ ours, other }) => ours / other));
  const [ours, other] = [median(turns.map((turn) => turn.ours)), median(turns.map((turn) => turn.other))];
  line(name, show(ours, unit), show(other, unit), `${ratio.toFixed(2)}×`, limit, "×", holds(ratio, limit));
}

/** A figure that stands for itself. */
export function plainFigure(name: string, value: number, unit: string, limit: Limit): void {
  line(name, show(value, unit), "", "", limit, ` ${unit}`, holds(value, limit));
}

/** A figure that could not be taken is not a figure that was missed, but nobody should overlook it. */
export function skipped(name: string, why: string): void {
  console.log(json ? JSON.stringify({ name, verdict: "skipped", why }) : `${name.padEnd(31)} SKIPPED: ${why}`);
}

function show(value: number, unit: string): string {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${unit}`;
}
