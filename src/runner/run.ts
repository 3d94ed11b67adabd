/**
 * Runs one program to its end: starts it in a session of its own, passes on what it prints, stops its whole group when
 * told to, and leaves nothing of the group behind. Knows no store and no lease.
 */

import type { Clock } from "../core/clock.ts";
import { LeaseError } from "../core/errors.ts";
import type { Child, SpawnOptions } from "../platform/platform.ts";
import { askToEnd, groupLives, signalGroup } from "./group.ts";
import { start } from "./start.ts";

export interface Exit {
  cause: "success" | "exit" | "signal" | "not_found" | "not_executable";
  exit_code: number | null;
  signal: string | null;
  error: string | null;
}

export interface RunHooks {
  onStart?: (pid: number) => void;
  /** The program ended, but processes it had started were still there and have been stopped. */
  onLeftover?: () => void;
}

/** How long a leftover group gets to end by itself before it is killed. */
const LEFTOVER_GRACE_MS = 1_000;
/** How long a stream that some escaped daemon keeps open is read on after the group is gone. */
const DRAIN_MS = 200;
const LOOK_EVERY_MS = 20;
/** What the machine has too little of for the moment: another try may find it, so this is no verdict on the program. */
const SCARCE: ReadonlySet<unknown> = new Set(["EMFILE", "ENFILE", "EAGAIN", "ENOMEM"]);

const NOT_YET = Promise.resolve("not yet" as const);

export class Run {
  readonly done: Promise<Exit>;
  readonly #clock: Clock;
  readonly #hooks: RunHooks;
  readonly #over = Promise.withResolvers<void>();
  #child: Child | null = null;
  #stopped = false;
  #exited = false;
  #kill_at_ms = Infinity;
  #killed = false;
  #cancelKill: (() => void) | null = null;

  constructor(options: SpawnOptions, clock: Clock, hooks: RunHooks = {}) {
    this.#clock = clock;
    this.#hooks = hooks;
    this.done = this.#run(options);
  }

  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /** The program is over, though something of its group may be left: what stops it now is not why it ended. */
  get exited(): boolean {
    return this.#exited;
  }

  /** TERM to the group, KILL after the grace; null never kills. Told again, the earlier kill counts. */
  stop(grace_ms: number | null): void {
    if (!this.#stopped && this.#child !== null) askToEnd(this.#child.pid);
    this.#stopped = true;
    const kill_at_ms = grace_ms === null ? Infinity : this.#clock.mono_ms() + grace_ms;
    if (grace_ms === null || kill_at_ms >= this.#kill_at_ms) return;
    this.#kill_at_ms = kill_at_ms;
    this.#cancelKill?.();
    this.#cancelKill = this.#clock.after(grace_ms, () => this.kill());
  }

  /** KILL to the group, at once. */
  kill(): void {
    this.#killed = true;
    this.#cancelKill?.();
    if (this.#child !== null) signalGroup(this.#child.pid, "SIGKILL");
  }

  async #run(options: SpawnOptions): Promise<Exit> {
    let child: Child;
    try {
      child = await start({ ...options, onOutput: (stream, bytes) => this.#held(options.onOutput(stream, bytes)) });
    } catch (error) {
      return startFailure(error);
    }
    this.#child = child;
    if (this.#killed) signalGroup(child.pid, "SIGKILL");
    else if (this.#stopped) askToEnd(child.pid);
    this.#hooks.onStart?.(child.pid);
    const exit = await child.exited;
    this.#exited = true;
    this.#over.resolve();
    if (groupLives(child.pid)) await this.#endLeftovers(child.pid);
    this.#cancelKill?.();
    await this.#drain(child);
    return describe(exit.exit_code, exit.signal);
  }

  /** The job is over when its program is; its group must not go on without a lease. */
  async #endLeftovers(pid: number): Promise<void> {
    if (!this.#stopped && !this.#killed) {
      // A daemon on its way into a session of its own is given the time to get there.
      await pause();
      if (!groupLives(pid)) return;
      this.#hooks.onLeftover?.();
      this.stop(LEFTOVER_GRACE_MS);
    }
    while (groupLives(pid)) {
      if (this.#killed) signalGroup(pid, "SIGKILL");
      await pause();
    }
  }

  /** A reader that is slow holds back the program, but not what is left in the pipe when that has ended. */
  #held(taken: void | Promise<void>): void | Promise<void> {
    return taken === undefined ? undefined : Promise.race([taken, this.#over.promise]);
  }

  async #drain(child: Child): Promise<void> {
    // Of a program that printed little all has been read by now, and no clock is needed.
    if ((await Promise.race([child.drained, NOT_YET])) !== "not yet") return;
    let cancel = () => {};
    const late = new Promise<"late">((done) => {
      cancel = this.#clock.after(DRAIN_MS, () => done("late"));
    });
    const first = await Promise.race([child.drained, late]);
    cancel();
    if (first === "late") child.abandonOutput();
  }
}

/** Processes end in their own time, not in that of a clock somebody holds. */
function pause(): Promise<void> {
  return new Promise((done) => {
    setTimeout(done, LOOK_EVERY_MS);
  });
}

function startFailure(error: unknown): Exit {
  if (error instanceof LeaseError && SCARCE.has((error.cause as NodeJS.ErrnoException | undefined)?.code)) {
    return { cause: "exit", exit_code: 126, signal: null, error: error.message };
  }
  if (error instanceof LeaseError && (error.code === "not_found" || error.code === "not_executable")) {
    return { cause: error.code, exit_code: error.exit_code, signal: null, error: error.message };
  }
  const message = error instanceof Error ? error.message : String(error);
  return { cause: "not_executable", exit_code: 126, signal: null, error: message };
}

function describe(exit_code: number | null, signal: string | null): Exit {
  if (signal !== null) return { cause: "signal", exit_code: null, signal, error: `killed by ${signal}` };
  if (exit_code === 0) return { cause: "success", exit_code, signal, error: null };
  return { cause: "exit", exit_code, signal, error: `exit code ${exit_code}` };
}
