/**
 * What a service manager is told about a worker, as sd_notify(3) has it: that it is ready, what it is doing, that it
 * stops, and, for as long as its event loop turns, that it is not frozen. A worker that nobody started as a service, or
 * a manager that does not listen, costs nothing and changes nothing.
 *
 * That the loop turns is all that is proven, and on purpose: a worker that waits for its store, or has more to do than it
 * can, would not be helped by a restart.
 */

import { platform } from "#platform";
import process from "node:process";
import type { SendDatagram } from "../platform/platform.ts";
import { visible } from "../view/text.ts";
import type { PoolStatistics } from "../worker/pool_statistics.ts";

/** What is for this process alone: a job that had them could speak in its worker's name. */
const VARIABLES = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] as const;
type Variables = Partial<Record<(typeof VARIABLES)[number], string>>;

/** Two of three messages may be late before it is taken for frozen. */
const PER_DEADLINE = 3;
const STATUS_EVERY_MS = 5_000;

interface Notified {
  statistics(): PoolStatistics;
}

export class ServiceNotice {
  readonly #send: SendDatagram;
  readonly #served: string;
  readonly #watchdog_ms: number | null;
  #timers: ReturnType<typeof setInterval>[] = [];
  #said = "";

  private constructor(send: SendDatagram, served: string, watchdog_ms: number | null) {
    this.#send = send;
    this.#served = served;
    this.#watchdog_ms = watchdog_ms;
  }

  /** Null: nobody listens. From then on the variables that say where are gone. */
  static async open(queues: readonly string[] | null): Promise<ServiceNotice | null> {
    const given = takeVariables();
    const send = given.NOTIFY_SOCKET ? await platform.datagrams(given.NOTIFY_SOCKET) : null;
    const served = queues === null ? "serves all queues" : `serves ${queues.join(", ")}`;
    return send === null ? null : new ServiceNotice(send, visible(served), watchdogTime(given));
  }

  /** From now on it works. */
  ready(pool: Notified): void {
    // The one message that the manager waits for.
    this.#send(`READY=1\nSTATUS=${this.#status(pool)}`, { wait: true });
    this.#every(STATUS_EVERY_MS, () => this.#tellStatus(pool));
    if (this.#watchdog_ms === null) return;
    this.#every(this.#watchdog_ms / PER_DEADLINE, () => void this.#send("WATCHDOG=1", { wait: false }));
  }

  stopping(pool: Notified): void {
    this.#send(`STOPPING=1\nSTATUS=${this.#status(pool)}`, { wait: false });
  }

  end(): void {
    for (const timer of this.#timers) clearInterval(timer);
  }

  #every(ms: number, tell: () => void): void {
    this.#timers.push(setInterval(tell, ms));
  }

  #tellStatus(pool: Notified): void {
    const [before, now] = [this.#said, this.#status(pool)];
    if (now !== before) this.#send(`STATUS=${now}`, { wait: false });
  }

  #status(pool: Notified): string {
    const { state, slots, completed, failed } = pool.statistics();
    const running = slots.processing + slots.draining;
    const what = state === "starting" || state === "working" ? this.#served : "stops";
    this.#said = `${what}: ${running} running, ${completed} done, ${failed} failed`;
    return this.#said;
  }
}

function takeVariables(): Variables {
  const taken: Variables = {};
  for (const name of VARIABLES) {
    const value = process.env[name];
    if (value === undefined) continue;
    taken[name] = value;
    delete process.env[name];
  }
  return taken;
}

/** Within which it wants to hear of us; null: it does not, or means another process. */
function watchdogTime({ WATCHDOG_USEC: usec, WATCHDOG_PID: pid }: Variables): number | null {
  if (pid !== undefined && Number(pid) !== process.pid) return null;
  const ms = Number(usec ?? "") / 1_000;
  return Number.isFinite(ms) && ms > 0 ? ms : null;
}
