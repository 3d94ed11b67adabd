/** The settings of each command that has any, by the names of its flags. Loaded only where something is set. */

import { JOB_FIELD_NAMES, jobField } from "../core/job_fields.ts";
import { SWITCH } from "../core/values.ts";
import { nearest } from "../core/nearest.ts";
import { PLAIN_VARIABLES, variableName, type Table } from "./settings.ts";

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

const PREFIX = "LEASE_";

/** Of these variables, those that set nothing but look like one that does, each with that one. */
export function misspelt(names: readonly string[]): (readonly [name: string, meant: string])[] {
  const settings = Object.entries(COMMAND_SETTINGS).flatMap(([command, table]) =>
    Object.keys(table).map((key) => variableName(command, key)),
  );
  const known = new Set([...PLAIN_VARIABLES, ...settings]);
  // Without what all of them begin with, which would make short ones look alike.
  const parts = [...known].map((name) => name.slice(PREFIX.length));
  return names
    .filter((name) => !known.has(name))
    .map((name) => [name, nearest(name.slice(PREFIX.length), parts)] as const)
    .flatMap(([name, meant]) => (meant === null ? [] : [[name, PREFIX + meant] as const]));
}
