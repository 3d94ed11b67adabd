/** What a role has to say while it works. Who listens decides where it goes: a log, a terminal, a test. */

import type { Clock } from "./clock.ts";
import type { Job } from "./job.ts";

export type Level = "debug" | "info" | "warn" | "error";

/** What happened, for programs; a message without one is for people. */
export type EventName =
  | "worker_started"
  | "worker_stopped"
  | "acquired"
  | "started"
  | "beat"
  | "extended"
  | "extension_failed"
  | "lost"
  | "ended"
  | "stale"
  | "recovered"
  | "swept";

/** What a message is about, as fields of a log. */
export interface EventFields {
  event?: EventName;
  job?: number;
  attempt?: number;
  token?: number;
  queue?: string;
  worker?: string;
  [fact: string]: string | number | boolean | null | undefined;
}

export interface Report {
  (level: Level, message: string, about?: EventFields): void;
  /** It does nothing with what matters less than this, which then need not be put into words. Nothing is left out unless told. */
  readonly least_level?: Level;
}

const LEVELS: readonly Level[] = ["debug", "info", "warn", "error"];

/** Whether it does anything with what is said at `level`. */
export function hears({ least_level = "debug" }: Report, level: Level): boolean {
  return LEVELS.indexOf(level) >= LEVELS.indexOf(least_level);
}

/** As its holder has it, or had it. */
export function aboutJob({ id, token, queue, state }: Pick<Job, "id" | "token" | "queue" | "state">): EventFields {
  const holder = state.name === "running" ? { worker: state.holder } : {};
  return { job: id, attempt: token, token, queue, ...holder };
}

const SOON = 3;
const EVERY_MS = 30_000;

/** Trouble that lasts is told at first, the third time, and then now and then: who reads it knows by then. */
export class RepeatedTrouble {
  readonly #clock: Clock;
  #count = 0;
  #told_ms = -Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** It has happened once more: whether that is to be told. */
  tellNow(): boolean {
    const now_ms = this.#clock.mono_ms();
    this.#count += 1;
    if (this.#count !== SOON && now_ms - this.#told_ms < EVERY_MS) return false;
    this.#told_ms = now_ms;
    return true;
  }

  over(): void {
    this.#count = 0;
    this.#told_ms = -Infinity;
  }
}
