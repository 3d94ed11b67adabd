/** Looks at the store again and again, until there is an answer or somebody ends it. */

import { constants } from "node:os";
import process from "node:process";
import type { Store } from "../store/store.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** The exit code of whoever a signal ended. */
export function signalCode(signal: string): number {
  const numbers: Readonly<Record<string, number>> = constants.signals;
  return 128 + (numbers[signal] ?? 0);
}

/** Resolves with an exit code when a signal asks us to end; `stop` no longer listens. */
export class Ending {
  readonly #asked = Promise.withResolvers<number>();
  readonly #listeners = SIGNALS.map((signal) => {
    const listener = () => this.end(signalCode(signal));
    process.on(signal, listener);
    return { signal, listener };
  });

  get code(): Promise<number> {
    return this.#asked.promise;
  }

  end(code: number): void {
    this.#asked.resolve(code);
  }

  stop(): void {
    for (const { signal, listener } of this.#listeners) process.off(signal, listener);
  }
}

interface Pace {
  /** The net below the wake-ups. */
  every_ms: number;
  /** Between two looks at least: a busy store changes hundreds of times a second. */
  pause_ms: number;
}

/** Never more than a fifth of the time is spent on looking. */
const PAUSE_FACTOR = 4;

/** Looks when the store has changed and every now and then; answers the first code that `look` or `ending` has. */
export async function repeat(
  store: Store,
  ending: Ending,
  { every_ms, pause_ms }: Pace,
  look: () => Promise<number | null>,
): Promise<number> {
  let changed = Promise.withResolvers<void>();
  const ring = () => changed.resolve();
  const stop = store.watch(ring);
  const timer = setInterval(ring, every_ms);
  try {
    for (;;) {
      changed = Promise.withResolvers<void>();
      const began_ms = performance.now();
      const found = await look();
      if (found !== null) return found;
      const took_ms = performance.now() - began_ms;
      const pause = Promise.withResolvers<void>();
      const pausing = setTimeout(pause.resolve, Math.max(pause_ms, PAUSE_FACTOR * took_ms));
      const code = await Promise.race([ending.code, Promise.all([pause.promise, changed.promise])]);
      clearTimeout(pausing);
      if (typeof code === "number") return code;
    }
  } finally {
    clearInterval(timer);
    stop();
  }
}
