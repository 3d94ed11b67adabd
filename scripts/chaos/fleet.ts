/** Workers that are started again whenever they have ended, where a worker can be: in control groups, without, contained. */

import process from "node:process";
import { readOrEmpty, works, type World } from "./world.ts";

const WITHOUT_CGROUPS = ["unshare", "--mount", "sh", "-c", 'umount -a -t cgroup2 && exec "$@"', "sh"];
const CONTAINED = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
const PLACES: readonly (readonly string[])[] = [[], [], WITHOUT_CGROUPS, CONTAINED];

const WORDS = "worker -j 3 --poll 200ms --drain 1s --grace 500ms --have gpu=0,1".split(" ");

/** Workers whose fence is the tree of processes that they adopt, by pid, with the times at which they got a signal. */
export type Unfenced = Map<number, number[]>;

export class Worker {
  readonly #world: World;
  readonly #before: readonly string[];
  readonly #unfenced: Unfenced;
  readonly #way: string;
  #child: Bun.Subprocess;
  stopped = false;

  constructor(world: World, before: readonly string[], unfenced: Unfenced, way: string) {
    this.#world = world;
    this.#way = way;
    this.#before = before;
    this.#unfenced = unfenced;
    this.#child = this.#start();
  }

  #start(): Bun.Subprocess {
    const child = this.#world.start(this.#before, WORDS, this.#way);
    this.#world.count("workers started");
    if (this.#before === WITHOUT_CGROUPS) this.#unfenced.set(child.pid, []);
    void child.exited.then(async () => {
      this.stopped = false;
      // One that can't reach its store ends at once: it is not worth a whole processor to try again.
      await Bun.sleep(200);
      if (!this.#world.ending) this.#child = this.#start();
    });
    return child;
  }

  /** The worker itself, not what put it into its container. */
  get pid(): number {
    const { pid } = this.#child;
    return this.#before === CONTAINED ? (childrenOf(pid)[0] ?? pid) : pid;
  }

  signal(name: NodeJS.Signals): void {
    this.#unfenced.get(this.pid)?.push(Date.now());
    signal(this.#world, this.pid, name);
  }

  /** One of its jobs, or its enforcer; who is stopped goes on after a while. */
  async signalChild(name: NodeJS.Signals): Promise<void> {
    const children = childrenOf(this.pid);
    if (children.length === 0) return;
    const pid = this.#world.chance.pick(children);
    signal(this.#world, pid, name, "to a child");
    if (name !== "SIGSTOP") return;
    await Bun.sleep(this.#world.chance.next() * 5_000);
    signal(this.#world, pid, "SIGCONT", "to a child");
  }

  async freeze(): Promise<void> {
    if (this.stopped) return;
    this.stopped = true;
    this.signal("SIGSTOP");
    await Bun.sleep(this.#world.chance.next() * 5_000);
    this.signal("SIGCONT");
    this.stopped = false;
  }

  async end(): Promise<void> {
    this.signal("SIGCONT");
    this.signal("SIGKILL");
    this.#child.kill("SIGKILL");
    await this.#child.exited;
  }
}

function childrenOf(pid: number): number[] {
  const text = readOrEmpty(`/proc/${pid}/task/${pid}/children`).trim();
  return text === "" ? [] : text.split(" ").map(Number);
}

export function signal(world: World, pid: number, name: NodeJS.Signals, whom = ""): void {
  try {
    process.kill(pid, name);
    if (!world.ending) world.count(`${name} ${whom}`.trim());
  } catch {
    // It has just ended.
  }
}

export function startFleet(world: World, unfenced: Unfenced): Worker[] {
  const possible = PLACES.filter((words) => words.length === 0 || works(words));
  if (possible.length < PLACES.length)
    console.warn("SKIPPED: workers in containers and without cgroups, which take root");
  // Half of them by each way to the store.
  return possible.map((before, at) => new Worker(world, before, unfenced, world.ways.at(-(at % 2)) ?? world.store));
}
