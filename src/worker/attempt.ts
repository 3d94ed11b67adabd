/**
 * One attempt: runs a granted job under its lease, from start to settle. Output becomes beats and log, the silence watch says
 * when to stop, and whatever ended the job, its whole process group is gone before the end is written.
 */

import { forcedGrace } from "../core/calibration.ts";
import type { Clock } from "../core/clock.ts";
import { formatDuration } from "../core/duration.ts";
import { errorText } from "../core/errors.ts";
import type { Beat } from "../core/job.ts";
import type { ProcessIdentity } from "../core/records.ts";
import type { AttemptEnd } from "../core/transition.ts";
import { FAILURES_REPORTED, LeaseExtender } from "../leasing/extender.ts";
import { GapRecorder } from "../leasing/beat_gaps.ts";
import { Heartbeat } from "../leasing/heartbeat.ts";
import type { Lease } from "../leasing/lease.ts";
import type { LeaseManager, Release } from "../leasing/manager.ts";
import { bootId, identify } from "../platform/machine.ts";
import type { Stream } from "../platform/platform.ts";
import { LAST_LINES, LineCounter, Tail } from "../runner/log/tail.ts";
import { LogCapture } from "../runner/log/capture.ts";
import { openLogFile } from "../runner/log/file.ts";
import { outputPath, readOutput } from "../runner/result_file.ts";
import { Run, type Exit } from "../runner/run.ts";
import { jobEnvironment } from "../runner/start.ts";
import { SilenceWatch } from "../leasing/silence_watch.ts";
import type { LogFlusher } from "./log_flusher.ts";
import { killLeftovers, MarkedLeftovers } from "../recovery/leftovers.ts";
import { persist } from "./persist.ts";
import type { Report } from "../core/report.ts";
import { silenceText, silenceWarning } from "./messages.ts";
import { RepeatedTrouble } from "../core/repeated_trouble.ts";
import { jobVariables } from "../runner/environment.ts";

export interface AttemptOptions {
  manager: LeaseManager;
  clock: Clock;
  report: Report;
  logs: LogFlusher;
  /** What LEASE_STORE tells the job. */
  store_url: string;
  /** Goes before the job's own words. */
  handler: readonly string[];
  /** For jobs that set none. */
  beat: Beat;
  learn?: boolean;
  interval_ms: (lease_ms: number) => number;
  /** Between TERM and KILL of a cancelled job; null never kills. */
  kill_grace_ms: number | null;
  log_dir: string | null;
  /** A folder for the files of LEASE_OUTPUT. */
  scratch: string;
  /** Also told what the job prints; a promise holds back the job until it is settled. */
  onOutput?: (stream: Stream, bytes: Uint8Array) => void | Promise<void>;
  /** How long the end of an attempt may wait to share a commit. */
  patience_ms?: () => number;
  /** An end that can't be written is given up at once. */
  hurried?: () => boolean;
}

/** Why the worker itself ended the job. */
type Stop = "silent" | "timeout" | "cancelled" | "returned" | "lost";

/** A job that lives longer than this has its process noted in the store at once, a shorter one when it ends. */
const NOTE_AFTER_MS = 50;
const NEVER_RAN: Exit = { cause: "exit", exit_code: null, signal: null, error: null };

export class Attempt {
  readonly lease: Lease;
  /** The job's program is over and its slot free; what follows is bookkeeping. */
  readonly ended: Promise<AttemptEnd>;
  readonly settled: Promise<Release>;
  readonly #options: AttemptOptions;
  readonly #heartbeat: Heartbeat;
  readonly #capture: LogCapture;
  readonly #tail = new Tail();
  readonly #beat: Beat;
  readonly #lines: Record<Stream, LineCounter> = { stdout: new LineCounter(), stderr: new LineCounter() };
  readonly #recorder: GapRecorder | null;
  #run: Run | null = null;
  #silence: SilenceWatch | null = null;
  #process: ProcessIdentity | null = null;
  #stop: { cause: Stop; why: string } | null = null;
  readonly #trouble: RepeatedTrouble;
  #detach = () => {};
  #cancelTimers = () => {};

  constructor(lease: Lease, options: AttemptOptions) {
    this.lease = lease;
    this.#options = options;
    this.#beat = lease.job.settings.beat ?? options.beat;
    this.#heartbeat = new Heartbeat(options.clock, (error) => this.#say("error", `a callback failed: ${error}`));
    const learns = lease.job.settings.lease_ms ?? (options.learn ? "auto" : null);
    this.#recorder = learns === "auto" ? new GapRecorder(this.#heartbeat, options.clock) : null;
    this.#trouble = new RepeatedTrouble(options.clock);
    this.#capture = new LogCapture(lease.job.settings.log_limit_bytes);
    const logs = options.logs.add(lease, this.#capture);
    this.ended = this.#execute(logs.wake);
    this.settled = this.ended.then((end) => this.#settle(end, logs.finish));
  }

  get last_beat_ms(): number {
    return this.#heartbeat.last_beat_ms;
  }

  /** It has been told to end, by whomever. */
  get stopping(): boolean {
    return this.#stop !== null;
  }

  /** Somebody wants the job to end for good. */
  cancel(): void {
    if (this.lease.cancel_requested && this.#stop !== null) return;
    this.lease.cancel_requested = true;
    if (this.#run?.exited === true) return;
    if (this.#stop === null) this.#say("info", "cancel requested, stopping it");
    this.#stopFor("cancelled", "cancelled", this.#options.kill_grace_ms);
  }

  /** The worker needs the slot: the job goes back to the queue. */
  giveBack(grace_ms: number): void {
    this.#stopFor("returned", "returned to the queue", grace_ms);
  }

  /** Like giveBack, without asking the job. */
  kill(): void {
    if (this.#run?.exited !== true) this.#stop ??= { cause: "returned", why: "returned to the queue" };
    this.#run?.kill();
  }

  async #execute(wakeLogs: () => void): Promise<AttemptEnd> {
    const { clock, scratch, store_url, log_dir, handler } = this.#options;
    const { job, token, grant } = this.lease;
    if (token > 1) {
      const leftovers = { job: job.id, before_token: token, process: grant.previous };
      await killLeftovers(leftovers, new MarkedLeftovers(store_url), clock);
    }
    // A stop may have come while the leftovers of an earlier attempt were cleared away, or the end of the lease.
    if (this.lease.remaining() <= 0) this.#lose("it ran out before the start");
    if (this.#stop !== null) return this.#describe(NEVER_RAN, null);
    const output_path = outputPath(scratch, job.id, token);
    const argv = [...handler, ...job.argv];
    const unwritable = (error: unknown) => this.#say("warn", `its log file can't be written: ${errorText(error)}`);
    const file = openLogFile(log_dir, job.id, token, argv, unwritable);
    this.#attach();
    this.#run = new Run(
      {
        argv,
        cwd: job.cwd,
        env: jobEnvironment(job.env, jobVariables(this.lease, this.#options, output_path)),
        input: job.input,
        pty: job.settings.pty,
        onOutput: (stream, bytes) => {
          file?.write(bytes);
          this.#printed(stream, bytes);
          wakeLogs();
          return this.#options.onOutput?.(stream, bytes);
        },
      },
      clock,
      {
        onStart: (pid) => this.#started(pid),
        onLeftover: () => this.#say("warn", "ended and left processes behind; stopping them"),
      },
    );
    const exit = await this.#run.done;
    this.#heartbeat.beat(0);
    this.#release();
    const { output_limit_bytes } = job.settings;
    const output = await readOutput(output_path, output_limit_bytes, (why) => this.#say("warn", why));
    const end = this.#describe(exit, output);
    file?.close(end.error ?? "exit code 0");
    return end;
  }

  #attach(): void {
    const { clock, manager, interval_ms } = this.#options;
    const { lease } = this;
    const grace_ms = forcedGrace(this.#options.kill_grace_ms);
    const extender = new LeaseExtender(manager, {
      clock,
      interval_ms: interval_ms(lease.lease_ms),
      onLost: (_lease, reason) => this.#lose(reason),
      onCancel: () => this.cancel(),
      onFailure: (_lease, error, in_a_row) => this.#extensionFailed(error, in_a_row),
    });
    this.#detach = extender.attach(lease, this.#heartbeat);
    this.#silence = new SilenceWatch({
      lease,
      heartbeat: this.#heartbeat,
      manager,
      clock,
      timeout_ms: lease.job.settings.timeout_ms,
      grace_ms,
      onHalfSilent: () => this.#say("warn", silenceWarning(lease, this.#heartbeat.elapsed(), this.#beat)),
      onStop: (cause) => this.#stopFor(cause, this.#whyStopped(cause), grace_ms),
      onLost: (why) => this.#lose(why),
    });
  }

  #release(): void {
    this.#cancelTimers();
    this.#detach();
    this.#silence?.end();
  }

  #started(pid: number): void {
    const { clock, manager, interval_ms } = this.#options;
    const { job, token, lease_ms } = this.lease;
    // Its start time is asked for later: while a program is being loaded the kernel keeps whoever asks waiting.
    this.#process = { boot_id: bootId(), pid, pid_started: 0 };
    this.#heartbeat.beat(0);
    const cancelNote = clock.after(NOTE_AFTER_MS, () => {
      const process = (this.#process = identify(pid));
      manager.store.noteProcess([{ id: job.id, token, ...process }]).catch(() => {});
    });
    let cancelBeat = () => {};
    const beatOn = () => {
      cancelBeat = clock.after(interval_ms(lease_ms), () => {
        this.#heartbeat.beat();
        beatOn();
      });
    };
    if (this.#beat === "timer") beatOn();
    this.#cancelTimers = () => {
      cancelNote();
      cancelBeat();
    };
  }

  #printed(stream: Stream, bytes: Uint8Array): void {
    this.#capture.add(stream, bytes, this.lease.storeTime());
    this.#tail.add(bytes);
    const counts = this.#beat === "output" || (this.#beat === "stdout" && stream === "stdout");
    if (counts) this.#heartbeat.beat(this.#lines[stream].count(bytes));
  }

  #stopFor(cause: Stop, why: string, grace_ms: number | null): void {
    if (this.#stop?.cause === "lost" || this.#run?.exited === true) return;
    this.#stop ??= { cause, why };
    // Beats no longer count, or they would cut short the time that stopping was given.
    this.#detach();
    this.#silence?.stopping(grace_ms);
    this.#run?.stop(grace_ms);
  }

  /** Somebody else may start the job any moment: no asking, no grace. */
  #lose(why: string): void {
    if (this.#stop?.cause !== "lost") this.#say("error", `lost its lease (${why}); killing it`);
    this.#stop = { cause: "lost", why: `lease lost: ${why}` };
    this.#release();
    this.#run?.kill();
  }

  #describe(exit: Exit, output: string | null): AttemptEnd {
    const end = { ...exit, output, last_line: this.#tail.lines(1)[0] ?? null, beats: this.#heartbeat.beats };
    const stop = this.#stop;
    if (stop === null || exit.cause === "not_found" || exit.cause === "not_executable") return end;
    // It had succeeded before the kill arrived; whether that still counts is for the fence to say.
    if (stop.cause === "lost") return exit.cause === "success" ? end : { ...end, cause: "expired", error: stop.why };
    // The code by which timeout(1) tells it, whatever the program made of being stopped.
    return { ...end, exit_code: stop.cause === "timeout" ? 124 : end.exit_code, cause: stop.cause, error: stop.why };
  }

  async #settle(end: AttemptEnd, finishLogs: () => Promise<void>): Promise<Release> {
    const within_ms = this.#options.patience_ms?.() ?? 0;
    // One that was stopped says nothing about how long it would have been silent.
    const gaps = end.cause === "success" || end.cause === "exit" ? (this.#recorder?.gaps ?? null) : null;
    const ending = { end, process: this.#process, last_lines: this.#tail.lines(LAST_LINES), within_ms, gaps };
    const { clock, hurried = () => false } = this.#options;
    const trouble = new RepeatedTrouble(clock);
    const onFailure = (error: unknown) => {
      if (trouble.again() !== null)
        this.#say("warn", `its end could not be written, trying again: ${errorText(error)}`);
    };
    const release = await persist({ clock, lease: this.lease, hurried, onFailure }, async () => {
      await finishLogs();
      return this.#options.manager.release(this.lease, ending);
    });
    if (release.status === "stale") this.#say("warn", "its result came too late and is kept as a stale checkpoint");
    return release;
  }

  #whyStopped(cause: "silent" | "timeout"): string {
    if (cause === "timeout") return `timeout after ${formatDuration(this.lease.job.settings.timeout_ms ?? 0)}`;
    return silenceText(this.lease, this.#heartbeat.elapsed(), this.#tail.lines(1)[0] ?? null, this.#beat);
  }

  #extensionFailed(error: unknown, in_a_row: number): void {
    if (in_a_row === 1) this.#trouble.over();
    if (this.#trouble.again() === null) return;
    const often = in_a_row >= FAILURES_REPORTED;
    const row = often ? `, ${in_a_row} times in a row` : "";
    this.#say(often ? "error" : "warn", `its lease could not be extended${row}: ${errorText(error)}`);
  }

  #say(level: Parameters<Report>[0], text: string): void {
    this.#options.report(level, `job ${this.lease.job.id}: ${text}`);
  }
}
