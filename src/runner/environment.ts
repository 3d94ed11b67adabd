/** What a job sees in its environment: the worker's own, what the job brought, and what is said about it. */

import process from "node:process";
import type { Job } from "../core/job.ts";

export interface JobVariables {
  job: Pick<Job, "id" | "token" | "queue" | "task" | "key">;
  worker_id: string;
  store_url: string;
  /** What its processes are known by, whatever the store is called. */
  store_id: string;
  /** The last progress checkpoint of earlier attempts. */
  checkpoint: string | null;
  output_path: string;
  /** For `lease beat`: what a beat adds, and how often at the most. */
  interval_ms: number;
  extension_ms: number;
}

/** Null: the variable is not set, even if the worker has it. */
export function jobVariables(about: JobVariables): Record<string, string | null> {
  const { job, worker_id, store_url, store_id, checkpoint, output_path, interval_ms, extension_ms } = about;
  return {
    LEASE_JOB_ID: String(job.id),
    LEASE_ATTEMPT: String(job.token),
    LEASE_TOKEN: String(job.token),
    LEASE_QUEUE: job.queue,
    LEASE_TASK: job.task,
    LEASE_KEY: job.key,
    LEASE_STORE: store_url,
    LEASE_STORE_ID: store_id,
    LEASE_WORKER_ID: worker_id,
    LEASE_CHECKPOINT: checkpoint,
    LEASE_OUTPUT: output_path,
    LEASE_INTERVAL: `${interval_ms}ms`,
    LEASE_EXTENSION: `${extension_ms}ms`,
  };
}

let inherited: Record<string, string> | null = null;

/** The worker's environment, what the job brought, and the variables by which it can ask about itself (null: unset). */
export function jobEnvironment(
  own: Readonly<Record<string, string>>,
  about: Readonly<Record<string, string | null>>,
): Record<string, string> {
  // Copied once: reading all of process.env is slow, and ours does not change.
  inherited ??= Object.fromEntries(
    Object.entries(process.env).filter((pair): pair is [string, string] => pair[1] !== undefined),
  );
  const env: Record<string, string> = { ...inherited, ...own };
  for (const name in about) {
    const value = about[name];
    if (value !== null && value !== undefined) env[name] = value;
    // Only what is there: an object that something was deleted from is slow ever after.
    else if (name in env) delete env[name];
  }
  return env;
}
