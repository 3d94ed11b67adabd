/** Whether a command would accept what the environment and lease.toml say, for somebody who asks before it is started. */

import { calibrate } from "../../core/calibration.ts";
import { checkName } from "../../core/check_job.ts";
import { errorText } from "../../core/errors.ts";
import { draftJob, JOB_FIELDS } from "../../core/job_fields.ts";
import { ENV, readValue } from "../../core/values.ts";
import type { Env } from "../../config/location.ts";
import type { AnyCommand } from "../../cli/command.ts";
import { nameOrigin, readFlag, type Origins } from "../../cli/settings.ts";
import type { ParsedLine } from "../../cli/strict.ts";

const NOTHING_ELSE = { folder: String, moment: Number, input: () => new Uint8Array() };

/** One line for each value that would be refused. */
export function refusedSettings(command: AnyCommand, line: ParsedLine, origins: Origins, env: Env): string[] {
  const problems: string[] = [];
  const attempt = (read: () => unknown) => {
    try {
      return read();
    } catch (error) {
      problems.push(errorText(nameOrigin(error, command, origins)));
      return undefined;
    }
  };
  const read: Record<string, unknown> = {};
  for (const key of origins.keys()) {
    for (const text of command.repeat.includes(key) ? (line.lists[key] ?? []) : [line.args[key]]) {
      if (key === "queue" || key === "task") attempt(() => checkName(key, String(text)));
      read[key] = attempt(() => readFlag(command, key, text, origins.get(key)?.label));
      if (key === "env" && read[key] !== undefined) attempt(() => takeAlong(String(text), env));
    }
  }
  // Only where each of them could be read do the rules between them mean anything.
  if (problems.length === 0 && origins.size > 0) attempt(() => calibrate(timesOf(command, read)));
  return problems;
}

function takeAlong(text: string, env: Env): void {
  JOB_FIELDS.env.set(draftJob("/"), readValue(ENV, text, "--env"), "--env", { ...NOTHING_ELSE, env });
}

function timesOf({ meta }: AnyCommand, { lease, interval, every, grace }: Readonly<Record<string, unknown>>) {
  const time = (value: unknown) => (typeof value === "number" ? value : null);
  if (meta.name === "watchdog") return { sweep_every_ms: time(every), sweep_grace_ms: time(grace) };
  return { lease_ms: time(lease), interval_ms: time(interval) };
}
