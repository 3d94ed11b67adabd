/** What an attempt has to say: to people in words, to programs as events with fields. */

import type { Clock } from "../core/clock.ts";
import {
  RepeatedTrouble,
  aboutJob,
  type EventFields,
  type EventName,
  type Level,
  type Report,
} from "../core/report.ts";
import type { Lease } from "../leasing/lease.ts";
import { extensionText } from "./messages.ts";

export class Voice {
  readonly #report: Report;
  readonly #lease: Lease;
  readonly #extension_trouble: RepeatedTrouble;

  constructor(report: Report, lease: Lease, clock: Clock) {
    this.#report = report;
    this.#lease = lease;
    this.#extension_trouble = new RepeatedTrouble(clock);
  }

  say(level: Level, text: string, more: EventFields = {}): void {
    const { job } = this.#lease;
    this.#report(level, `job ${job.id}: ${text}`, { ...aboutJob(job), ...more });
  }

  /** What is no news to people. */
  tell(event: EventName, more: EventFields = {}): void {
    this.say("debug", event, { event, ...more });
  }

  lost(why: string): void {
    this.say("error", `lost its lease (${why}); killing it`, { event: "lost", why });
  }

  stale(): void {
    this.say("warn", "its result came too late and is kept as a stale checkpoint", { event: "stale" });
  }

  extensionFailed(error: unknown, in_a_row: number): void {
    if (in_a_row === 1) this.#extension_trouble.over();
    const [level, text] = extensionText(error, in_a_row);
    this.say(this.#extension_trouble.tellNow() ? level : "debug", text, { event: "extension_failed" });
  }
}
