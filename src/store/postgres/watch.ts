/**
 * Wake-ups: a NOTIFY for what others may wait for, and a connection that listens.
 *
 * A notification costs every listener a look and every commit with one a global lock, so a process sends the first at
 * once and further ones no more often than a pause allows, apart from the transactions they tell of. One that is lost
 * is made up for by whoever polls.
 */

import type { Clock, Random } from "../../core/clock.ts";
import type { Session } from "./session/session.ts";

/** Nobody waits for it to be on disk: what it tells of is, and a server that crashes tells nobody anything. */
const NOTIFY = "SELECT set_config('synchronous_commit', 'off', TRUE), pg_notify($1, $2)";

/** Between two notifications: of jobs that can be run or should stop, and of anything else. */
const PAUSE_MS = { urgent: 4, other: 200 } as const;
export type Notice = keyof typeof PAUSE_MS;

/** The first goes out at once. */
function notifier(deliver: (notice: Notice) => Promise<unknown>) {
  let waiting: Notice = "other";
  let timer: ReturnType<typeof setTimeout> | null = null;
  let timer_due_ms = 0;
  let last_ms = -Infinity;
  let sending: Promise<unknown> = Promise.resolve();
  const fire = () => {
    timer = null;
    last_ms = performance.now();
    // Whoever waits for it polls as well.
    sending = deliver(waiting).catch(() => {});
    waiting = "other";
  };
  return {
    send(notice: Notice): void {
      const now_ms = performance.now();
      if (notice === "urgent") waiting = notice;
      const due_ms = Math.max(now_ms, last_ms + PAUSE_MS[notice]);
      if (timer !== null) {
        if (timer_due_ms <= due_ms) return;
        clearTimeout(timer);
      }
      timer_due_ms = due_ms;
      if (due_ms <= now_ms) fire();
      else timer = setTimeout(fire, due_ms - now_ms);
    },
    /** Sends what waits, and resolves when it is out. */
    async flush(): Promise<void> {
      if (timer !== null) {
        clearTimeout(timer);
        fire();
      }
      await sending;
    },
  };
}

/** Names are cut off at 63 bytes. */
export function channelOf(schema: string): string {
  return `lease.${Buffer.from(schema).toString("base64url")}`.slice(0, 63);
}

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;
/** A connection on which nothing has come may be dead without anybody having said so. */
const PROBE_EVERY_MS = 15_000;

/**
 * Listens until it is told to stop, through any number of lost connections. `heard` is called with what somebody said;
 * null when something may have been missed.
 */
function listen(
  session: Session,
  channel: string,
  { clock, random }: { clock: Clock; random: Random },
  heard: (message: string | null) => void,
): () => Promise<void> {
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
  const link = session.link({ onNotify: heard, onLost: () => again() });
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
  /** Tells the others, if not at once then soon. */
  readonly send: (notice: Notice) => void;
  readonly #listen: () => () => Promise<void>;
  readonly #flush: () => Promise<void>;
  readonly #watchers = new Set<() => void>();
  #stopListening: (() => Promise<void>) | null = null;
  #later: ReturnType<typeof setTimeout> | null = null;

  constructor(session: Session, schema: string, clock: Clock, random: Random) {
    const channel = channelOf(schema);
    // Tells our own notifications from those of others.
    const own = Math.floor(random() * Number.MAX_SAFE_INTEGER).toString(36);
    const { send, flush } = notifier((notice) =>
      session.run((db) => db.query(NOTIFY, [channel, `${notice} ${own}`]), { quick: true }),
    );
    this.send = send;
    this.#flush = flush;
    this.#listen = () => listen(session, channel, { clock, random }, (message) => this.#heard(message, own));
  }

  watch(changed: () => void): () => void {
    // Each call is a watch of its own, even of the same function.
    const watcher = () => changed();
    this.#watchers.add(watcher);
    this.#stopListening ??= this.#listen();
    return () => void this.#watchers.delete(watcher);
  }

  /** What is not urgent is told at most so often, however many have something to say: each listener takes a look. */
  #heard(message: string | null, own: string): void {
    const [notice, sender] = message?.split(" ") ?? ["urgent"];
    if (sender === own) return;
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
    await Promise.all([this.#stopListening?.(), this.#flush()]);
    this.#stopListening = null;
  }
}
