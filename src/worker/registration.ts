/**
 * Which workers there are. Each keeps its own record fresh, within a second where something has changed; a sweep marks
 * the ones it finds dead.
 */

import { checkName } from "../core/check_job.ts";
import { every, JUMP_TRUST_MS } from "../core/clock.ts";
import type { Clock, MachineTime, Random } from "../core/clock.ts";
import type { WorkerRecord } from "../core/records.ts";
import type { Resources } from "../core/resources.ts";
import { host, machineTime, ownIdentity } from "../platform/machine.ts";
import type { Store } from "../store/store.ts";

export interface RegistrationOptions {
  store: Store;
  clock: Clock;
  random: Random;
  name: string | null;
  version: string;
  queues: readonly string[] | null;
  task: string | null;
  commands_only: boolean;
  have?: Resources;
  activity: () => Pick<WorkerRecord, "slots" | "draining" | "completed" | "failed">;
  /** The machine's own, unless a test has another. */
  machine_time?: () => MachineTime;
}

const LOOK_EVERY_MS = 1_000;
/**
 * At least once in forty seconds, and after a minute it counts as missing. Each sign of life is a commit that wakes all the
 * others, so those of one machine give theirs in the same moment; those of another one in another.
 */
const SIGN_EVERY_MS = 25_000;
const SIGN_PHASE_MS = [...host].reduce((sum, letter) => (31 * sum + letter.charCodeAt(0)) % SIGN_EVERY_MS, 0);

export class Registration {
  readonly id: string;
  #store_id = "";
  readonly #options: RegistrationOptions;
  #started_at_ms: number | null = null;
  readonly #process = ownIdentity();
  #cancelLooks = () => {};
  #cancelSign = () => {};
  #saved = { activity: "", mono_ms: 0 };
  /** The end of the last write. */
  #written: Promise<void> = Promise.resolve();

  constructor(options: RegistrationOptions) {
    this.#options = options;
    if (options.name !== null) checkName("worker name", options.name);
    // Keeps two workers of one process, or of a reused pid, apart.
    const nonce = Math.floor(options.random() * 36 ** 6);
    this.id = `${host}.${this.#process.pid}.${nonce.toString(36).padStart(6, "0")}`;
  }

  /** Known once it is registered. */
  get store_id(): string {
    return this.#store_id;
  }

  async register(): Promise<void> {
    await this.#save(null);
    this.#store_id = await this.#options.store.storeId();
    // From here on a jump of the clock can be told, also by a sweep that is the first on this store.
    const { store, machine_time = machineTime } = this.#options;
    await store.noticeClockJump(machine_time(), 2 * JUMP_TRUST_MS);
    this.#cancelLooks = every(this.#options.clock, LOOK_EVERY_MS, () => this.#refreshIfChanged());
    this.#awaitSign();
  }

  async end(): Promise<void> {
    this.leave();
    await this.#save("clean");
  }

  /** Ends without a word: what it leaves running is found by that. */
  leave(): void {
    this.#cancelLooks();
    this.#cancelSign();
  }

  /** Something about the worker has changed. */
  refresh(): void {
    // A store in trouble is noticed by those who need it for more than this.
    this.#save(null).catch(() => {});
  }

  #refreshIfChanged(): void {
    if (JSON.stringify(this.#options.activity()) !== this.#saved.activity) this.refresh();
  }

  #awaitSign(): void {
    const { clock } = this.#options;
    const left_ms = SIGN_EVERY_MS - ((clock.wall_ms() + SIGN_PHASE_MS) % SIGN_EVERY_MS);
    this.#cancelSign = clock.after(left_ms, () => {
      this.#awaitSign();
      // Not twice for a timer that was early, nor where there was something to tell just now.
      if (clock.mono_ms() - this.#saved.mono_ms > SIGN_EVERY_MS / 2) this.refresh();
    });
  }

  /** One after the other: a sign of life that is slow must not come after the end, and take it back. */
  #save(ended: WorkerRecord["ended"]): Promise<void> {
    const saved = this.#written.then(() => this.#write(ended));
    this.#written = saved.catch(() => {});
    return saved;
  }

  async #write(ended: WorkerRecord["ended"]): Promise<void> {
    const { store, clock, name, version, queues, task, commands_only, have = {}, activity } = this.#options;
    const active = activity();
    this.#saved = { activity: JSON.stringify(active), mono_ms: clock.mono_ms() };
    const now_ms = await store.now();
    this.#started_at_ms ??= now_ms;
    await store.saveWorker({
      id: this.id,
      name,
      host,
      process: this.#process,
      version,
      queues,
      task,
      commands_only,
      have,
      ...active,
      started_at_ms: this.#started_at_ms,
      seen_at_ms: now_ms,
      stopped_at_ms: ended === null ? null : now_ms,
      ended,
    });
  }
}
