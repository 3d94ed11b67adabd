/**
 * Runs a job that is a function of this program, to its end: the second kind of JobRun beside programs, with the same
 * Outcome. A function can't be killed: it is told to stop by its signal, and one that goes on after its grace is left
 * behind. Its slot is free then, and nothing that it says afterwards counts. Knows no store and no lease.
 */

import type { Clock } from "../core/clock.ts";
import { errorText } from "../core/errors.ts";
import type { Stream } from "../platform/platform.ts";
import type { JobRun, Outcome, StopReason } from "./run.ts";

/** Thrown by a handler: another try would find the same, so there is none. */
export class NoRetry extends Error {
  override readonly name = "NoRetry";
}

/** Why a handler is told to stop: the reason of its signal. */
export class Stopped extends Error {
  override readonly name = "Stopped";
  override readonly cause: StopReason["cause"];

  constructor({ cause, why }: StopReason) {
    super(why);
    this.cause = cause;
  }
}

export interface HandlerEvents {
  /** It is about to be called. */
  begun(): void;
  printed(stream: Stream, bytes: Uint8Array): void;
  warn(text: string): void;
}

export interface HandlerCall {
  /** Runs the job; what it returns, or resolves with, is the result. */
  call(run: HandlerRun): unknown;
  /** Ends by force what can be ended by force. */
  kill?: () => void;
  output_limit_bytes: number;
}

const LEFT_BEHIND = "told to stop, it went on: it was left behind, and nothing that it says counts any more";

export class HandlerRun implements JobRun {
  readonly done: Promise<Outcome>;
  readonly #clock: Clock;
  readonly #events: HandlerEvents;
  readonly #kill: (() => void) | undefined;
  readonly #limit_bytes: number;
  readonly #end: (outcome: Outcome) => void;
  #aborter: AbortController | null = null;
  #stopped: StopReason | null = null;
  #kill_at_ms = Infinity;
  #cancelKill: (() => void) | null = null;
  #exited = false;

  constructor({ call, kill, output_limit_bytes }: HandlerCall, clock: Clock, events: HandlerEvents) {
    this.#clock = clock;
    this.#events = events;
    this.#kill = kill;
    this.#limit_bytes = output_limit_bytes;
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    this.done = promise;
    this.#end = resolve;
    void this.#run(call);
  }

  get exited(): boolean {
    return this.#exited;
  }

  /** Made when it is asked for: most handlers are over before anybody could stop them. */
  get signal(): AbortSignal {
    if (this.#aborter === null) {
      this.#aborter = new AbortController();
      if (this.#stopped !== null) this.#aborter.abort(new Stopped(this.#stopped));
    }
    return this.#aborter.signal;
  }

  tell(why: StopReason): void {
    this.#abort(why);
  }

  stop(grace_ms: number, why: StopReason): void {
    this.#abort(why);
    const kill_at_ms = this.#clock.mono_ms() + grace_ms;
    if (kill_at_ms >= this.#kill_at_ms) return;
    this.#kill_at_ms = kill_at_ms;
    this.#cancelKill?.();
    this.#cancelKill = this.#clock.after(grace_ms, () => this.#leave(LEFT_BEHIND));
  }

  kill(why: StopReason): void {
    this.#abort(why);
    this.#leave(null);
  }

  #abort(why: StopReason): void {
    if (this.#stopped !== null || this.#exited) return;
    this.#stopped = why;
    this.#aborter?.abort(new Stopped(why));
  }

  #leave(warning: string | null): void {
    if (this.#exited) return;
    this.#kill?.();
    if (warning !== null && this.#kill === undefined) this.#events.warn(warning);
    this.#over({ ...ENDED, cause: "error", error: "it did not stop" });
  }

  async #run(call: HandlerCall["call"]): Promise<void> {
    // Whoever made the run has to have it before the job can say anything.
    await Promise.resolve();
    this.#events.begun();
    try {
      const value = call(this);
      const result = isThenable(value) ? await value : value;
      if (!this.#exited) this.#over({ ...ENDED, cause: "success", output: this.#output(result) });
    } catch (error) {
      if (!this.#exited) this.#over(this.#failure(error));
    }
  }

  #over(outcome: Outcome): void {
    this.#exited = true;
    this.#cancelKill?.();
    this.#end(outcome);
  }

  #output(value: unknown): string | null {
    const text = outputText(value);
    const bytes = text === null || text.length * 3 <= this.#limit_bytes ? null : new TextEncoder().encode(text);
    if (bytes === null || bytes.length <= this.#limit_bytes) return text;
    const limit = `was cut at ${this.#limit_bytes}; output_limit keeps more`;
    this.#events.warn(`its result has ${bytes.length} bytes and ${limit}`);
    // As the first part of a stream: half a letter at the cut is left out.
    return new TextDecoder().decode(bytes.subarray(0, this.#limit_bytes), { stream: true });
  }

  /** The message is the attempt's error; where it was thrown, and why, is in the log. Not of one that was told to. */
  #failure(error: unknown): Outcome {
    if (this.#stopped === null) this.#events.printed("stderr", new TextEncoder().encode(`${traceOf(error)}\n`));
    const final = error instanceof Error && error.name === "NoRetry";
    return { ...ENDED, cause: "error", error: messageOf(error), ...(final ? { final } : {}) };
  }
}

const ENDED: Omit<Outcome, "cause"> = { exit_code: null, signal: null, error: null, output: null };

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && typeof (value as { then?: unknown }).then === "function";
}

/** Text is itself, bytes are text, nothing is nothing; everything else is JSON. */
export function outputText(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === "string") return value;
  if (value instanceof Uint8Array) return new TextDecoder().decode(value);
  return JSON.stringify(value) ?? null;
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return errorText(error);
  const plain = error.name === "Error" || error.name === "NoRetry" || error.name === "LeaseError";
  return plain ? error.message : `${error.name}: ${error.message}`;
}

const MOST_CAUSES = 8;

function traceOf(error: unknown): string {
  const parts: string[] = [];
  for (let at: unknown = error; at !== undefined && parts.length < MOST_CAUSES;) {
    parts.push(at instanceof Error ? stackOf(at) : errorText(at));
    at = at instanceof Error ? at.cause : undefined;
  }
  return parts.join("\ncaused by: ");
}

/** Some runtimes begin it with name and message, some don't. */
function stackOf(error: Error): string {
  const head = messageOf(error);
  const stack = error.stack ?? "";
  return stack.includes(error.message) ? stack : `${head}\n${stack}`;
}
