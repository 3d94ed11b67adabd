/** What is asked of a process from outside, in one place: listening to signals, and the exit codes that they stand for. */

import { constants } from "node:os";
import process from "node:process";

/** Calls `heard` instead of what such a signal does by itself, until the returned function is called. */
export function onSignals<S extends NodeJS.Signals>(signals: readonly S[], heard: (signal: S) => void): () => void {
  const listeners = signals.map((signal) => {
    const listener = () => heard(signal);
    process.on(signal, listener);
    return { signal, listener };
  });
  return () => {
    for (const { signal, listener } of listeners) process.off(signal, listener);
  };
}

/** The exit code of whoever a signal ended. */
export function signalCode(signal: string): number {
  const numbers: Readonly<Record<string, number>> = constants.signals;
  return 128 + (numbers[signal] ?? 0);
}

/** Somebody wants a command to end that would go on for ever: by a signal, or whoever calls `end`. */
export class ExitRequest {
  readonly #asked = Promise.withResolvers<number>();
  /** The exit code, once it is asked for. */
  readonly code = this.#asked.promise;
  readonly end = this.#asked.resolve;
  /** No longer listens. */
  readonly release = onSignals(["SIGINT", "SIGTERM", "SIGHUP"], (signal) => this.end(signalCode(signal)));
}
