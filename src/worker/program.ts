/** The program of a granted job: its words, folder, environment, input and fence, as its worker starts it. */

import { extensionOf } from "../core/calibration.ts";
import { needVariables } from "../core/resources.ts";
import type { Lease } from "../leasing/lease.ts";
import { leftoverName } from "../recovery/leftovers.ts";
import { jobEnvironment, jobVariables } from "../runner/environment.ts";
import { ResultFile } from "../runner/result_file.ts";
import type { Program } from "../runner/run.ts";
import type { AttemptOptions } from "./attempt_options.ts";
import type { AttemptOwner } from "./owner.ts";

type Told = Pick<AttemptOptions, "times" | "store_url" | "handler" | "foreground">;

/** `input`: of a hook, the log that it is about. */
export function programOf(
  { job, grant, lease_ms }: Lease,
  told: Told,
  owner: AttemptOwner,
  input: Uint8Array | null = job.input,
): Program {
  const { store_url, handler = [], foreground } = told;
  const { store_id, scratch, fences, manager } = owner;
  const { worker_id } = manager;
  const { checkpoint } = grant;
  const result = new ResultFile(scratch, job.id, job.token);
  const times = extensionOf(lease_ms, job.settings, told.times);
  const about = { job, worker_id, store_url, store_id, checkpoint, output_path: result.path, ...times };
  return {
    ...foreground,
    // A hook is a command, whatever else this worker does with the words of jobs.
    argv: job.settings.hook === null ? [...handler, ...job.argv] : job.argv,
    cwd: job.cwd,
    env: jobEnvironment(job.env, { ...jobVariables(about), ...needVariables(grant.held) }),
    input,
    pty: job.settings.pty,
    fence: () => fences.take(job.settings),
    name: leftoverName(store_id, job.id, job.token),
    result,
    result_limit_bytes: job.settings.output_limit_bytes,
  };
}
