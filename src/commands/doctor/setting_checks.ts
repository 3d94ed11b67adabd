/**
 * Whether a command would accept what the environment and lease.toml say, for somebody who asks before it is started.
 * By what the flag's help calls its value: the readers are those of the commands, without the limits that only they know.
 */

import { calibrate } from "../../core/calibration.ts";
import { parseDuration } from "../../core/duration.ts";
import {
  AGE,
  BACKOFF,
  DURATION,
  ENV,
  EXIT_RANGES,
  GRACE,
  integer,
  LEASE,
  readValue,
  SIZE,
  type Value,
  type Variables,
} from "../../core/values.ts";
import { errorText } from "../../core/errors.ts";
import { checkName } from "../../core/check_job.ts";
import { draftJob, JOB_FIELDS } from "../../core/job_fields.ts";
import type { Env } from "../../config/location.ts";
import { type AnyCommand } from "../../cli/command.ts";
import { flagName } from "../../cli/flags.ts";
import type { ParsedLine } from "../../cli/strict.ts";
import { nameOrigin, type Origins } from "../../cli/settings.ts";

const NOTHING_ELSE = { folder: String, moment: Number, input: () => new Uint8Array() };

/** Null: any text will do. */
export const READERS: Readonly<Record<string, Value<unknown> | null>> = {
  ...Object.fromEntries(
    [integer(), DURATION, BACKOFF, GRACE, LEASE, AGE, SIZE, EXIT_RANGES, ENV].map((value) => [value.hint, value]),
  ),
  NAME: null,
  FOLDER: null,
  "PATH|URL": null,
};

/** One line for each value that would be refused. */
export function refusedSettings(command: AnyCommand, scanned: ParsedLine, origins: Origins, env: Env): string[] {
  const problems: string[] = [];
  const attempt = (read: () => unknown) => {
    try {
      read();
    } catch (error) {
      problems.push(errorText(nameOrigin(error, command, origins)));
    }
  };
  for (const key of origins.keys()) {
    const values = command.repeat.includes(key) ? (scanned.lists[key] ?? []) : [scanned.args[key]];
    const reader = READERS[command.flags[key]?.valueHint ?? ""];
    for (const value of values.filter((text) => typeof text === "string")) {
      if (key === "queue" || key === "task") attempt(() => checkName(key, value));
      attempt(() => {
        const read = reader && readValue(reader, value, `--${flagName(key)}`);
        if (reader === ENV) JOB_FIELDS.env.set(draftJob("/"), read as Variables, "--env", { ...NOTHING_ELSE, env });
      });
    }
  }
  // Only where each of them could be read do the rules between them mean anything.
  if (problems.length === 0 && origins.size > 0) attempt(() => calibrate(timesOf(command, scanned)));
  return problems;
}

function timesOf({ meta }: AnyCommand, { args }: ParsedLine) {
  const read = (key: string) => {
    const text = args[key];
    return typeof text === "string" && text !== "auto" ? parseDuration(text, key) : null;
  };
  if (meta.name === "watchdog") return { sweep_every_ms: read("every"), sweep_grace_ms: read("grace") };
  return { lease_ms: read("lease"), interval_ms: read("interval") };
}
