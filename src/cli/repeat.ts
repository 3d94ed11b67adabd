/** Looks at the store again and again, until there is an answer or something else is over. */

import type { Store } from "../store/store.ts";

interface Pace {
  /** The net below the wake-ups. */
  every_ms: number;
  /** Between two looks at least: a busy store changes hundreds of times a second. */
  pause_ms: number;
}

/** Never more than a fifth of the time is spent on looking. */
const PAUSE_FACTOR = 4;

/** Looks when the store has changed and every now and then; answers the first code that `look` or `until` has. */
export async function repeat(
  store: Store,
  until: Promise<number>,
  { every_ms, pause_ms }: Pace,
  look: () => Promise<number | null>,
): Promise<number> {
  let changed = Promise.withResolvers<void>();
  const ring = () => changed.resolve();
  const stop = store.watch(ring);
  const timer = setInterval(ring, every_ms);
  // Listened to once: a race for each look would add to it for as long as this goes on.
  let over: number | null = null;
  let turn = Promise.withResolvers<number | null>();
  until.then((code) => turn.resolve((over = code)), turn.reject);
  const next = (step: Promise<number | null>): Promise<number | null> => {
    turn = Promise.withResolvers();
    step.then(turn.resolve, turn.reject);
    return over === null ? turn.promise : Promise.resolve(over);
  };
  try {
    for (;;) {
      changed = Promise.withResolvers<void>();
      const began_ms = performance.now();
      const found = await next(look());
      if (found !== null) return found;
      const took_ms = performance.now() - began_ms;
      const pause = Promise.withResolvers<void>();
      const pausing = setTimeout(pause.resolve, Math.max(pause_ms, PAUSE_FACTOR * took_ms));
      const code = await next(Promise.all([pause.promise, changed.promise]).then(() => null));
      clearTimeout(pausing);
      if (code !== null) return code;
    }
  } finally {
    clearInterval(timer);
    stop();
  }
}
