// A fleet on bad days, with real processes, for as long as one likes:
//
//   bun scripts/chaos.ts --minutes 10 [--seed N]
//
// Workers in control groups, without them, and in a container share a store; they are killed, stopped, told to hang up, to
// drain and to stop at a terminal; watchdogs look with other users' eyes; enqueues are killed; jobs escape by `env -i
// setsid` and two forks, fail, depend on one another, are cancelled and retried in order. Jobs keep a ledger of what they
// really did, which is compared with what the store says in the end. Exits with 1 when a promise was broken.

import { Database } from "bun:sqlite";
import { appendFileSync, chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: { minutes: { type: "string", default: "2" }, seed: { type: "string" }, bin: { type: "string" } },
});
const minutes = Number(values.minutes);
let state = Number(values.seed ?? Date.now() % 1e9);
console.log(`chaos for ${minutes} minutes, seed ${state}`);

/** mulberry32: the choices repeat, though the processes do not. */
function random(): number {
  state = (state + 0x6d2b79f5) | 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
}
const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;

const binary = resolve(values.bin ?? join(import.meta.dir, "../dist/lease"));
const folder = mkdtempSync(join(tmpdir(), "lease-chaos-"));
const store = join(folder, "lease.db");
const ledger = join(folder, "ledger");
appendFileSync(ledger, "");
chmodSync(folder, 0o777);

const figures: Record<string, number> = {};
const count = (name: string, by = 1) => (figures[name] = (figures[name] ?? 0) + by);

// ── Programs ───────────────────────────────────────────────────────────────────────────────────────────────────────

const env = { PATH: process.env["PATH"] ?? "", HOME: folder, NO_COLOR: "1", TMPDIR: folder };

function start(before: readonly string[], words: readonly string[]) {
  const argv = [...before, binary, ...words, "--store", store, "--trust-store"];
  return Bun.spawn(argv, { cwd: folder, env, stdin: "ignore", stdout: "pipe", stderr: Bun.file(join(folder, "log")) });
}

async function lease(...words: string[]): Promise<{ code: number; stdout: string }> {
  const child = start([], words);
  const stdout = await new Response(child.stdout).text();
  return { code: await child.exited, stdout };
}

const works = (words: readonly string[]) => Bun.spawnSync([...words, "true"], { stderr: "ignore" }).exitCode === 0;
const WITHOUT_CGROUPS = ["unshare", "--mount", "sh", "-c", 'umount -a -t cgroup2 && exec "$@"', "sh"];
const CONTAINED = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
const HIDDEN_AS_OTHER = [
  ..."unshare --mount sh -c".split(" "),
  'mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"',
  "sh",
];
const PLACES = [[], [], WITHOUT_CGROUPS, CONTAINED].filter((words) => words.length === 0 || works(words));
const hides = works(HIDDEN_AS_OTHER);

/** Workers whose fence is the tree of processes that they adopt. */
const without_cgroups = new Set<number>();

/** One that is started again whenever it has ended. */
class Worker {
  readonly #before: readonly string[];
  #child: Bun.Subprocess;
  stopped = false;

  constructor(before: readonly string[]) {
    this.#before = before;
    this.#child = this.#start();
  }

  #start(): Bun.Subprocess {
    const words = ["worker", "-j", "3", "--poll", "200ms", "--drain", "1s", "--grace", "500ms"];
    const child = start(this.#before, words);
    if (this.#before === WITHOUT_CGROUPS) without_cgroups.add(child.pid);
    void child.exited.then(() => {
      this.stopped = false;
      if (!ending) this.#child = this.#start();
    });
    return child;
  }

  /** The worker itself, not what put it into its container. */
  get pid(): number {
    const { pid } = this.#child;
    if (this.#before !== CONTAINED) return pid;
    const children = readOrEmpty(`/proc/${pid}/task/${pid}/children`).trim();
    return children === "" ? pid : Number(children.split(" ")[0]);
  }

  signal(name: NodeJS.Signals): void {
    try {
      process.kill(this.pid, name);
      count(name);
    } catch {
      // It has just ended.
    }
  }

  async end(): Promise<void> {
    this.signal("SIGCONT");
    this.signal("SIGKILL");
    this.#child.kill("SIGKILL");
    await this.#child.exited;
  }
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}

// ── Jobs ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const note = (what: string, job = "$LEASE_JOB_ID", token = "$LEASE_TOKEN") =>
  `echo "${what} ${job} ${token} $(date +%s%N)" >> ${ledger}`;
const beats = (times: number) => `for i in $(seq ${times}); do echo; ${note("alive")}; sleep 0.05; done`;

/** Lives on for three seconds at most: a job that ends well may leave it. */
const escapee = `for i in $(seq 60); do ${note("alive", "$1", "$2")}; sleep 0.05; done`;
const ESCAPES = [
  `env -i /usr/bin/setsid /bin/sh -c '${escapee}' sh $LEASE_JOB_ID $LEASE_TOKEN >/dev/null 2>&1 &`,
  `(env -i /usr/bin/setsid /bin/sh -c '${escapee}' sh $LEASE_JOB_ID $LEASE_TOKEN >/dev/null 2>&1 </dev/null &)`,
  `setsid sh -c '${escapee}' sh $LEASE_JOB_ID $LEASE_TOKEN &`,
];

function jobScript(): string {
  const escape = random() < 0.3 ? `${pick(ESCAPES)}\n` : "";
  const fails = random() < 0.2 ? "[ $(($(date +%N | tail -c 2) % 2)) = 0 ] && exit 3; " : "";
  const end = escape === "" ? note("end") : "exit 4";
  const ends = escape === "" ? end : `[ $LEASE_TOKEN -ge 3 ] && { ${note("end")}; exit 0; }; ${end}`;
  return `${note("begin")}; ${escape}${beats(Math.floor(random() * 30))}; ${fails}${ends}`;
}

const acknowledged = new Set<number>();
const pairs: { parent: number; child: number; task: string }[] = [];
const FLAGS = ["--lease", "3s", "--retries", "1000", "--backoff", "fixed:200ms"];

async function enqueue(...words: string[]): Promise<number | null> {
  const child = start([], ["enqueue", ...FLAGS, ...words, "-c", jobScript()]);
  const killed = random() < 0.1;
  if (killed) setTimeout(() => child.kill("SIGKILL"), random() * 30);
  const id = Number(await new Response(child.stdout).text());
  if (killed) count("enqueues killed");
  if (!(id > 0)) return null;
  acknowledged.add(id);
  return id;
}

async function enqueueSome(): Promise<void> {
  if (random() < 0.6) return void (await enqueue());
  const task = `pair-${pairs.length}`;
  const parent = await enqueue("--task", task);
  const child = parent === null ? null : await enqueue("--task", task, "--after", String(parent));
  if (parent !== null && child !== null) pairs.push({ parent, child, task });
}

// ── Faults ─────────────────────────────────────────────────────────────────────────────────────────────────────────

let ending = false;
const workers = PLACES.map((before) => new Worker(before));

async function freeze(worker: Worker): Promise<void> {
  if (worker.stopped) return;
  worker.stopped = true;
  worker.signal("SIGSTOP");
  await Bun.sleep(random() * 5_000);
  worker.signal("SIGCONT");
  worker.stopped = false;
}

async function lookHidden(): Promise<void> {
  for (const name of readdirSync(folder))
    if (name.startsWith("lease.db") && !name.endsWith("scratch")) chmodSync(join(folder, name), 0o666);
  const child = start(hides ? HIDDEN_AS_OTHER : [], ["watchdog", "--once", "--grace", "1s"]);
  await child.exited;
  count(hides ? "sweeps behind hidepid" : "sweeps");
}

const FAULTS: readonly (readonly [weight: number, fault: () => unknown])[] = [
  [4, () => pick(workers).signal("SIGKILL")],
  [3, () => void freeze(pick(workers))],
  [2, () => pick(workers).signal("SIGHUP")],
  [2, () => pick(workers).signal("SIGTERM")],
  [2, () => pick(workers).signal("SIGTSTP")],
  [2, () => lookHidden()],
  [2, () => retrySome()],
  [1, () => cancelSome()],
];

async function retrySome(): Promise<void> {
  if (pairs.length === 0) return;
  await lease("retry", "--task", pick(pairs).task, "--status", "completed,failed,cancelled");
  count("retries of a parent with its child");
}

async function cancelSome(): Promise<void> {
  if (acknowledged.size === 0) return;
  await lease("cancel", String(pick([...acknowledged])));
  count("cancels");
}

async function faults(until_ms: number): Promise<void> {
  const total = FAULTS.reduce((sum, [weight]) => sum + weight, 0);
  while (performance.now() < until_ms) {
    let at = random() * total;
    await FAULTS.find(([weight]) => (at -= weight) < 0)?.[1]();
    await Bun.sleep(random() * 600);
  }
}

async function work(until_ms: number): Promise<void> {
  while (performance.now() < until_ms) {
    await enqueueSome();
    const { stdout } = await lease("inspect", "jobs", "--status", "pending", "--json", "--limit", "60");
    await Bun.sleep(stdout.split("\n").length > 40 ? 2_000 : 150);
  }
}

// ── The ledger against the store ───────────────────────────────────────────────────────────────────────────────────

interface Line {
  what: string;
  job: number;
  token: number;
  at_ns: bigint;
}

function readLedger(): Map<number, Line[]> {
  const jobs = new Map<number, Line[]>();
  for (const text of readFileSync(ledger, "utf8").split("\n")) {
    const [, what = "", job, token, at] = /^(begin|alive|end) (\d+) (\d+) (\d{19})$/.exec(text) ?? [];
    if (at === undefined) continue;
    const line = { what, job: Number(job), token: Number(token), at_ns: BigInt(at) };
    jobs.set(line.job, [...(jobs.get(line.job) ?? []), line]);
  }
  return jobs;
}

/**
 * Attempts of which no fence is left: their worker had no control groups, and was killed before it could note the process.
 * `lease doctor` says of that fence that it does not reach so far.
 */
function unfenced(): Set<string> {
  const database = new Database(store);
  const rows = database
    .query<{ job_id: number; attempt: number; worker: string }, []>(
      "SELECT job_id, attempt, worker FROM attempts WHERE cause = 'lost' AND fence IS NULL",
    )
    .all();
  database.close();
  const of_tree = rows.filter(({ worker }) => without_cgroups.has(Number(worker.split(".").at(-2))));
  return new Set(of_tree.map(({ job_id, attempt }) => `${job_id} ${attempt}`));
}

const latest = (lines: readonly Line[]) => lines.reduce((last, { at_ns }) => (at_ns > last ? at_ns : last), 0n);

/** Something of an earlier attempt happened after a later one had begun. */
function overlaps(jobs: ReadonlyMap<number, readonly Line[]>): string[] {
  const beyond = unfenced();
  count("attempts that no fence could hold", beyond.size);
  return [...jobs].flatMap(([job, lines]) =>
    lines
      .filter(({ what }) => what === "begin")
      .flatMap(({ token, at_ns }) => {
        const late_ns =
          latest(lines.filter((line) => line.token < token && !beyond.has(`${job} ${line.token}`))) - at_ns;
        return late_ns > 0n
          ? [`job ${job}: attempt ${token} began ${Number(late_ns) / 1e6} ms before an earlier one was over`]
          : [];
      }),
  );
}

/** A child that began before its parent had ended as often as the child was to run. */
function disorders(jobs: ReadonlyMap<number, readonly Line[]>): string[] {
  return pairs.flatMap(({ parent, child }) =>
    (jobs.get(child) ?? [])
      .filter(({ what }) => what === "begin")
      .flatMap(({ token, at_ns }) => {
        const before = (jobs.get(parent) ?? []).filter((line) => line.at_ns < at_ns);
        const ended = before.some(({ what }) => what === "end");
        const newest = Math.max(0, ...before.map((line) => line.token));
        const over = before.some((line) => line.token === newest && line.what === "end");
        return ended && over ? [] : [`job ${child}: attempt ${token} began though job ${parent} was not done`];
      }),
  );
}

function lost(jobs: ReadonlyMap<number, readonly Line[]>): string[] {
  const database = new Database(store);
  const rows = database
    .query<{ id: number; state: string; token: number }, []>("SELECT id, state, token FROM jobs")
    .all();
  const integrity = database.query<{ integrity_check: string }, []>("PRAGMA integrity_check").all();
  const twice = database
    .query("SELECT job_id FROM attempts WHERE cause = 'success' GROUP BY job_id, attempt HAVING count(*) > 1")
    .all();
  database.close();
  const known = new Map(rows.map((row) => [row.id, row]));
  for (const { state: in_state } of rows) count(`jobs ${in_state}`);
  count(
    "attempts",
    rows.reduce((sum, { token }) => sum + token, 0),
  );
  const over = new Set(["completed", "cancelled", "failed"]);
  return [
    ...[...acknowledged].filter((id) => !known.has(id)).map((id) => `job ${id} was acknowledged and is gone`),
    ...rows
      .filter(({ state: in_state }) => !over.has(in_state))
      .map(({ id, state: in_state }) => `job ${id} is still ${in_state}`),
    ...rows
      .filter(
        ({ id, state: in_state }) =>
          in_state === "completed" && !(jobs.get(id) ?? []).some(({ what }) => what === "end"),
      )
      .map(({ id }) => `job ${id} is completed and never came to its end`),
    ...integrity.filter((row) => row.integrity_check !== "ok").map((row) => `integrity: ${row.integrity_check}`),
    ...twice.map((row) => `two successes: ${JSON.stringify(row)}`),
  ];
}

// ── The run ────────────────────────────────────────────────────────────────────────────────────────────────────────

const SETTLES_WITHIN_MS = 240_000;

await enqueue();
const watchdog = start([], ["watchdog", "--every", "1s", "--grace", "1s"]);
const until_ms = performance.now() + minutes * 60_000;
await Promise.all([work(until_ms), faults(until_ms)]);
await Bun.sleep(5_000);
// From here on nothing is done to them, and all that is left has to end.
const settled_by_ms = performance.now() + SETTLES_WITHIN_MS;
while (performance.now() < settled_by_ms) {
  const { stdout } = await lease(
    "inspect",
    "jobs",
    "--status",
    "pending,running,retrying,scheduled,blocked,cancelling",
    "--json",
    "--limit",
    "1",
  );
  if (stdout.trim() === "") break;
  await Bun.sleep(1_000);
}
ending = true;
watchdog.kill("SIGTERM");
for (const worker of workers) await worker.end();
const jobs = readLedger();
const broken = { lost: lost(jobs), overlaps: overlaps(jobs), disorders: disorders(jobs) };
count("jobs acknowledged", acknowledged.size);
console.log(figures);
for (const [name, found] of Object.entries(broken)) {
  console.log(`${found.length} ${name}`);
  for (const text of found.slice(0, 20)) console.log(`  ${text}`);
}
const failed = Object.values(broken).some((found) => found.length > 0);
if (failed || !existsSync(folder)) console.log(`kept for a look: ${folder}`);
else rmSync(folder, { recursive: true, force: true });
process.exitCode = failed ? 1 : 0;
