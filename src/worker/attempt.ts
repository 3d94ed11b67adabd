/**
 * One attempt: the way of a granted job under its lease.
 *
 *     clear leftovers → start → watch → end → settle
 *
 * What it prints becomes beats and log, the silence watch says when to stop it, and whatever ended it, all of it is
 * gone before the end is written. Its slot is free as soon as it has ended; the settle is nobody's to wait for.
 */

import { extensionOf, forcedGrace } from "../core/calibration.ts";
import { every } from "../core/clock.ts";
import { errorText } from "../core/errors.ts";
import type { Beat, Grace } from "../core/job.ts";
import type { ProcessIdentity } from "../core/records.ts";
import { RepeatedTrouble } from "../core/report.ts";
import { fenceMargin } from "../core/silence.ts";
import { GIVEN_UP, type AttemptEnd } from "../core/transition.ts";
import { BeatGaps, tellBeats } from "../leasing/beat_gaps.ts";
import { LeaseExtender, type Attached, type JobNote } from "../leasing/extender.ts";
import { Heartbeat } from "../leasing/heartbeat.ts";
import type { Lease } from "../leasing/lease.ts";
import type { Release } from "../leasing/manager.ts";
import { SilenceWatch } from "../leasing/silence_watch.ts";
import { bootId, identify } from "../platform/machine.ts";
import type { Stream } from "../platform/platform.ts";
import { leftoverName } from "../recovery/leftovers.ts";
import { Enforcer, type Culprit } from "../runner/enforcer.ts";
import type { Fence } from "../runner/fence.ts";
import { LogCapture } from "../runner/log/capture.ts";
import { LogFile } from "../runner/log/file.ts";
import { LAST_LINES, LineCounter, Tail } from "../runner/log/tail.ts";
import { whyEnded, ProgramRun, startFailure, type JobRun, type Outcome, type StopReason } from "../runner/run.ts";
import type { AttemptOptions } from "./attempt_options.ts";
import { clearLeftovers, mayHaveLeftovers } from "./earlier_attempts.ts";
import { runHandler, type Handling } from "./in_process.ts";
import { failedLog } from "./failed_log.ts";
import type { LogFlusher } from "./log_flusher.ts";
import { silenceWarning, stoppedText } from "./messages.ts";
import type { AttemptOwner } from "./owner.ts";
import { programOf } from "./program.ts";
import { Voice } from "./voice.ts";
import { writeWhileLeased } from "./store_trouble.ts";

/** A job that lives longer than this has its process noted in the store at once, a shorter one when it ends. */
const NOTE_AFTER_MS = 50;
/** Until a job is looked at again of which something could not be killed: it may run on another machine meanwhile. */
const SURVIVORS_PAUSE_MS = 60_000;
/** So many turns of the queue of microtasks a function has before it is watched. */
const TURNS_UNWATCHED = 6;
const NEVER_RAN: Outcome = { cause: "exit", exit_code: null, signal: null, error: null, output: null };

export class Attempt {
  readonly lease: Lease;
  /** The job's program is over and its slot free. */
  readonly ended: Promise<AttemptEnd>;
  readonly settled: Promise<Release>;
  readonly #options: AttemptOptions;
  readonly #owner: AttemptOwner;
  readonly #beat: Beat;
  readonly #times: ReturnType<typeof extensionOf>;
  readonly #heartbeat: Heartbeat;
  readonly #gaps: BeatGaps | null;
  /** Where what it prints goes; null: it has not printed anything. */
  #log: { capture: LogCapture; flush: ReturnType<LogFlusher["add"]> } | null = null;
  readonly #tail = new Tail();
  readonly #lines: Record<Stream, LineCounter> = { stdout: new LineCounter(), stderr: new LineCounter() };
  readonly #voice: Voice;
  #file: LogFile | null = null;
  #run: JobRun | null = null;
  #silence: SilenceWatch | null = null;
  #process: ProcessIdentity | null = null;
  #stop: StopReason | null = null;
  /** What the last cancel came to; null: there was none. */
  #cancel_grace: Grace | null = null;
  #ended_at_ms: number | null = null;
  #failed_log: Uint8Array | null = null;
  #extending: Attached | null = null;
  readonly #cancelTimers: (() => void)[] = [];

  constructor(lease: Lease, options: AttemptOptions, owner: AttemptOwner) {
    const { clock, beat = "output", learn = false } = options;
    const { settings } = lease.job;
    this.lease = lease;
    this.#options = options;
    this.#owner = owner;
    this.#voice = new Voice(options.report, lease, clock);
    this.#beat = settings.beat ?? beat;
    this.#times = extensionOf(lease.lease_ms, settings, options.times);
    this.#heartbeat = new Heartbeat(clock, (error) => this.#voice.say("error", `a callback failed: ${error}`));
    const learned = (settings.lease_ms ?? (learn ? "auto" : null)) === "auto";
    this.#gaps = learned ? new BeatGaps(this.#heartbeat, clock) : null;
    if (options.tells_beats === true)
      tellBeats(this.#heartbeat, clock, (gap_ms) => this.#voice.tell("beat", { gap_ms }));
    this.ended = this.#runToEnd();
    this.settled = this.ended.then((end) => this.#settle(end));
  }

  async #runToEnd(): Promise<AttemptEnd> {
    // Whoever made the attempt has to have it before anything happens.
    await Promise.resolve();
    try {
      const { job } = this.lease;
      if (mayHaveLeftovers(this.lease, this.#owner, this.#options)) await this.#clearLeftovers();
      if (job.settings.hook !== null) this.#failed_log = await failedLog(this.#owner.manager.store, job);
      const run = this.#start();
      // In the same turn: nothing that the job says may come before somebody listens.
      return this.#end(run === null ? NEVER_RAN : await this.#watch(run));
    } catch (error) {
      // What an earlier one left may not have been found either.
      return this.#end(startFailure(error));
    }
  }

  statistics() {
    const last_beat_ms_ago = Math.round(this.#options.clock.mono_ms() - this.#heartbeat.last_beat_ms);
    const { job, token: attempt, lease_ms } = this.lease;
    const last_line = this.#tail.lastLine();
    return { job: job.id, attempt, last_beat_ms_ago, lease_ms, last_line, stopping: this.stopping };
  }

  /** It has been told to end, by whomever. */
  get stopping(): boolean {
    return this.#stop !== null;
  }

  /** Somebody wants the job to end for good, and may have said how long that may take. One that has ended is let be. */
  cancel(asked: Grace | null = null): void {
    if (this.#run?.exited === true) return;
    const grace = this.lease.job.settings.grace_ms ?? asked ?? this.#options.kill_grace_ms;
    if (grace === this.#cancel_grace) return;
    const first = this.#cancel_grace === null && this.#stop === null;
    this.#cancel_grace = grace;
    this.lease.cancel_requested = true;
    // It hears of it by `lease beat`, and goes on under its lease until it ends by itself; one that has not begun never does.
    if (grace === "never" && this.#run !== null) {
      if (first) this.#voice.say("info", "cancel requested; its grace is never, so it is left to end by itself");
      return this.#run.tell?.({ cause: "cancelled", why: "cancelled" });
    }
    if (first) this.#voice.say("info", "cancel requested, stopping it");
    this.#stopFor("cancelled", "cancelled", forcedGrace(grace));
  }

  /** The worker needs the slot: the job goes back to the queue. */
  giveBack(grace_ms: number): void {
    this.#stopFor("returned", "returned to the queue", grace_ms);
  }

  /** Like giveBack, without asking the job. */
  kill(): void {
    const returned: StopReason = { cause: "returned", why: "returned to the queue" };
    if (this.#run?.exited !== true) this.#stop ??= returned;
    this.#run?.kill(this.#stop ?? returned);
  }

  /** The store is not the one any more that the lease is kept in: somebody else may have the job. */
  fence(why: string): void {
    if (this.#run?.exited !== true) this.#lose(why);
  }

  async #clearLeftovers(): Promise<void> {
    const why = await clearLeftovers(this.lease, this.#owner, this.#options);
    if (why === null) return;
    this.#voice.say("error", `${why}: not run here while it lives`);
    this.#stop ??= { cause: "returned", why, pause_ms: SURVIVORS_PAUSE_MS };
  }

  /** Null when there is nothing to run any more: a stop may have come before, or the end of the lease. */
  #start(): JobRun | null {
    if (this.lease.remaining() <= 0)
      this.#stop ??= { cause: "returned", why: "the lease ran out before it was started" };
    if (this.#stop !== null) return null;
    const { handling } = this.#options;
    const called = handling !== undefined && this.lease.job.settings.hook === null;
    return (this.#run = called ? this.#callHandler(handling) : this.#startProgram());
  }

  #callHandler(handling: Handling): JobRun {
    const { lease } = this;
    const { manager } = this.#owner;
    const tell = (note: JobNote) => {
      if (this.#extending === null) this.#startWatching();
      this.#extending?.note(note);
    };
    return runHandler(handling, { lease, manager, heartbeat: this.#heartbeat, tell }, this.#options.clock, {
      begun: () => this.#begun(),
      printed: (stream, bytes) => void this.#printed(stream, bytes),
      warn: (text) => this.#voice.say("warn", text),
    });
  }

  #startProgram(): JobRun {
    const { clock, log_dir = null } = this.#options;
    const program = programOf(this.lease, this.#options, this.#owner, this.#failed_log ?? undefined);
    const unwritable = (error: unknown) =>
      this.#voice.say("warn", `its log file can't be written: ${errorText(error)}`);
    const { id, token } = this.lease.job;
    if (log_dir !== null) this.#file = new LogFile(log_dir, id, token, program.argv, unwritable);
    return new ProgramRun(program, clock, {
      started: (pid, fence) => this.#started(pid, fence),
      left: (processes) => this.#owner.enforcer.noteLeft(program.name, processes),
      printed: (stream, bytes) => this.#printed(stream, bytes),
      warn: (text) => this.#voice.say("warn", text),
    });
  }

  /** Most functions are over before they could have to be stopped: to watch them costs more than to call them. */
  async #watch(run: JobRun): Promise<Outcome> {
    const { clock, handling } = this.#options;
    const turns = handling === undefined ? 0 : TURNS_UNWATCHED;
    for (let turn = 0; turn < turns && !run.exited && this.#silence === null; turn++) await Promise.resolve();
    if (!run.exited && this.#silence === null) this.#startWatching();
    const outcome = await run.done;
    // By the store's clock, when it was over: it may have taken a while to clear away what it left.
    this.#ended_at_ms = Math.floor(this.lease.storeTime() - (clock.mono_ms() - (run.exited_ms ?? clock.mono_ms())));
    this.#heartbeat.beat(0);
    this.#stopWatching();
    return outcome;
  }

  /** Extends the lease on its beats, and stops it when it is silent, out of time or not ours any more. */
  #startWatching(): void {
    const { clock, kill_grace_ms } = this.#options;
    const { manager } = this.#owner;
    const { lease } = this;
    const heartbeat = this.#heartbeat;
    const { timeout_ms, grace_ms: own_grace } = lease.job.settings;
    const grace_ms = forcedGrace(own_grace, kill_grace_ms);
    const { interval_ms, extension_ms } = this.#times;
    const extender = new LeaseExtender(manager, {
      clock,
      interval_ms,
      extension_ms,
      within_ms: this.#options.extend_within_ms ?? 0,
      onLost: (_lease, reason) => this.#lose(reason),
      onExtended: () => this.#voice.tell("extended"),
      onCancel: (_lease, grace) => this.cancel(grace),
      onFailure: (_lease, error, in_a_row) => this.#voice.extensionFailed(error, in_a_row),
    });
    this.#extending = extender.attach(lease, heartbeat);
    // It has begun before.
    if (this.#options.handling !== undefined) heartbeat.beat(0);
    const beat = this.#options.handling === undefined ? this.#beat : null;
    const silence = new SilenceWatch(
      { lease, heartbeat, manager, clock, timeout_ms, extension_ms, grace_ms },
      {
        halfSilent: () => this.#voice.say("warn", silenceWarning(lease, silence, heartbeat.elapsed(), beat)),
        stop: (cause) => {
          const silent_ms = heartbeat.elapsed();
          this.#stopFor(
            cause,
            stoppedText(cause, lease, silence, silent_ms, this.#tail.lastLine(), this.#beat),
            grace_ms,
          );
        },
        lost: (why) => this.#lose(why),
      },
    );
    this.#silence = silence;
  }

  /** Why it ended: of its own, or by whoever stopped it. */
  #end(outcome: Outcome): AttemptEnd {
    const end = whyEnded(outcome, this.#stop, this.#tail.lastLine(), this.#heartbeat.beats);
    this.#file?.close(end.error ?? "exit code 0");
    return end;
  }

  async #settle(end: AttemptEnd): Promise<Release> {
    const { clock } = this.#options;
    const options = {
      end,
      ...(this.#ended_at_ms === null ? {} : { ended_at_ms: this.#ended_at_ms }),
      process: this.#process,
      last_lines: this.#tail.lines(LAST_LINES),
      within_ms: this.#owner.settleWithin(),
      gaps: this.#gaps?.shown(end.cause) ?? null,
    };
    const write = () => this.#owner.manager.release(this.lease, options);
    let trouble: RepeatedTrouble | null = null;
    const release = await writeWhileLeased(this.lease, clock, {
      write: () => (this.#log === null ? write() : this.#finishLog().then(write)),
      givesUp: () => this.#owner.givesUpSettles(),
      failed: (error) => {
        if ((trouble ??= new RepeatedTrouble(clock)).tellNow())
          this.#voice.say("warn", `its end could not be written, trying again: ${errorText(error)}`);
      },
    });
    if (release.status === "stale") this.#voice.stale();
    return release;
  }

  async #finishLog(): Promise<void> {
    const left_out = (await this.#log?.flush.finish()) ?? 0;
    if (left_out === 0) return;
    this.#voice.say("warn", `${left_out} bytes of its log were left out: the way to the store is slow`);
  }

  #started(pid: number, { kind, cgroup }: Pick<Fence, "kind" | "cgroup">): void {
    const { clock } = this.#options;
    const { store } = this.#owner.manager;
    const { job, token } = this.lease;
    // Its start time is asked for later: while a program is being loaded the kernel keeps whoever asks waiting.
    this.#process = { boot_id: bootId(), pid, pid_started: 0 };
    this.#begun();
    const noteProcess = () => {
      this.#process = identify(pid);
      store.noteProcess([{ id: job.id, token, ...this.#process, fence: kind }]).catch(() => {});
      this.#confirm(cgroup === null ? { leader: this.#process } : { cgroup });
    };
    this.#cancelTimers.push(clock.after(NOTE_AFTER_MS, noteProcess));
  }

  #begun(): void {
    this.#voice.tell("started", { pid: this.#process?.pid ?? null });
    this.#heartbeat.beat(0);
    if (this.#beat !== "timer") return;
    this.#cancelTimers.push(every(this.#options.clock, this.#times.interval_ms, () => this.#heartbeat.beat()));
  }

  /** A worker that is stopped, or stuck, can't kill its job in time: somebody else does, unless told of a later end. */
  #confirm(culprit: Culprit): void {
    const { lease } = this;
    const { enforcer } = this.#owner;
    const name = leftoverName(this.#owner.store_id, lease.job.id, lease.token);
    // Later than the worker itself would kill.
    const margin_ms = fenceMargin(this.#times.extension_ms) / 2;
    const confirm = () => enforcer.confirm(name, culprit, lease.remaining() - margin_ms);
    if (!confirm() && Enforcer.possible)
      this.#voice.say("warn", "nobody could stop it if this worker were frozen: there is no /bin/sh, or no room");
    lease.onExtended = confirm;
    this.#cancelTimers.push(() => {
      lease.onExtended = () => {};
      enforcer.release(name);
    });
  }

  #printed(stream: Stream, bytes: Uint8Array): void | Promise<void> {
    this.#file?.write(bytes);
    const { capture, flush } = (this.#log ??= this.#openLog());
    capture.add(stream, bytes, this.lease.storeTime());
    this.#tail.add(bytes);
    const counts = this.#beat === "output" || (this.#beat === "stdout" && stream === "stdout");
    if (counts) this.#heartbeat.beat(this.#lines[stream].count(bytes));
    flush.wake();
    return this.#owner.printed?.(this.lease, stream, bytes);
  }

  #openLog() {
    const capture = new LogCapture(this.lease.job.settings.log_limit_bytes);
    return { capture, flush: this.#owner.logs.add(this.lease, capture, () => this.#heartbeat.beats) };
  }

  #stopFor(cause: StopReason["cause"], why: string, grace_ms: number): void {
    if (this.#stop?.cause === "lost" || this.#run?.exited === true) return;
    this.#stop ??= { cause, why };
    if (this.#run !== null && this.#silence === null) this.#startWatching();
    // Beats no longer count, or they would cut short the time that stopping was given.
    this.#extending?.();
    this.#silence?.stopping(grace_ms);
    this.#run?.stop(grace_ms, this.#stop);
  }

  /** Somebody else may start the job any moment: no asking, no grace. */
  #lose(why: string): void {
    if (this.#stop?.cause !== "lost") this.#voice.lost(why);
    this.#stop = { cause: "lost", why: GIVEN_UP + why };
    this.#stopWatching();
    this.#run?.kill(this.#stop);
  }

  #stopWatching(): void {
    for (const cancel of this.#cancelTimers) cancel();
    this.#extending?.();
    this.#silence?.end();
  }
}
