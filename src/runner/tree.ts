/**
 * The fence where there are no control groups: a job's process group, and what left it. A worker that adopts what loses
 * its parent (it is their sub-reaper) has all of them below itself, whatever they did to their group, session and
 * environment; whose they are is remembered from when they were still below their job, read from their marks, or told by
 * who ran when they were born.
 *
 * What can't be told apart, because several jobs ran and none was seen with it, goes with the first of them that is
 * stopped: nothing may run on beside the next attempt of its job. What a job that ended well has left is let go.
 */

import process from "node:process";
import { platform } from "#platform";
import type { ProcessIdentity } from "../core/records.ts";
import {
  childrenOf,
  environmentOf,
  groupMembers,
  identify,
  isProvenAlive,
  livingStat,
  uptime_cs,
} from "../platform/machine.ts";
import { killIfSame, signalGroup, signalProcess } from "../platform/signals.ts";
import type { Fence } from "./fence.ts";
import { askToEnd, groupLives } from "./group.ts";

/** Then after twice as long each time: most of what leaves does so when the program begins. */
const FIRST_LOOK_MS = 30;
const LOOK_EVERY_MS = 200;
const REAP_EVERY_MS = 1_000;

/** A file that no two attempts have in common. */
const MARK = "LEASE_OUTPUT=";

const key = ({ pid, pid_started }: ProcessIdentity) => `${pid} ${pid_started}`;

/** The trees of one worker's jobs. */
export class Trees {
  readonly #running = new Set<Tree>();
  /** What a job that ended well has left. */
  readonly #let_go = new Set<string>();
  readonly #reaping: ReturnType<typeof setInterval>;

  private constructor() {
    this.#reaping = setInterval(() => this.#reap(), REAP_EVERY_MS);
    this.#reaping.unref();
  }

  /** Null where nothing can be adopted. */
  static adopting(): Trees | null {
    return platform.processCalls()?.adopt() === true ? new Trees() : null;
  }

  fence(): Fence {
    const tree = new Tree(this);
    this.#running.add(tree);
    return tree;
  }

  end(): void {
    this.#reap();
    clearInterval(this.#reaping);
  }

  forget(tree: Tree): void {
    this.#running.delete(tree);
  }

  /** What may be another's is not let go, as that one may yet be stopped. */
  letGo(tree: Tree, left: readonly ProcessIdentity[]): void {
    const others = [...this.#running].filter((other) => other !== tree);
    const may_be_another = (one: ProcessIdentity) =>
      !tree.knows(one) && others.some(({ born }) => born <= one.pid_started);
    for (const one of left) if (!may_be_another(one)) this.#let_go.add(key(one));
  }

  /** Those without a parent of their own that are known to be this tree's. */
  ownOf(tree: Tree): ProcessIdentity[] {
    return adopted().filter((one) => this.#ownerOf(one) === tree);
  }

  /** With those of whom nobody knows whose they are, if they were born in its time. */
  suspectsOf(tree: Tree): ProcessIdentity[] {
    return adopted().filter((one) => {
      const owner = this.#ownerOf(one);
      return owner === tree || (owner === undefined && one.pid_started >= tree.born && !this.#let_go.has(key(one)));
    });
  }

  #ownerOf(one: ProcessIdentity): Tree | undefined {
    const trees = [...this.#running];
    const mark = environmentOf(one.pid)?.find((text) => text.startsWith(MARK));
    return trees.find((tree) => tree.knows(one)) ?? trees.find((tree) => tree.mark === mark);
  }

  /** Nobody else waits for what was adopted. */
  #reap(): void {
    const calls = platform.processCalls();
    for (const pid of childrenOf(process.pid)) if (!platform.children.has(pid)) calls?.reap(pid);
  }
}

/** Our own children that we did not start; what we started shares our session, or is on record. */
function adopted(): ProcessIdentity[] {
  const own_session = livingStat(process.pid)?.session;
  return childrenOf(process.pid)
    .filter((pid) => !platform.children.has(pid) && livingStat(pid)?.session !== own_session)
    .map(identify)
    .filter(isProvenAlive);
}

class Tree implements Fence {
  readonly kind = "tree";
  readonly cgroup = null;
  readonly limited = null;
  readonly #trees: Trees;
  readonly #members = new Map<string, ProcessIdentity>();
  #leader = 0;
  /** When its program was started at the earliest, as the kernel counts. */
  readonly born = uptime_cs() - 1;
  /** By which its processes are known, as long as they keep their environment. */
  mark = "";
  #timer: ReturnType<typeof setTimeout> | undefined;
  #note: (left: readonly ProcessIdentity[]) => void = () => {};
  #noted = "";

  constructor(trees: Trees) {
    this.#trees = trees;
  }

  knows(one: ProcessIdentity): boolean {
    return this.#members.has(key(one));
  }

  started(
    leader: number,
    env: Readonly<Record<string, string>>,
    note: (left: readonly ProcessIdentity[]) => void,
  ): void {
    this.#leader = leader;
    this.#note = note;
    this.mark = `${MARK}${env["LEASE_OUTPUT"]}`;
    const look = (next_ms: number) => {
      this.#timer = setTimeout(() => {
        this.#look();
        look(Math.min(LOOK_EVERY_MS, 2 * next_ms));
      }, next_ms);
      this.#timer.unref();
    };
    look(FIRST_LOOK_MS);
  }

  cpu_ms(): null {
    return null;
  }

  lives(leader: number): boolean {
    return groupLives(leader) || this.#outside(leader).length > 0;
  }

  ask(leader: number): void {
    const outside = this.#outside(leader);
    askToEnd(leader);
    for (const { pid } of outside) if (signalProcess(pid, "SIGTERM")) signalProcess(pid, "SIGCONT");
  }

  kill(leader: number): void {
    const outside = this.#outside(leader);
    signalGroup(leader, "SIGKILL");
    for (const one of outside) killIfSame(one.pid, () => isProvenAlive(one), { group: false });
  }

  letGo(): void {
    this.#trees.letGo(this, this.#outside(this.#leader));
  }

  release(): void {
    clearTimeout(this.#timer);
    this.#trees.forget(this);
  }

  survivors(leader: number): number[] {
    return [...(groupMembers(leader) ?? []), ...this.#outside(leader).map(({ pid }) => pid)];
  }

  /** Those that are not in the group, which signals reach as a whole. */
  #outside(leader: number): ProcessIdentity[] {
    this.#look();
    const suspects = this.#trees.suspectsOf(this).filter((one) => !this.knows(one));
    const below = [...descendants(suspects.map(({ pid }) => pid))].map(identify);
    return [...this.#members.values(), ...suspects, ...below].filter(
      (one) => one.pid !== leader && isProvenAlive(one) && livingStat(one.pid)?.group !== leader,
    );
  }

  /** Remembers what is below the job now, and below what it has left behind. */
  #look(): void {
    for (const [name, one] of this.#members) if (!isProvenAlive(one)) this.#members.delete(name);
    for (const one of this.#trees.ownOf(this)) this.#members.set(key(one), one);
    for (const pid of descendants([this.#leader, ...[...this.#members.values()].map((one) => one.pid)])) {
      const one = identify(pid);
      if (isProvenAlive(one)) this.#members.set(key(one), one);
    }
    // With those of whom nobody knows: whoever needs this finds a worker that is dead or frozen, and all its jobs with it.
    const suspects = this.#trees.suspectsOf(this).filter((one) => !this.knows(one));
    const left = [...this.#members.values(), ...suspects].filter(({ pid }) => livingStat(pid)?.group !== this.#leader);
    const names = left.map(key).join();
    if (names === this.#noted) return;
    this.#noted = names;
    this.#note(left);
  }
}

function descendants(roots: readonly number[]): Set<number> {
  const found = new Set<number>();
  const open = [...roots];
  for (let pid = open.pop(); pid !== undefined; pid = open.pop()) {
    for (const child of pid > 1 ? childrenOf(pid) : []) {
      if (found.has(child)) continue;
      found.add(child);
      open.push(child);
    }
  }
  return found;
}
