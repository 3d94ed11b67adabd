/**
 * Which flags can also be set by the environment and by lease.toml: those of every command at the top of the file, the
 * others in a table with the command's name. `trust_store` is not among them, and never will be: whoever could write
 * the file would say by it that they may.
 *
 * Names are those of the flags, in snake_case; LEASE_STORE, LEASE_WORKER_SLOTS. The command's name in the variable
 * keeps it apart from what a job is told about itself (LEASE_QUEUE, LEASE_TASK): what a job enqueues does not go to the
 * job's own queue.
 */

/**
 * What a value may be. `text`: text or a number, read like the flag's. `switch`: true or false. `list`: several texts.
 * `path`: a file, in lease.toml from where that is. `place`: the same, or an address.
 */
export type SettingKind = "text" | "switch" | "list" | "path" | "place";

export type Table = Readonly<Record<string, SettingKind>>;

export const SHARED_SETTINGS = { store: "place", color: "text", verbose: "switch" } as const satisfies Table;

/** What a job is told about itself, by the part behind LEASE_. */
const TOLD_TO_JOBS = [
  "JOB_ID",
  "ATTEMPT",
  "TOKEN",
  "QUEUE",
  "TASK",
  "KEY",
  "STORE_ID",
  "WORKER_ID",
  "INTERVAL",
  "EXTENSION",
  "CHECKPOINT",
  "OUTPUT",
  "SCHEDULE",
  "SCHEDULED_AT",
];
/** Those of every command, and one that its command reads by itself: no file should have it. */
const READ = ["STORE", "COLOR", "VERBOSE", "CONFIG", "UI_TOKEN"];
export const PLAIN_VARIABLES = [...READ, ...TOLD_TO_JOBS].map((name) => `LEASE_${name}`);
/** Of what there may be more than one. */
const FAMILIES = /^LEASE_(?:NEED|FAILED|ARRAY)_/;

/** One that is ours and sets no flag of a single command. */
export function isPlainVariable(name: string): boolean {
  return PLAIN_VARIABLES.includes(name) || FAMILIES.test(name);
}

/** The variable that sets a flag, of one command or of all. */
export function variableName(command: string | null, key: string): string {
  return (command === null ? `LEASE_${key}` : `LEASE_${command}_${key}`).toUpperCase();
}
