/** The jobs of a run, who tell the ledger what they really do, and everything that people do to jobs. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { World } from "./world.ts";

const note = (ledger: string, what: string, job = "$LEASE_JOB_ID", token = "$LEASE_TOKEN") =>
  `echo "${what} ${job} ${token} $(date +%s%N)" >> ${ledger}`;

/** Lives on for three seconds at most: a job that ends well may leave it. */
function escapes(ledger: string): string[] {
  const escapee = `for i in $(seq 60); do ${note(ledger, "alive", "$1", "$2")}; sleep 0.05; done`;
  const words = "sh $LEASE_JOB_ID $LEASE_TOKEN >/dev/null 2>&1";
  return [
    `env -i /usr/bin/setsid /bin/sh -c '${escapee}' ${words} &`,
    `(env -i /usr/bin/setsid /bin/sh -c '${escapee}' ${words} </dev/null &)`,
    `setsid sh -c '${escapee}' ${words} &`,
  ];
}

const FLAGS = ["--lease", "3s", "--retries", "1000", "--backoff", "fixed:200ms"];
const KILLS: readonly NodeJS.Signals[] = ["SIGKILL", "SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"];
export const LIMIT = { name: "narrow", most: 2 };

export interface Pair {
  parent: number;
  child: number;
  task: string;
}

export class Jobs {
  readonly acknowledged = new Set<number>();
  /** Two of which the second waits for the first. */
  readonly pairs: Pair[] = [];
  /** Those that count for the limit. */
  readonly limited = new Set<number>();
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  #script(): string {
    const { chance, ledger } = this.#world;
    const to = (what: string) => note(ledger, what);
    const escape = chance.of(0.3) ? `${chance.pick(escapes(ledger))}\n` : "";
    // What it had noted when it began must be what the last attempt that noted anything had.
    const checkpoint = chance.of(0.25) ? `lease checkpoint "$LEASE_TOKEN" && ${to("mark")};` : "";
    const guarded = chance.of(0.1) ? `lease beat --progress 50; lease guard -- true;` : "";
    const beats = `for i in $(seq ${chance.between(0, 29)}); do echo; ${to("alive")}; sleep 0.05; done`;
    const fails = chance.of(0.2) ? "[ $(($(date +%N | tail -c 2) % 2)) = 0 ] && exit 3; " : "";
    const end = escape === "" ? to("end") : `[ $LEASE_TOKEN -ge 3 ] && { ${to("end")}; exit 0; }; exit 4`;
    return `${to("begin${LEASE_CHECKPOINT:+=$LEASE_CHECKPOINT}${LEASE_NEED_GPU:+@$LEASE_NEED_GPU}")}; ${escape}${checkpoint}${guarded}${beats}; ${fails}${end}`;
  }

  async enqueue(...words: string[]): Promise<number | null> {
    const { chance } = this.#world;
    const kill = chance.of(0.1) ? chance.pick(KILLS) : null;
    const { stdout } = await this.#world.lease(
      ["enqueue", ...FLAGS, ...words, "-c", this.#script()],
      kill === null ? {} : { kill },
    );
    const id = Number(stdout);
    if (!(id > 0)) return null;
    this.acknowledged.add(id);
    if (words.includes("--limit")) this.limited.add(id);
    return id;
  }

  async enqueueSome(): Promise<void> {
    const kinds = { plain: 10, pair: 6, limited: 3, needing: 3, keyed: 2, bulk: 1, array: 1, run: 2 };
    switch (this.#world.chance.weighted(kinds)) {
      case "plain":
        return void (await this.enqueue());
      case "pair":
        return this.#enqueuePair();
      case "limited":
        return void (await this.enqueue("--limit", LIMIT.name));
      case "needing":
        return void (await this.enqueue("--need", "gpu"));
      case "keyed":
        return void (await this.enqueue("--key", `key-${this.#world.chance.between(0, 5)}`));
      case "array":
        return this.#note(await this.#world.lease(["enqueue", "--array", "1-4", ...FLAGS, "-c", this.#script()]));
      case "bulk":
        return this.#bulk();
      case "run":
        return void (await this.#world.lease(["run", ...FLAGS, "-c", this.#script()], this.#mayKill(0.5)));
    }
  }

  /** Lists of ids: `7`, `9-12`. */
  #note({ stdout }: { stdout: string }): void {
    for (const [, from, to = from] of stdout.matchAll(/(\d+)(?:-(\d+))?/g)) {
      for (let id = Number(from); id <= Number(to); id++) this.acknowledged.add(id);
    }
  }

  async #bulk(): Promise<void> {
    const path = join(this.#world.folder, "bulk.jsonl");
    const lines = Array.from({ length: 5 }, () => JSON.stringify({ argv: ["sh", "-c", this.#script()] }));
    writeFileSync(path, `${lines.join("\n")}\n`);
    this.#note(await this.#world.lease(["enqueue", ...FLAGS, "--from", path], this.#mayKill(0.3)));
  }

  async #enqueuePair(): Promise<void> {
    const task = `pair-${this.pairs.length}`;
    const parent = await this.enqueue("--task", task);
    const child = parent === null ? null : await this.enqueue("--task", task, "--after", String(parent));
    if (parent !== null && child !== null) this.pairs.push({ parent, child, task });
  }

  #mayKill(probability: number): { kill?: NodeJS.Signals } {
    const { chance } = this.#world;
    return chance.of(probability) ? { kill: chance.pick(KILLS) } : {};
  }

  async retrySome(): Promise<void> {
    if (this.pairs.length === 0) return;
    const { task, child } = this.#world.chance.pick(this.pairs);
    // A pair that has ended, whole: a parent that runs again beside its child would be a person's mistake, not ours.
    const { stdout } = await this.#world.lease(["inspect", String(child), "--json"]);
    if (!/"state":"(?:completed|failed|cancelled)"/.test(stdout)) return;
    await this.#world.lease(["retry", "--task", task, "--status", "completed,failed,cancelled"], this.#mayKill(0.1));
    this.#world.count("retries of a parent with its child");
  }

  async cancelSome(): Promise<void> {
    if (this.acknowledged.size === 0) return;
    await this.#world.lease(["cancel", this.#any()], this.#mayKill(0.1));
    this.#world.count("cancels");
  }

  #any(): string {
    return String(this.#world.chance.pick([...this.acknowledged]));
  }

  /** Everything else that people ask, any of it cut short at times. */
  async askSomething(): Promise<void> {
    if (this.acknowledged.size === 0) return;
    const { chance, folder } = this.#world;
    const id = this.#any();
    const copy = join(folder, `copy-${chance.between(0, 1e9)}.db`);
    const words = chance.pick([
      ["inspect"],
      ["inspect", "--json"],
      ["inspect", id],
      ["inspect", id, "--json"],
      ["inspect", "jobs", "--sort", "attempts", "--limit", "50"],
      ["inspect", "queues"],
      ["inspect", "workers", "--json"],
      ["inspect", "leases"],
      ["inspect", "checkpoints"],
      ["logs", id, "--timestamps"],
      ["logs", id, "-n", "3", "--json"],
      ["edit", id, "--priority", String(chance.between(-3, 3))],
      ["edit", id, "--delay", "300ms"],
      ["pause", "default"],
      ["resume", "default"],
      ["limit", LIMIT.name, String(LIMIT.most)],
      ["limit", "--json"],
      ["schedule", "tick", "--every", "2s", ...FLAGS, "--", "true"],
      ["schedule", "tick", "--now"],
      ["schedule", "--json"],
      ["prune", "--older-than", "1h", "--yes"],
      ["metrics"],
      ["doctor"],
      ["doctor", "--audit", "--json"],
      ["copy", "--to", copy, "--force"],
      ["watchdog", "--once", "--json"],
      ["worker", "--once", "-q", "nobody"],
      ["completions", "bash"],
      ["version"],
    ]);
    const { code, stdout } = await this.#world.lease(words, this.#mayKill(0.2));
    // A queue is not left paused.
    if (words[0] === "pause") await this.#world.lease(["resume", "default"]);
    if (words.includes("--audit") && code === 1)
      this.#world.faulty.push(`an audit in between: ${stdout.slice(0, 800)}`);
  }
}
