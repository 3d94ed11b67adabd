/**
 * Runs one program to its end: starts it in a session of its own and within a fence, passes on what it prints, stops
 * all of it when told to, leaves nothing behind, and reads the result that it wrote. Knows no store and no lease.
 */

import { every, isSettledWithin, type Clock } from "../core/clock.ts";
import { errorText, EXIT_CODES, LeaseError } from "../core/errors.ts";
import type { FenceKind, ProcessIdentity } from "../core/records.ts";
import type { AttemptEnd } from "../core/transition.ts";
import { endOfChild, processText } from "../platform/machine.ts";
import type { Child, SpawnOptions, Stream } from "../platform/platform.ts";
import { GROUP_FENCE, type Fence } from "./fence.ts";
import { groupLives } from "./group.ts";
import { Pauses } from "./pauses.ts";
import type { ResultFile } from "./result_file.ts";
import { start } from "./start.ts";

/** How a job ended, whatever ran it. */
export interface Outcome {
  cause: "success" | "exit" | "signal" | "error" | "not_found" | "not_executable";
  exit_code: number | null;
  signal: string | null;
  error: string | null;
  /** The job's result. */
  output: string | null;
  /** Of a program: what held its processes together, and what they took. */
  fence?: FenceKind;
  cpu_ms?: number | null;
  memory_bytes?: number | null;
  /** It says itself that another try would find the same. */
  final?: boolean;
}

/** Why whoever runs a job ends it. */
export interface StopReason {
  cause: "silent" | "timeout" | "cancelled" | "returned" | "lost";
  /** For people. */
  why: string;
  /** Until it may be tried again. */
  pause_ms?: number;
}

/** A job that runs, whatever runs it. */
export interface JobRun {
  readonly done: Promise<Outcome>;
  /** It is over by itself, though something of it may be left: what stops it now is not why it ended. */
  readonly exited: boolean;
  /** When it was, on the monotonic clock; the earliest that it may have been, where that can't be told. */
  readonly exited_ms?: number | null;
  /** It is to end, and is sent nothing: only what listens by itself hears of it. */
  tell?(why: StopReason): void;
  /** Asks it to end, and ends it by force after the grace. Told again, the earlier end counts. */
  stop(grace_ms: number, why: StopReason): void;
  kill(why: StopReason): void;
}

/** What whoever runs a job tells about it. */
export interface RunEvents {
  started(pid: number, fence: Pick<Fence, "kind" | "cgroup">): void;
  /** These have left the group of the program that leads it, where nothing but this tells whose they are. */
  left?(processes: readonly ProcessIdentity[]): void;
  /** The bytes are only valid during the call; a promise holds back more until it is settled. */
  printed(stream: Stream, bytes: Uint8Array): void | Promise<void>;
  warn(text: string): void;
}

export interface Program extends Omit<SpawnOptions, "onOutput" | "cgroup"> {
  /** Throws where what the job asks for can't be had. */
  fence: () => Fence;
  /** What a daemon that outlives the job is called by. */
  name: string;
  /** The file that LEASE_OUTPUT names. */
  result: ResultFile;
  result_limit_bytes: number;
}

/** How long a leftover group gets to end by itself before it is killed. */
const LEFTOVER_GRACE_MS = 1_000;
/** How long a stream that some escaped daemon keeps open is read on after the group is gone. */
const DRAIN_MS = 200;
const LOOK_EVERY_MS = 20;
const SECOND_LOOK_MS = 1_000;
/** What lives for so long after a kill can't be killed. */
const MOST_SECOND_LOOKS = 5;
const MOST_LOOKS = (MOST_SECOND_LOOKS * SECOND_LOOK_MS) / LOOK_EVERY_MS;
/** What the machine has too little of for the moment: another try may find it, so this is no verdict on the program. */
const SCARCE: ReadonlySet<unknown> = new Set(["EMFILE", "ENFILE", "EAGAIN", "ENOMEM"]);

const PAUSES = new Pauses();
const NOT_YET = Promise.resolve("not yet" as const);

export class ProgramRun implements JobRun {
  readonly done: Promise<Outcome>;
  readonly #clock: Clock;
  readonly #events: RunEvents;
  readonly #over = Promise.withResolvers<void>();
  #fence = GROUP_FENCE;
  #child: Child | null = null;
  #stopped = false;
  #exited_ms: number | null = null;
  #kill_at_ms = Infinity;
  #killed = false;
  #cancelKill: (() => void) | null = null;

  constructor(program: Program, clock: Clock, events: RunEvents) {
    this.#clock = clock;
    this.#events = events;
    this.done = this.#run(program);
  }

  /** Also where the runtime has not told us yet: after a pause of the worker other news may be heard first. */
  get exited(): boolean {
    return this.#exited_ms !== null || (this.#child !== null && endOfChild(this.#child.pid) !== null);
  }

  get exited_ms(): number | null {
    return this.#exited_ms;
  }

  /** TERM to all of it, KILL after the grace. */
  stop(grace_ms: number): void {
    if (!this.#stopped && this.#child !== null) this.#fence.ask(this.#child.pid);
    this.#stopped = true;
    const kill_at_ms = this.#clock.mono_ms() + grace_ms;
    if (kill_at_ms >= this.#kill_at_ms) return;
    this.#kill_at_ms = kill_at_ms;
    this.#cancelKill?.();
    this.#cancelKill = this.#clock.after(grace_ms, () => this.kill());
  }

  /** KILL to all of it, at once. */
  kill(): void {
    this.#killed = true;
    this.#cancelKill?.();
    if (this.#child !== null) this.#fence.kill(this.#child.pid);
  }

  async #run(program: Program): Promise<Outcome> {
    let child: Child;
    try {
      this.#fence = program.fence();
      const onOutput: SpawnOptions["onOutput"] = (stream, bytes) => this.#held(this.#events.printed(stream, bytes));
      child = await this.#start({ ...program, onOutput });
    } catch (error) {
      this.#fence.release({ killed: true });
      return startFailure(error);
    }
    this.#child = child;
    this.#fence.started(child.pid, program.env, (left) => this.#events.left?.(left));
    PAUSES.begin();
    if (this.#killed) this.#fence.kill(child.pid);
    else if (this.#stopped) this.#fence.ask(child.pid);
    this.#events.started(child.pid, this.#fence);
    const exit = await this.#exitOf(child);
    this.#exited_ms = this.#clock.mono_ms() - PAUSES.doubt();
    PAUSES.end();
    this.#over.resolve();
    if (this.#fence.lives(child.pid)) await this.#endLeftovers(child.pid, program.name, exit.exit_code === 0);
    this.#cancelKill?.();
    const ended = { ...describe(exit.exit_code, exit.signal, this.#fence.limited), ...this.#usage(child) };
    this.#fence.release({ killed: this.#killed || exit.signal === "SIGKILL" });
    await this.#drain(child);
    const output = await program.result.read(program.result_limit_bytes, (text) => this.#events.warn(text));
    return { ...ended, output };
  }

  /** Where nothing can be born in a control group after all, the fence must not be what keeps a job from running. */
  async #start(options: SpawnOptions): Promise<Child> {
    const { cgroup, limited } = this.#fence;
    if (cgroup === null && limited === null) return start(options);
    try {
      return await start({ ...options, cgroup, joins: limited?.joins ?? [] });
    } catch (error) {
      // Nor is a job run without the limits that it asked for.
      if (limited !== null) throw error;
      this.#fence.release({ killed: true });
      this.#fence = GROUP_FENCE;
      return start(options);
    }
  }

  #usage(child: Child) {
    const { kind, limited } = this.#fence;
    // Whoever waited for it knows at once; a group has to be read, and many jobs are short.
    const known_ms = limited === null ? child.cpu_ms() : null;
    const cpu_ms = known_ms ?? this.#fence.cpu_ms() ?? child.cpu_ms();
    return { fence: kind, cpu_ms, memory_bytes: limited?.peakMemory() ?? null };
  }

  /** The runtime may lose the end of a child: then the kernel still knows it, and the slot must not wait for ever. */
  async #exitOf(child: Child): Child["exited"] {
    const second_opinion = Promise.withResolvers<Awaited<Child["exited"]>>();
    let seen = 0;
    let killed = 0;
    const cancel = every(this.#clock, SECOND_LOOK_MS, () => {
      const end = endOfChild(child.pid);
      killed = this.#killed ? killed + 1 : 0;
      if (end === null && killed > MOST_SECOND_LOOKS) second_opinion.resolve({ exit_code: null, signal: null });
      seen = end === null ? 0 : seen + 1;
      // Once may be the moment between the end and the runtime's word of it.
      if (end !== null && seen >= 3) second_opinion.resolve(end);
    });
    const exit = await Promise.race([child.exited, second_opinion.promise]);
    cancel();
    return exit;
  }

  /**
   * The job is over when its program is, and nothing of it may go on without a lease, least of all beside its next
   * attempt. Only of one that ended well, and has none, a daemon in a session of its own may live.
   */
  async #endLeftovers(pid: number, name: string, ended_well: boolean): Promise<void> {
    if (!this.#stopped && !this.#killed) {
      // A daemon on its way into a session of its own is given the time to get there.
      await pause();
      if (ended_well && !groupLives(pid)) return this.#fence.letGo(name);
      if (!this.#fence.lives(pid)) return;
      this.#events.warn("ended and left processes behind; stopping them");
      this.stop(LEFTOVER_GRACE_MS);
    }
    for (let looks = 0; this.#fence.lives(pid); looks++) {
      if (looks === MOST_LOOKS) return this.#giveUp(pid, name);
      if (this.#killed) this.#fence.kill(pid);
      else looks = 0;
      await pause();
    }
  }

  /** One that has another user, or sleeps in the kernel: whoever would run the job again finds it by the name. */
  #giveUp(pid: number, name: string): void {
    const survivors = this.#fence.survivors(pid).map(processText).join(", ");
    this.#events.warn(`can't kill ${survivors}; it is not run again on this machine while that lives`);
    this.#fence.letGo(name);
  }

  /** A reader that is slow holds back the program, but not what is left in the pipe when that has ended. */
  #held(taken: void | Promise<void>): void | Promise<void> {
    return taken === undefined ? undefined : Promise.race([taken, this.#over.promise]);
  }

  async #drain(child: Child): Promise<void> {
    // Of a program that printed little all has been read by now, and no clock is needed.
    if ((await Promise.race([child.drained, NOT_YET])) !== "not yet") return;
    if (!(await isSettledWithin(this.#clock, DRAIN_MS, child.drained))) child.abandonOutput();
  }
}

/** Processes end in their own time, not in that of a clock somebody holds. */
function pause(): Promise<void> {
  return new Promise((done) => {
    setTimeout(done, LOOK_EVERY_MS);
  });
}

/** Why an attempt ended: of its own, or by whoever stopped it. */
export function whyEnded(
  outcome: Outcome,
  stop: StopReason | null,
  last_line: string | null,
  beats: number,
): AttemptEnd {
  const end: AttemptEnd = { ...outcome, last_line, beats };
  const started = outcome.cause !== "not_found" && outcome.cause !== "not_executable";
  // A success that came before the kill stays one; whether it still counts is for the fence to say.
  if (stop === null || !started || (stop.cause === "lost" && outcome.cause === "success")) return end;
  end.cause = stop.cause === "lost" ? "expired" : stop.cause;
  end.error = stop.why;
  if (stop.pause_ms !== undefined) end.pause_ms = stop.pause_ms;
  // The code by which timeout(1) tells it, whatever the program made of being stopped.
  if (stop.cause === "timeout") end.exit_code = EXIT_CODES.timed_out;
  return end;
}

/** How an attempt ends whose program could not be started. */
export function startFailure(error: unknown): Outcome {
  const failed = { signal: null, error: errorText(error), output: null };
  const cause = error instanceof LeaseError ? error.cause : error;
  if (SCARCE.has((cause as NodeJS.ErrnoException | undefined)?.code)) {
    return { ...failed, cause: "exit", exit_code: 126 };
  }
  if (error instanceof LeaseError && (error.code === "not_found" || error.code === "not_executable")) {
    return { ...failed, cause: error.code, exit_code: error.exit_code };
  }
  return { ...failed, cause: "not_executable", exit_code: 126 };
}

function describe(exit_code: number | null, signal: string | null, limited: Fence["limited"]): Omit<Outcome, "output"> {
  const ended = describeEnd(exit_code, signal);
  const starved = ended.error !== null && limited?.ranOutOfMemory() === true;
  return starved ? { ...ended, error: `${ended.error}: out of memory, more than --memory allows` } : ended;
}

function describeEnd(exit_code: number | null, signal: string | null): Omit<Outcome, "output"> {
  if (signal !== null) return { cause: "signal", exit_code: null, signal, error: `killed by ${signal}` };
  if (exit_code === 0) return { cause: "success", exit_code, signal, error: null };
  if (exit_code === null) return { cause: "exit", exit_code, signal, error: "it ended, and nobody knows how" };
  return { cause: "exit", exit_code, signal, error: `exit code ${exit_code}` };
}
