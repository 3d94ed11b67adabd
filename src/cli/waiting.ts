/**
 * For somebody who waits: looking at the store again and again, why a job does not run, and in the end the exit code that
 * its end stands for.
 */

import type { LeaseError } from "../core/errors.ts";
import { shownState, type Job, type StateName } from "../core/job.ts";
import type { Store } from "../store/store.ts";
import { signalCode } from "./signals.ts";

interface Pace {
  /** The net below the wake-ups. */
  every_ms: number;
  /** Between two looks at least: a busy store changes hundreds of times a second. */
  pause_ms: number;
}

/** Never more than a fifth of the time is spent on looking. */
const PAUSE_FACTOR = 4;

/**
 * Looks when the store has changed and every now and then; answers the first code that `look` or `until` has. Fails when the
 * store is replaced by another.
 */
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
  let replaced: LeaseError | null = null;
  let turn = Promise.withResolvers<number | null>();
  until.then((code) => turn.resolve((over = code)), turn.reject);
  const stopGuarding = store.onReplaced((error) => turn.reject((replaced = error)));
  const next = (step: Promise<number | null>): Promise<number | null> => {
    turn = Promise.withResolvers();
    step.then(turn.resolve, turn.reject);
    if (replaced !== null) turn.reject(replaced);
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
    stopGuarding();
    stop();
  }
}

const MOMENT_MS = 1_000;

interface Waiting {
  /** `job 7 is pending: no worker serves queue default`; null when there is no reason to tell. */
  text: string | null;
  /** Nobody is there to take it: without somebody's doing it waits for ever. */
  stands_still: boolean;
}

export async function whyWaiting(store: Store, job: Job): Promise<Waiting> {
  const now_ms = await store.now();
  // Most don't wait for so long, and guard never asks.
  const { around } = await import("../lookup/why_waiting.ts");
  const surroundings = await around(store, [job], now_ms);
  const reason = surroundings.reason(job, now_ms);
  const text = reason === null ? null : `job ${job.id} is ${shownState(job)}: ${reason}`;
  return { text, stands_still: surroundings.standsStill(job) };
}

/** Of a job that this process takes itself as soon as it may: no worker is waited for, only a limit or a need. */
export async function whyNotHere(store: Store, job: Job): Promise<Pick<Waiting, "text">> {
  if (job.state.name !== "pending") return whyWaiting(store, job);
  const { boundsAround } = await import("../lookup/bounds.ts");
  const reason = (await boundsAround(store, [job], [], await store.now()))(job, []);
  return { text: reason === null ? null : `job ${job.id} is pending: ${reason}` };
}

const WAITING: ReadonlySet<StateName> = new Set(["blocked", "scheduled", "pending"]);

/** After a moment, and once. The returned function ends it. */
export function tellWhyWaiting(
  store: Store,
  id: number,
  tell: (text: string) => void,
  why: (store: Store, job: Job) => Promise<Pick<Waiting, "text">> = whyWaiting,
): () => void {
  const look = async () => {
    const [job] = await store.jobs([id]);
    if (!job || !WAITING.has(job.state.name)) return;
    const { text } = await why(store, job);
    if (text !== null) tell(text);
  };
  // A store that can't be read is somebody else's to report.
  const timer = setTimeout(() => void look().catch(() => {}), MOMENT_MS);
  return () => clearTimeout(timer);
}

const NO = 1;

/** Its own, where it has one; `job` has ended. A cancelled one never counts as success, whatever it said when it was stopped. */
export async function exitCodeOf(store: Store, { id, state, result }: Job): Promise<number> {
  if (state.name === "completed") return 0;
  if (state.name !== "failed") return NO;
  if (result.cause === "signal") {
    const signal = (await store.attempts(id)).at(-1)?.end?.signal ?? null;
    if (signal !== null) return signalCode(signal);
  }
  return result.exit_code === null || result.exit_code === 0 ? NO : result.exit_code;
}
