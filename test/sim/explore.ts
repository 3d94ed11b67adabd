/** Everything that can happen in a small world up to a depth, each state looked at once; what breaks comes with its way there. */

import type { SqlStatement } from "../../src/platform/platform.ts";
import { Objection } from "./objection.ts";
import { SmallWorld, type Local, type SmallWorldOptions } from "./small_world.ts";

export const WORLDS: readonly SmallWorldOptions[] = [
  { name: "one job", jobs: [{ settings: { retries: 1 } }], most: { cancel: 1, retry: 1, time: 2, crash: 1 } },
  {
    name: "one job that is never tried again",
    jobs: [{ settings: { retries: 0, on_failed: null } }],
    most: { cancel: 1, retry: 2, time: 2, crash: 1 },
  },
  {
    name: "two jobs, the second after the first",
    jobs: [{ settings: { retries: 0 } }, { after: [1], settings: { retries: 0 } }],
    most: { cancel: 1, retry: 1, time: 1, crash: 1 },
  },
  {
    name: "two jobs of a limit of one",
    jobs: [
      { limits: ["x"], settings: { retries: 0 } },
      { limits: ["x"], settings: { retries: 0 } },
    ],
    limit: 1,
    most: { cancel: 1, retry: 1, time: 1, crash: 1 },
  },
];

export interface Explored {
  name: string;
  depth: number;
  /** That differ. */
  states: number;
  steps: number;
  /** What is broken, with the steps that lead there. */
  violation: string | null;
}

/** To a depth, or to the deepest that `limit_ms` allows: then `depth` says how deep that was. */
export function explore(
  options: SmallWorldOptions,
  { depth, limit_ms }: { depth: number; limit_ms?: number },
): Explored {
  let best: Explored | null = null;
  const deadline_ms = performance.now() + (limit_ms ?? Infinity);
  for (let deep = limit_ms === undefined ? depth : Math.min(4, depth); deep <= depth; deep++) {
    const search = new Search(options, deadline_ms);
    const found = search.run(deep);
    if (found === null) break;
    best = found;
    if (found.violation !== null) break;
  }
  return best ?? { name: options.name, depth: 0, states: 0, steps: 0, violation: null };
}

class OutOfTime extends Error {}

class Search {
  readonly #world: SmallWorld;
  readonly #deadline_ms: number;
  /** How many steps were tried from a state. */
  readonly #seen = new Map<number | bigint, number>();
  readonly #way: string[] = [];
  readonly #savepoints: [SqlStatement, SqlStatement, SqlStatement][] = [];
  #steps = 0;

  constructor(options: SmallWorldOptions, deadline_ms: number) {
    this.#world = new SmallWorld(options);
    this.#deadline_ms = deadline_ms;
  }

  /** Null: the time was not enough. */
  run(depth: number): Explored | null {
    const { name } = this.#world.options;
    let violation: string | null = null;
    try {
      this.#from(this.#world.begin, depth);
    } catch (error) {
      if (error instanceof OutOfTime) return null;
      if (!(error instanceof Objection)) throw error;
      violation = `${error.message}\n  ${this.#way.join("\n  ")}`;
    } finally {
      this.#world.database.close();
    }
    return { name, depth, states: this.#seen.size, steps: this.#steps, violation };
  }

  #savepoint(depth: number) {
    const { database } = this.#world;
    this.#savepoints[depth] ??= (["SAVEPOINT", "ROLLBACK TO", "RELEASE"] as const).map((word) =>
      database.prepare(`${word} step_${depth}`),
    ) as [SqlStatement, SqlStatement, SqlStatement];
    return this.#savepoints[depth];
  }

  #from(local: Local, left: number): void {
    const state = Bun.hash(this.#world.fingerprint(local));
    const tried = this.#seen.get(state) ?? -1;
    if (tried >= left) return;
    this.#seen.set(state, left);
    if (tried < 0) this.#world.checkCounts();
    if (left === 0) return;
    if (performance.now() > this.#deadline_ms) throw new OutOfTime();
    const [begin, back, end] = this.#savepoint(left);
    for (const { name, take } of this.#world.steps(local)) {
      this.#steps += 1;
      this.#way.push(name);
      begin.run();
      this.#from(take(local), left - 1);
      back.run();
      end.run();
      this.#way.pop();
    }
  }
}
