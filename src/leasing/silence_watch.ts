/**
 * Where a silent job is stopped. Warns when it is silent for half of its budget, has it stopped when the budget is used
 * up or its time is over, and has it killed before a lease that could not be renewed runs out.
 *
 * It never touches the process itself: it says "stop" or "lost", and the attempt acts.
 */

import type { Clock } from "../core/clock.ts";
import { closingMargin, nextDuty, silentAt } from "../core/silence.ts";
import type { Duty } from "../core/silence.ts";
import type { Heartbeat } from "./heartbeat.ts";
import { instant, type Lease } from "./lease.ts";
import type { LeaseManager } from "./manager.ts";

export interface SilenceWatchOptions {
  lease: Lease;
  heartbeat: Heartbeat;
  manager: LeaseManager;
  clock: Clock;
  timeout_ms: number | null;
  /** What a beat adds; the lease, unless it is less. */
  extension_ms?: number;
  /** How long a forced stop may take. */
  grace_ms: number;
}

/** What the attempt is told. */
export interface SilenceEvents {
  halfSilent(): void;
  stop(cause: "silent" | "timeout"): void;
  lost(why: string): void;
}

/** Asked for on top of the grace, for the kill itself and the settle behind it. */
const STOP_SLACK_MS = 2_000;
const LONGEST_SLEEP_MS = 1_000;
/** A beat in the store that is newer than ours by this was somebody else's. */
const OTHERS_BEAT_MS = 50;

export class SilenceWatch {
  readonly #options: SilenceWatchOptions;
  readonly #events: SilenceEvents;
  readonly #timeout_at_ms: number | null;
  readonly #onBeat = () => {
    this.#warned = false;
    this.#closing_asked = false;
  };
  #warned = false;
  #closing_asked = false;
  #stopping = false;
  #asking = false;
  #looking = false;
  #over = false;
  #cancelTimer: (() => void) | null = null;

  constructor(options: SilenceWatchOptions, events: SilenceEvents) {
    this.#options = options;
    this.#events = events;
    const { clock, timeout_ms, heartbeat } = options;
    this.#timeout_at_ms = timeout_ms === null ? null : clock.mono_ms() + timeout_ms;
    heartbeat.addCallback(this.#onBeat);
    this.#arm();
  }

  /** The job has been told to end: from here on only the fence counts, and the lease must cover the stop. */
  stopping(grace_ms: number): void {
    this.#stopping = true;
    this.#cover(grace_ms);
    this.#arm();
  }

  /** How long it may be silent, counted from the last beat. */
  get budget_ms(): number {
    return silentAt(this.#budget()) - this.#options.heartbeat.last_beat_ms;
  }

  end(): void {
    this.#over = true;
    this.#cancelTimer?.();
    this.#options.heartbeat.removeCallback(this.#onBeat);
  }

  #budget() {
    const { lease, heartbeat, extension_ms = lease.lease_ms } = this.#options;
    const granted_until_ms = lease.granted_at.mono_ms + lease.lease_ms;
    return { last_beat_ms: heartbeat.last_beat_ms, lease_ms: lease.lease_ms, extension_ms, granted_until_ms };
  }

  #next(): { duty: Duty; at_ms: number } {
    const { lease, clock } = this.#options;
    const now_ms = clock.mono_ms();
    return nextDuty({
      ...this.#budget(),
      now_ms,
      deadline_ms: now_ms + lease.remaining(),
      timeout_at_ms: this.#timeout_at_ms,
      warned: this.#warned,
      closing_asked: this.#closing_asked,
      stopping: this.#stopping,
      asking: this.#asking,
    });
  }

  /**
   * Beats move duties but not the timer: when it goes off too early it is simply set again. It never sleeps for long,
   * because the clock it sleeps by stands still while the machine is suspended, and the lease runs on.
   */
  #arm(): void {
    this.#cancelTimer?.();
    if (this.#over) return;
    const delay_ms = Math.min(LONGEST_SLEEP_MS, Math.max(1, this.#next().at_ms - this.#options.clock.mono_ms()));
    this.#cancelTimer = this.#options.clock.after(delay_ms, () => {
      this.#correct();
      void this.#seeLaterEnd();
      this.#fire();
      this.#arm();
    });
  }

  /**
   * The clock was set ahead: the store is told at once what is left, before a sweep takes the lease for an old one.
   * Set back, the same: were it set ahead again before the next beat, our clocks would agree and show nothing of it.
   */
  #correct(): void {
    const { lease, clock } = this.#options;
    const set_back = lease.wasSetBack();
    if ((lease.jumped() === 0 && !set_back) || this.#stopping) return;
    const silent_in_ms = silentAt(this.#budget()) - clock.mono_ms();
    // What was asked for to close is kept.
    const left_ms = set_back ? Math.max(silent_in_ms, lease.remaining()) : silent_in_ms;
    if (left_ms > 0) this.#extend(Math.ceil(left_ms));
  }

  #fire(): void {
    const { duty, at_ms } = this.#next();
    if (at_ms > this.#options.clock.mono_ms() + 0.5) return;
    if (duty === "kill_fenced") {
      this.end();
      this.#events.lost("it could not be renewed in time");
    } else if (duty === "stop_timeout") this.#events.stop("timeout");
    else void this.#askAndDo(duty);
  }

  /** The job may have called `lease beat`, which only the store knows of. It may take its time; the fence does not wait. */
  async #askAndDo(duty: Duty): Promise<void> {
    this.#asking = true;
    const beat_ms = this.#options.heartbeat.last_beat_ms;
    await this.#seeBeatElsewhere();
    this.#asking = false;
    if (this.#over || this.#stopping || this.#options.heartbeat.last_beat_ms > beat_ms) return;
    if (duty === "warn") {
      this.#warned = true;
      this.#events.halfSilent();
    } else if (duty === "ask_closing") {
      this.#closing_asked = true;
      const { lease, grace_ms, extension_ms = lease.lease_ms } = this.#options;
      this.#extend(closingMargin(extension_ms) + grace_ms + STOP_SLACK_MS);
    } else this.#events.stop("silent");
    this.#arm();
  }

  async #seeBeatElsewhere(): Promise<void> {
    const { lease, manager, heartbeat } = this.#options;
    try {
      const [job] = await manager.store.jobs([lease.job.id]);
      if (job?.token !== lease.token || job.last_beat_at_ms === null) return;
      const age_ms = Math.max(0, (await manager.store.now()) - job.last_beat_at_ms);
      // Our own beats come back from there too, off by what the clocks differ.
      if (heartbeat.elapsed() - age_ms >= OTHERS_BEAT_MS) heartbeat.beatSeen(age_ms);
    } catch {
      // An unreadable store has no beats to tell of.
    }
  }

  /**
   * Whoever is about to keep everybody from writing prolongs all leases first. Ours would have been extended long before it
   * is half over: what is left is in the store, to be read. By a clock that we share it is as good as an answer.
   */
  async #seeLaterEnd(): Promise<void> {
    const { lease, manager, clock } = this.#options;
    if (!manager.store.shares_clock || this.#looking || lease.remaining() > lease.lease_ms / 2) return;
    if (lease.wasSetBack()) return;
    this.#looking = true;
    try {
      const [sent, { heard }] = [instant(clock), lease];
      const [job] = await manager.store.jobs([lease.job.id]);
      // What was heard meanwhile is newer: this end may be by a clock that has been set back since.
      if (this.#over || lease.heard > heard || job?.token !== lease.token || job.state.name !== "running") return;
      const { expires_at_ms } = job.state;
      const is_later = expires_at_ms > lease.expires_at_ms && lease.remaining() > 0 && lease.jumped() === 0;
      if (is_later && !lease.wasSetBack()) lease.extended(sent, expires_at_ms - sent.wall_ms, expires_at_ms);
    } catch {
      // An unreadable store has nothing to tell.
    } finally {
      this.#looking = false;
    }
    this.#arm();
  }

  #cover(grace_ms: number): void {
    if (this.#options.lease.remaining() < grace_ms + STOP_SLACK_MS) this.#extend(grace_ms + STOP_SLACK_MS);
  }

  #extend(expires_in_ms: number): void {
    const { lease, manager, heartbeat } = this.#options;
    // A beat before it that is still under way may get more, and its answer be believed while this one's is not there yet.
    const stopping = { expires_in_ms, beat_age_ms: null, beats: heartbeat.beats, at_least: true };
    manager.renew(lease, stopping).then(
      (answer) => {
        if (answer.status !== "extended" && !this.#over) this.#events.lost(answer.status);
      },
      // Without it the fence stands: the job is killed before the lease runs out.
      () => {},
    );
  }
}
