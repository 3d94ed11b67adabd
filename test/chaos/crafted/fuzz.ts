/**
 * Crafted stores, one after the other, and real commands on each. To be run in a pid namespace of its own, where a signal to
 * everybody reaches nobody but us:
 *
 *     unshare --pid --fork --kill-child --mount-proc bun test/chaos/crafted/fuzz.ts COUNT SEED
 *
 * Each command has to end in time, by itself, with a code of ours, and with a line where something is wrong; never with a
 * stack. Bystanders live on, and nothing runs of a store that is refused. Prints what broke, and figures at the end.
 */

import { Database } from "bun:sqlite";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { Chance } from "../../sim/chance.ts";
import { BINARY } from "../../support/process.ts";
import { mutate, type Bystander } from "./mutate.ts";

const [count = 20, seed = 1] = process.argv.slice(2).map(Number);
const folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "lease-crafted-"));
const base = join(folder, "base.db");
const canary = join(folder, "canary-sang");
const bin = join(folder, "bin");
mkdirSync(bin);
writeFileSync(join(bin, "canary"), `#!/bin/sh\necho "$@" >> ${canary}\n`);
chmodSync(join(bin, "canary"), 0o755);

const STUCK_MS = 15_000;
/** A worker may rightly wait for what is due later: it is told to end. */
const WORK_MS = 1_200;

async function lease(store: string, words: readonly string[]) {
  const [command = "", ...rest] = words;
  const child = Bun.spawn([BINARY, command, "--store", store, ...rest], {
    cwd: folder,
    env: { PATH: `${bin}:/usr/bin:/bin`, HOME: folder, TMPDIR: folder, NO_COLOR: "1" },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  let stuck = false;
  const timers = [
    setTimeout(() => child.kill("SIGTERM"), command === "worker" ? WORK_MS : STUCK_MS),
    setTimeout(() => {
      stuck = true;
      child.kill("SIGKILL");
    }, STUCK_MS),
  ];
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  for (const timer of timers) clearTimeout(timer);
  return { stuck, code: child.exitCode, signal: child.signalCode, stdout, stderr };
}

/** A store with something of everything. */
async function makeBase(): Promise<void> {
  const ok = async (...words: string[]) => {
    const answer = await lease(base, words);
    if (answer.code !== 0 && answer.code !== 1) throw new Error(`${words.join(" ")}: ${answer.stderr}`);
  };
  await ok("enqueue", "--input", "some input", "-t", "task", "--key", "k1", "-c", "seq 20000; echo oops >&2");
  await ok("enqueue", "--retries", "0", "-t", "task", "-c", "echo bad; exit 3");
  await ok("enqueue", "--lease", "auto", "--env", "A=1", "--timeout", "1m", "--", "true");
  await ok("worker", "--until-empty");
  await ok("pause", "quiet");
  await ok("enqueue", "-q", "quiet", "--", "canary", "paused");
  await ok("enqueue", "--delay", "1h", "--key", "later", "--", "canary", "later");
  await ok("enqueue", "--after", "5", "--", "canary", "after");
  await ok("enqueue", "-q", "held", "--", "canary", "held");
  await ok("enqueue", "-p", "5", "--", "canary", "pending");
  await ok("schedule", "nightly", "--cron", "0 3 * * *", "-q", "plan", "--", "canary", "scheduled");
  await ok("schedule", "often", "--every", "1h", "-q", "plan", "--", "canary", "scheduled");
  await ok("limit", "narrow", "1", "--rate", "10/1m");
  await ok("enqueue", "--limit", "narrow", "--need", "gpu", "--", "canary", "limited");
  const database = new Database(base);
  database.run("UPDATE jobs SET state = 'running', token = 1, holder = 'gone', expires_at_ms = 1 WHERE queue = 'held'");
  database.run(`INSERT INTO attempts (job_id, attempt, worker, host, boot_id, pid, pid_started, lease_ms, started_at_ms)
    SELECT id, 1, 'gone', 'elsewhere', 'b', 4000000, 1, 1000, 1 FROM jobs WHERE queue = 'held'`);
  database.run("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
}

const COMMANDS: (readonly string[])[] = [
  ["enqueue", "--", "true"],
  ["enqueue", "--key", "k1", "--", "true"],
  ["inspect"],
  ["inspect", "--json"],
  ["inspect", "1-9"],
  ["inspect", "1", "--json"],
  ["inspect", "jobs", "--json"],
  ["inspect", "workers"],
  ["inspect", "leases"],
  ["inspect", "checkpoints"],
  ["inspect", "queues"],
  ["logs", "1", "--timestamps"],
  ["logs", "1", "--json"],
  ["logs", "2"],
  ["watchdog", "--once", "--grace", "0"],
  ["watchdog", "--once", "--json"],
  ["worker", "--until-empty", "-q", "*", "--drain", "1s"],
  ["worker", "--once", "--grace", "0", "--drain", "1s"],
  ["doctor"],
  ["doctor", "--json"],
  ["doctor", "--audit"],
  ["doctor", "--audit", "--json"],
  ["edit", "1-9", "--priority", "3"],
  ["cancel", "1-9"],
  ["retry", "1-9"],
  ["prune", "--older-than", "0", "--yes"],
  ["copy", "--to", "COPY"],
  ["inspect", "1-9", "--json"],
  ["schedule"],
  ["schedule", "--json"],
  ["schedule", "nightly"],
  ["schedule", "often", "--now"],
  ["schedule", "nightly", "--remove"],
  ["limit"],
  ["limit", "--json"],
  ["metrics"],
];
const PER_STORE = 4;

const STACK = /^\s+at |unexpected error|broken promise|\[object |undefined is not|Cannot read/m;
const CODES = new Set([0, 1, 2, 124, 125]);

function problemOf(words: readonly string[], answer: Awaited<ReturnType<typeof lease>>): string | null {
  if (answer.stuck) return "did not end";
  if (answer.signal !== null) return `was ended by ${answer.signal}`;
  if (STACK.test(answer.stderr)) return "shows a stack";
  if (words[0] === "worker" && answer.code === 143) return null;
  if (!CODES.has(answer.code ?? -1)) return `ended with ${answer.code}`;
  const said = answer.code === 125 && words[0] !== "doctor" ? answer.stderr.split("\n").at(-2) : "lease: ";
  if (!said?.startsWith("lease: ")) return "has no line for what is wrong";
  // eslint-disable-next-line no-control-regex
  if (/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/.test(answer.stderr)) return "prints control characters";
  return null;
}

function bystander(): Bystander & { alive: () => boolean } {
  const child = Bun.spawn(["setsid", "sleep", "100000"], { stdin: "ignore", stdout: "ignore", stderr: "ignore" });
  const stat = () => readFileSync(`/proc/${child.pid}/stat`, "utf8");
  const fields = stat()
    .slice(stat().lastIndexOf(")") + 2)
    .split(" ");
  const boot_id = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  const alive = () => child.exitCode === null && child.signalCode === null && !/\) [ZX] /.test(stat());
  return { pid: child.pid, pid_started: Number(fields[19]), boot_id, alive };
}

async function oneStore(index: number, standing: ReturnType<typeof bystander>): Promise<string[]> {
  const chance = new Chance(seed * 1_000_003 + index);
  const own = join(folder, String(index));
  mkdirSync(own, { mode: 0o700 });
  const store = join(own, "lease.db");
  copyFileSync(base, store);
  chmodSync(store, 0o600);
  // Everybody has pid 1: what is killed by it is everybody.
  const target = chance.of(0.3) ? { ...standing, pid: 1, pid_started: startOf(1) } : standing;
  const { kind, what, refused } = mutate(store, chance, target);
  const problems: string[] = [];
  for (let n = 0; n < PER_STORE; n++) {
    const words = chance.pick(COMMANDS);
    rmSync(canary, { force: true });
    const answer = await lease(
      store,
      words.map((word) => (word === "COPY" ? join(own, `copy${n}.db`) : word)),
    );
    figures[`${kind} ${answer.code}`] = (figures[`${kind} ${answer.code}`] ?? 0) + 1;
    const told = `${index}: ${kind} (${what}): lease ${words.join(" ")}`;
    const problem = problemOf(words, answer);
    if (problem !== null) problems.push(`${told} ${problem}: ${answer.stderr.slice(-600)}`);
    if (refused && existsSync(canary)) problems.push(`${told} ran a command`);
    if (refused && answer.code !== 125 && words[0] !== "doctor")
      problems.push(`${told} was not refused: ${answer.code}`);
    if (!standing.alive()) problems.push(`${told} killed a bystander`);
  }
  rmSync(own, { recursive: true, force: true });
  return problems;
}

function startOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]);
}

const figures: Record<string, number> = {};
let next = 0;
let broken = 0;

/** Two at a time, each with its own bystander. */
async function work(): Promise<void> {
  const standing = bystander();
  while (next < count && standing.alive()) {
    for (const problem of await oneStore(next++, standing)) {
      broken += 1;
      console.log(problem);
    }
  }
  if (standing.alive()) process.kill(standing.pid, "SIGKILL");
}

await makeBase();
// Only one at a time looks for the canary.
await work();
rmSync(folder, { recursive: true, force: true });
console.log(
  JSON.stringify({ stores: next, commands: Object.values(figures).reduce((a, b) => a + b, 0), broken, figures }),
);
process.exit(broken === 0 ? 0 : 1);
