/** What an attempt has to say: to people in words, to programs as events with fields. */

import type { Clock } from "../core/clock.ts";
import {
  RepeatedTrouble,
  aboutJob,
  hears,
  type EventFields,
  type EventName,
  type Level,
  type Report,
} from "../core/report.ts";
import type { Lease } from "../leasing/lease.ts";
import { extensionText } from "./messages.ts";

export class Voice {
  readonly #report: Report;
  readonly #clock: Clock;
  readonly #tells: boolean;
  readonly #lease: Lease;
  #extension_trouble: RepeatedTrouble | null = null;

  constructor(report: Report, lease: Lease, clock: Clock) {
    this.#report = report;
    this.#lease = lease;
    this.#clock = clock;
    this.#tells = hears(report, "debug");
  }

  say(level: Level, text: string, more: EventFields = {}): void {
    const { job } = this.#lease;
    this.#report(level, `job ${job.id}: ${text}`, { ...aboutJob(job), ...more });
  }

  /** What is no news to people. */
  tell(event: EventName, more: EventFields = {}): void {
    if (this.#tells) this.say("debug", event, { event, ...more });
  }

  lost(why: string): void {
    this.say("error", `lost its lease (${why}); killing it`, { event: "lost", why });
  }

  stale(): void {
    this.say("warn", "its result came too late and is kept as a stale checkpoint", { event: "stale" });
  }

  extensionFailed(error: unknown, in_a_row: number): void {
    const trouble = (this.#extension_trouble ??= new RepeatedTrouble(this.#clock));
    if (in_a_row === 1) trouble.over();
    const [level, text] = extensionText(error, in_a_row);
    this.say(trouble.tellNow() ? level : "debug", text, { event: "extension_failed" });
  }
}
