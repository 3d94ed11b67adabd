/** The smallest part of a life that still breaks the same invariant: first without trouble, then with ever fewer steps. */

import { live, type Life, type LifeOptions } from "./simulate.ts";

/** `(14)` of an objection; of any other error its first words. */
export function kindOf(error: Error): string {
  return /^\(\d+\)/.exec(error.message)?.[0] ?? error.message.slice(0, 40);
}

export interface Shrunk {
  life: Life;
  options: LifeOptions;
  /** How many lives it took. */
  tried: number;
}

export async function shrink(seed: number, options: LifeOptions = {}): Promise<Shrunk> {
  let tried = 1;
  let life = await live(seed, options);
  if (life.broken === null) return { life, options, tried };
  const kind = kindOf(life.broken);
  let best: LifeOptions = options;
  const attempt = async (candidate: LifeOptions): Promise<boolean> => {
    tried += 1;
    const other = await live(seed, candidate);
    if (other.broken === null || kindOf(other.broken) !== kind) return false;
    life = other;
    best = candidate;
    return true;
  };
  if (best.calm !== true) await attempt({ ...best, calm: true });
  let steps = [...life.steps.keys()];
  for (let size = Math.ceil(steps.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let from = 0; from < steps.length;) {
      const fewer = steps.toSpliced(from, size);
      if (await attempt({ ...best, only: fewer })) steps = fewer;
      else from += size;
    }
  }
  return { life, options: best, tried };
}
