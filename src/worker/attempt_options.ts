/** What a worker is told that is the same for all its attempts: a role's flags, and what it lends to them. */

import type { LeaseTimes } from "../core/calibration.ts";
import type { Clock } from "../core/clock.ts";
import type { Beat, Grace } from "../core/job.ts";
import type { Report } from "../core/report.ts";
import type { SpawnOptions } from "../platform/platform.ts";
import type { Handling } from "./in_process.ts";

export interface AttemptOptions {
  clock: Clock;
  report: Report;
  /** What LEASE_STORE tells the job. */
  store_url: string;
  times: LeaseTimes;
  /** Between TERM and KILL of a job that is stopped, where neither it nor the cancel says. */
  kill_grace_ms: Grace;
  /** Goes before the job's own words. */
  handler?: readonly string[];
  /** Runs the jobs in this process, instead of their commands. */
  handling?: Handling;
  /** How long the extension of a beat may wait for others to share a commit with. */
  extend_within_ms?: number;
  /** For jobs that set none. */
  beat?: Beat;
  /** Whoever reads the reports wants to hear of every beat. */
  tells_beats?: boolean;
  /** The lease of jobs that set none is learned. */
  learn?: boolean;
  /** This process has no children but its jobs, and may become the parent of what those leave behind. */
  adopts?: boolean;
  /** Where whole logs are kept as plain files. */
  log_dir?: string | null;
  /** What somebody who runs it in the foreground lends to it. */
  foreground?: Pick<SpawnOptions, "inherits_stdin" | "terminal">;
}
