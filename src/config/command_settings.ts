/** The settings of each command that has any, by the names of its flags. Loaded only where something is set. */

import { JOB_FIELD_NAMES, jobField } from "../core/job_fields.ts";
import { SWITCH } from "../core/values.ts";
import type { Env } from "./location.ts";
import { nearest } from "../core/nearest.ts";
import { isPlainVariable, PLAIN_VARIABLES, variableName, type Table } from "./settings.ts";

const JOB_SETTINGS: Table = Object.fromEntries(
  JOB_FIELD_NAMES.map((name) => [name, jobField(name)] as const)
    .filter(([, { configurable }]) => configurable)
    .map(([name, { value, repeatable }]) => [name, repeatable ? "list" : value === SWITCH ? "switch" : "text"]),
);

const texts = (...names: string[]): Table => Object.fromEntries(names.map((name) => [name, "text"]));

export const COMMAND_SETTINGS: Readonly<Record<string, Table>> = {
  enqueue: JOB_SETTINGS,
  run: { ...JOB_SETTINGS, if_done: "text", remote: "switch" },
  worker: {
    queue: "list",
    ...texts("task", "slots", "min", "max", "scale_up_at", "scale_down_after", "name"),
    log_dir: "path",
    log_format: "text",
    preempt: "switch",
    poll: "text",
    sweep: "switch",
    ...texts("aging", "drain", "grace", "lease", "interval", "extension", "beat"),
  },
  watchdog: {
    ...texts("every", "grace"),
    checkpoints: "switch",
    ...texts("keep_checkpoints", "prune", "log_format"),
  },
};

const PREFIX = "LEASE_";

/** Of our variables, those that set nothing and tell nobody anything; most likely a slip, then `meant` is what for. */
export function strangeVariables(env: Env): { name: string; meant: string | null }[] {
  const settings = Object.entries(COMMAND_SETTINGS).flatMap(([command, table]) =>
    Object.keys(table).map((key) => variableName(command, key)),
  );
  const known = new Set([...PLAIN_VARIABLES, ...settings]);
  // Without what all of them begin with, which would make short ones look alike.
  const parts = [...known].map((name) => name.slice(PREFIX.length));
  const strange = Object.keys(env).filter(
    (name) => /^LEASE_\w/.test(name) && !isPlainVariable(name) && !known.has(name),
  );
  return strange.map((name) => {
    const meant = nearest(name.slice(PREFIX.length), parts);
    return { name, meant: meant === null ? null : PREFIX + meant };
  });
}
