/**
 * Wake-ups: a NOTIFY for what others may wait for, and a connection that listens.
 *
 * A notification costs every listener a look and every commit with one a global lock, so a process sends the first at
 * once and further ones no more often than a pause allows, apart from the transactions they tell of. One that is lost
 * is made up for by whoever polls.
 */

import type { Clock, Random } from "../../core/clock.ts";
import type { Session } from "./session/session.ts";

const NOTIFY = "SELECT pg_notify($1, $2)";

/** Between two notifications: of jobs that can be run or should stop, and of anything else. */
const PAUSE_MS = { urgent: 4, other: 200 } as const;
export type Notice = keyof typeof PAUSE_MS;

class Notifier {
  readonly #deliver: (notice: Notice) => Promise<unknown>;
  #notice: Notice = "other";
  #timer: ReturnType<typeof setTimeout> | null = null;
  #due_ms = 0;
  #last_ms = -Infinity;
  #sending: Promise<unknown> = Promise.resolve();

  constructor(deliver: (notice: Notice) => Promise<unknown>) {
    this.#deliver = deliver;
  }

  send(notice: Notice): void {
    const now_ms = performance.now();
    if (notice === "urgent") this.#notice = notice;
    const due_ms = Math.max(now_ms, this.#last_ms + PAUSE_MS[notice]);
    if (this.#timer !== null) {
      if (this.#due_ms <= due_ms) return;
      clearTimeout(this.#timer);
    }
    this.#due_ms = due_ms;
    if (due_ms <= now_ms) this.#fire();
    else this.#timer = setTimeout(() => this.#fire(), due_ms - now_ms);
  }

  /** Sends what waits, and resolves when it is out. */
  async flush(): Promise<void> {
    if (this.#timer !== null) {
      clearTimeout(this.#timer);
      this.#fire();
    }
    await this.#sending;
  }

  #fire(): void {
    this.#timer = null;
    this.#last_ms = performance.now();
    // Whoever waits for it polls as well.
    this.#sending = this.#deliver(this.#notice).catch(() => {});
    this.#notice = "other";
  }
}

/** Names are cut off at 63 bytes. */
function channelOf(schema: string): string {
  return `lease.${Buffer.from(schema).toString("base64url")}`.slice(0, 63);
}

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;
/** A connection on which nothing has come may be dead without anybody having said so. */
const PROBE_EVERY_MS = 15_000;

interface ListenOptions {
  session: Session;
  channel: string;
  clock: Clock;
  random: Random;
  /** Called with what somebody said; null when something may have been missed. */
  heard: (message: string | null) => void;
}

/** Listens until it is told to stop, through any number of lost connections. */
function listen({ session, channel, clock, random, heard }: ListenOptions): () => Promise<void> {
  let stopped = false;
  let pause_ms = FIRST_PAUSE_MS;
  let cancelTimer = () => {};
  const later = (delay_ms: number, next: () => void) => {
    cancelTimer();
    if (!stopped) cancelTimer = clock.after(delay_ms, next);
  };
  const again = () => {
    later(pause_ms * (0.5 + random()), begin);
    pause_ms = Math.min(2 * pause_ms, LONGEST_PAUSE_MS);
  };
  const link = session.link({ onNotify: (message) => heard(message), onLost: () => again() });
  const begin = () => {
    link.listen(channel).then(
      () => {
        pause_ms = FIRST_PAUSE_MS;
        later(PROBE_EVERY_MS, probe);
        // What happened before is not told.
        if (!stopped) heard(null);
      },
      () => again(),
    );
  };
  const probe = () => {
    link.query("SELECT 1").then(
      () => later(PROBE_EVERY_MS, probe),
      () => again(),
    );
  };
  begin();
  return async () => {
    stopped = true;
    cancelTimer();
    await link.end();
  };
}

/** What this process tells the others, and what it hears of them. */
export class Notifications {
  readonly #session: Session;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #channel: string;
  /** Tells our own notifications from those of others. */
  readonly #sender: string;
  readonly #notifier: Notifier;
  readonly #watchers = new Set<() => void>();
  #stopListening: (() => Promise<void>) | null = null;
  #later: ReturnType<typeof setTimeout> | null = null;

  constructor(session: Session, schema: string, clock: Clock, random: Random) {
    this.#session = session;
    this.#clock = clock;
    this.#random = random;
    this.#channel = channelOf(schema);
    this.#sender = Math.floor(random() * Number.MAX_SAFE_INTEGER).toString(36);
    this.#notifier = new Notifier((notice) =>
      session.run((db) => db.query(NOTIFY, [this.#channel, `${notice} ${this.#sender}`]), { quick: true }),
    );
  }

  send(notice: Notice): void {
    this.#notifier.send(notice);
  }

  watch(changed: () => void): () => void {
    // Each call is a watch of its own, even of the same function.
    const watcher = () => changed();
    this.#watchers.add(watcher);
    this.#stopListening ??= listen({
      session: this.#session,
      channel: this.#channel,
      clock: this.#clock,
      random: this.#random,
      heard: (message) => this.#heard(message),
    });
    return () => void this.#watchers.delete(watcher);
  }

  /** What is not urgent is told at most so often, however many have something to say: each listener takes a look. */
  #heard(message: string | null): void {
    const [notice, sender] = message?.split(" ") ?? ["urgent"];
    if (sender === this.#sender) return;
    if (notice === "urgent") this.#tell();
    else this.#later ??= setTimeout(() => this.#tell(), PAUSE_MS.other);
  }

  #tell(): void {
    if (this.#later !== null) clearTimeout(this.#later);
    this.#later = null;
    // A set that changes meanwhile is walked as it is by then: who has stopped is not called.
    for (const watching of this.#watchers) watching();
  }

  async close(): Promise<void> {
    this.#watchers.clear();
    if (this.#later !== null) clearTimeout(this.#later);
    await Promise.all([this.#stopListening?.(), this.#notifier.flush()]);
    this.#stopListening = null;
  }
}
