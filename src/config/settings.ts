/**
 * Which flags can also be set by the environment and by lease.toml: those of every command at the top of the file, the
 * others in a table with the command's name. `trust_store` is not among them, and never will be: whoever could write
 * the file would say by it that they may.
 *
 * Names are those of the flags, in snake_case; LEASE_STORE, LEASE_WORKER_SLOTS. The command's name in the variable
 * keeps it apart from what a job is told about itself (LEASE_QUEUE, LEASE_TASK): what a job enqueues does not go to the
 * job's own queue.
 */

import { JOB_FIELD_NAMES, jobField } from "../core/job_fields.ts";
import { SWITCH } from "../core/values.ts";

/**
 * What a value may be. `text`: text or a number, read like the flag's. `switch`: true or false. `list`: several texts.
 * `path`: a file, in lease.toml from where that is. `place`: the same, or an address.
 */
export type SettingKind = "text" | "switch" | "list" | "path" | "place";

export type Table = Readonly<Record<string, SettingKind>>;

export const SHARED_SETTINGS = { store: "place", color: "text", verbose: "switch" } as const satisfies Table;

const JOB_SETTINGS: Table = Object.fromEntries(
  JOB_FIELD_NAMES.map((name) => [name, jobField(name)] as const)
    .filter(([, { configurable }]) => configurable)
    .map(([name, { value, repeatable }]) => [name, repeatable ? "list" : value === SWITCH ? "switch" : "text"]),
);

const texts = (...names: string[]): Table => Object.fromEntries(names.map((name) => [name, "text"]));

export const COMMAND_SETTINGS: Readonly<Record<string, Table>> = {
  enqueue: JOB_SETTINGS,
  run: { ...JOB_SETTINGS, if_done: "text", remote: "switch", grace: "text" },
  worker: {
    queue: "list",
    ...texts("task", "slots", "min", "max", "scale_up_at", "scale_down_after", "name"),
    log_dir: "path",
    log_format: "text",
    preempt: "switch",
    poll: "text",
    sweep: "switch",
    ...texts("drain", "grace", "lease", "interval", "beat"),
  },
  watchdog: {
    ...texts("every", "grace"),
    checkpoints: "switch",
    ...texts("keep_checkpoints", "prune", "log_format"),
  },
};

/** The variable that sets a flag, of one command or of all. */
export function variableName(command: string | null, key: string): string {
  return (command === null ? `LEASE_${key}` : `LEASE_${command}_${key}`).toUpperCase();
}
