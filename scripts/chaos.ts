// A fleet on bad days, with real processes, for as long as one likes:
//
//   bun scripts/chaos.ts --minutes 10 [--store sqlite|postgres|URL] [--seed N] [--bin FILE]
//
// Workers in control groups, without them, and in a container share a store; they get every signal there is, as do their
// jobs, and are stopped as at a terminal; watchdogs look with other users' eyes and from other namespaces; every command is
// asked and some are killed; jobs escape by `env -i setsid` and two forks, fail, depend on one another, share limits and
// resources, note how far they are, are cancelled, edited and retried in order. Of a store of its own (`sqlite`, on a small
// disk, or `postgres`, with a standby) the disk fills up, the store is locked, the server dies and restarts, the network
// parts, the standby takes over. Jobs keep a ledger of what they really did: in the end it is compared with what the store
// says, and with the store's audit. Exits with 1 when a promise was broken.

import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { VIEWS } from "../test/support/namespaces.ts";
import { startFleet, type Unfenced, type Worker } from "./chaos/fleet.ts";
import { givenGround, postgresGround, sqliteGround, type Fault, type Ground } from "./chaos/ground.ts";
import { Jobs, LIMIT } from "./chaos/jobs.ts";
import { judge } from "./chaos/ledger.ts";
import { World, works } from "./chaos/world.ts";
import { writeProof } from "./proof/report.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "2" },
    store: { type: "string", default: "sqlite" },
    seed: { type: "string" },
    bin: { type: "string" },
  },
});

/** As many signals as there are for which a process has a choice, and the two for which it has none. */
const SIGNALS = (
  "SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM SIGTERM " +
  "SIGCHLD SIGCONT SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF SIGWINCH SIGIO SIGSYS"
).split(" ") as NodeJS.Signals[];
const STOPS: ReadonlySet<string> = new Set(["SIGTSTP", "SIGTTIN", "SIGTTOU"]);

function fleetFaults(world: World, workers: readonly Worker[], jobs: Jobs, ground: Ground): Fault[] {
  const { chance } = world;
  const any = () => chance.pick(workers);
  const eyes = VIEWS.map(([, words]) => words).filter(works);
  const signalled = async (name: NodeJS.Signals) => {
    const worker = any();
    worker.signal(name);
    if (!STOPS.has(name)) return;
    await Bun.sleep(chance.next() * 2_000);
    worker.signal("SIGCONT");
  };
  return [
    [5, "kill", () => any().signal("SIGKILL")],
    [3, "freeze", () => void any().freeze()],
    [2, "hang up", () => any().signal("SIGHUP")],
    [2, "drain", () => any().signal("SIGTERM")],
    [2, "Ctrl-Z", () => void signalled("SIGTSTP")],
    [4, "any signal", () => void signalled(chance.pick(SIGNALS))],
    [
      3,
      "signal to a job or an enforcer",
      () => void any().signalChild(chance.pick(["SIGKILL", "SIGTERM", "SIGINT", "SIGSTOP"])),
    ],
    [
      2,
      "foreign eyes",
      async () => {
        ground.open();
        await world.lease(["watchdog", "--once", "--grace", "1s"], {
          before: eyes.length === 0 ? [] : chance.pick(eyes),
        });
      },
    ],
    [3, "retry", () => jobs.retrySome()],
    [1, "cancel", () => jobs.cancelSome()],
  ];
}

async function disturb(world: World, faults: readonly Fault[], until_ms: number): Promise<void> {
  const total = faults.reduce((sum, [weight]) => sum + weight, 0);
  while (performance.now() < until_ms) {
    let at = world.chance.next() * total;
    const [, name, fault] = faults.find(([weight]) => (at -= weight) < 0) ?? (faults[0] as Fault);
    world.count(`fault: ${name}`);
    await fault();
    await Bun.sleep(world.chance.next() * 500);
  }
}

async function work(world: World, jobs: Jobs, until_ms: number): Promise<void> {
  while (performance.now() < until_ms) {
    await jobs.enqueueSome();
    if (world.chance.of(0.4)) await jobs.askSomething();
    const { stdout } = await world.lease(["inspect", "jobs", "--status", "pending", "--json", "--limit", "60"]);
    await Bun.sleep(stdout.split("\n").length > 40 ? 2_000 : 100);
  }
}

const SETTLES_WITHIN_MS = 240_000;
const UNFINISHED = "pending,running,retrying,scheduled,blocked,cancelling";

/** From here on nothing is done to anybody, and all that is left has to end. */
async function settle(world: World): Promise<void> {
  await world.lease(["schedule", "tick", "--remove"]);
  await world.lease(["resume", "default"]);
  const settled_by_ms = performance.now() + SETTLES_WITHIN_MS;
  while (performance.now() < settled_by_ms) {
    const { code, stdout } = await world.lease(["inspect", "jobs", "--status", UNFINISHED, "--json", "--limit", "1"]);
    if (code !== 125 && stdout.trim() === "") return;
    await Bun.sleep(500);
  }
}

async function live(world: World, ground: Ground): Promise<boolean> {
  const jobs = new Jobs(world);
  const unfenced: Unfenced = new Map();
  await jobs.enqueue();
  await world.lease(["limit", LIMIT.name, String(LIMIT.most)]);
  const watchdog = world.start([], ["watchdog", "--every", "1s", "--grace", "1s"], world.store);
  const workers = startFleet(world, unfenced);
  const until_ms = performance.now() + world.length_ms;
  const faults = [...fleetFaults(world, workers, jobs, ground), ...ground.faults];
  await Promise.all([work(world, jobs, until_ms), disturb(world, faults, until_ms)]);
  await ground.calm();
  await Bun.sleep(5_000);
  for (const worker of workers) worker.signal("SIGCONT");
  await settle(world);
  world.ending = true;
  watchdog.kill("SIGTERM");
  for (const worker of workers) await worker.end();
  const verdict = { ...(await judge(world, jobs, unfenced)), faulty: world.faulty };
  report(world, ground, verdict);
  return Object.values(verdict).every((found) => found.length === 0);
}

function report(world: World, { kind }: Ground, verdict: Readonly<Record<string, readonly string[]>>): void {
  console.log(world.figures);
  for (const [name, found] of Object.entries(verdict)) {
    console.log(`${found.length} ${name}`);
    for (const text of found.slice(0, 20)) console.log(`  ${text}`);
  }
  const { figures } = world;
  const sum = (prefix: string) =>
    Object.entries(figures).reduce((all, [name, count]) => all + (name.startsWith(prefix) ? count : 0), 0);
  writeProof(`chaos_${kind.toLowerCase()}`, {
    order: kind === "SQLite" ? 40 : 41,
    title: `A fleet of real processes on bad days, on ${kind}`,
    command: `bun scripts/chaos.ts --minutes ${values.minutes} --store ${kind === "SQLite" ? "sqlite" : "postgres"}`,
    counts: {
      attempts: figures["attempts"] ?? 0,
      "SIGKILLs survived": figures["SIGKILL"] ?? 0,
      "signals survived": sum("SIG"),
      "faults injected": sum("fault: "),
      "commands asked": sum("commands"),
    },
    violations: Object.fromEntries(Object.entries(verdict).map(([name, found]) => [name, found.length])),
  });
}

async function groundOf(world: World, store: string): Promise<Ground> {
  if (store === "sqlite") return sqliteGround(world);
  return store === "postgres" ? postgresGround(world) : givenGround(world, store);
}

const seed = Number(values.seed ?? Date.now() % 1e9);
const world = new World(
  seed,
  resolve(values.bin ?? join(import.meta.dir, "../dist/lease")),
  Number(values.minutes) * 60_000,
);
console.log(`chaos for ${values.minutes} minutes on ${values.store}, seed ${seed}`);
const ground = await groundOf(world, values.store);
const kept = await live(world, ground);
if (!kept) await ground.keep();
await ground.end();
if (kept) rmSync(world.folder, { recursive: true, force: true });
else console.log(`kept for a look: ${world.folder}`);
// Not by itself: a connection that was cut in the middle may still be waited for.
process.exit(kept ? 0 : 1);
