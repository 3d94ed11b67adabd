/** What every setting is at this moment and who says so: the flag, a variable, a file, or nobody. */

import { storeLocation, type Env } from "../../config/location.ts";
import { COMMAND_SETTINGS, SHARED_SETTINGS, variableName } from "../../config/settings.ts";
import type { Config } from "../../config/file.ts";
import { errorText } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import type { Finding } from "../../store/queries.ts";
import type { EffectiveSetting } from "../../view/doctor.ts";
import type { AnyCommand, Commands } from "../../cli/command.ts";
import { parseLine, type ParsedLine } from "../../cli/strict.ts";
import { fillIn, loadConfig, type Origins } from "../../cli/settings.ts";
import { refusedSettings } from "./setting_checks.ts";

interface Effective {
  settings: EffectiveSetting[];
  findings: Finding[];
  /** Where the store is by all that; null when nobody says and there is no home folder. */
  store: string | null;
}

/** What `lease doctor` itself was given. */
interface Given {
  args: Readonly<Record<string, unknown>>;
  given: ReadonlyMap<string, string>;
}

export async function effectiveSettings(doctor: Given, commands: Commands, env: Env): Promise<Effective> {
  const { config, finding } = await configOrFinding(doctor.args["config"] as string | undefined, env);
  const findings = [finding, ...strangers(env)];
  const settings: EffectiveSetting[] = [];
  const add = async (table: string | null, keys: readonly string[]) => {
    const command = await commands[table ?? "doctor"]?.load();
    if (command === undefined) return;
    const scanned = nothingGiven(command);
    for (const [key, written] of table === null ? doctor.given : []) {
      scanned.given.set(key, written);
      scanned.args[key] = doctor.args[key] as string | boolean;
    }
    try {
      const origins = fillIn(command, scanned, env, config);
      settings.push(...keys.map((key) => settingOf(table, key, command, scanned, origins)));
      findings.push(...refusedSettings(command, scanned, origins, env).map(broken));
    } catch (error) {
      findings.push(broken(errorText(error)));
    }
  };
  await add(null, Object.keys(SHARED_SETTINGS));
  for (const [name, table] of Object.entries(COMMAND_SETTINGS)) await add(name, Object.keys(table));
  const chosen = settings.find(({ command, name }) => command === null && name === "store");
  const store = locate(chosen, env);
  if (chosen?.from === "default") chosen.value = store;
  return { settings, findings, store };
}

async function configOrFinding(
  flag: string | undefined,
  env: Env,
): Promise<{ config: Config | null; finding: Finding }> {
  try {
    const config = await loadConfig(flag, env);
    return { config, finding: { name: "config", level: "ok", value: config?.path ?? "no lease.toml", advice: null } };
  } catch (error) {
    return { config: null, finding: broken(errorText(error)) };
  }
}

function broken(problem: string): Finding {
  return {
    name: "config",
    level: "error",
    value: problem,
    advice: "commands that need it refuse to start: correct it",
  };
}

const NOT_SETTINGS = new Set(
  "CONFIG JOB_ID ATTEMPT TOKEN QUEUE TASK KEY WORKER_ID CHECKPOINT OUTPUT".split(" ").map((name) => `LEASE_${name}`),
);

/** Variables that look like settings and are none: most likely a slip. */
function strangers(env: Env): Finding[] {
  const known = [
    ...Object.keys(SHARED_SETTINGS).map((key) => variableName(null, key)),
    ...Object.entries(COMMAND_SETTINGS).flatMap(([name, table]) =>
      Object.keys(table).map((key) => variableName(name, key)),
    ),
  ];
  const names = Object.keys(env).filter(
    (name) => /^LEASE_\w/.test(name) && !known.includes(name) && !NOT_SETTINGS.has(name),
  );
  return names.map((name) => {
    const meant = nearest(name, known);
    const advice = meant === null ? "unset it, if it was meant for lease" : `did you mean ${meant}?`;
    return { name: "environment", level: "warn", value: `${name} is not a setting`, advice };
  });
}

function nothingGiven(command: AnyCommand): ParsedLine {
  return parseLine(command, []);
}

function settingOf(
  table: string | null,
  key: string,
  command: AnyCommand,
  scanned: ParsedLine,
  origins: Origins,
): EffectiveSetting {
  const origin = origins.get(key);
  const list = scanned.lists[key] ?? [];
  const value = command.repeat.includes(key) ? (list.length === 0 ? undefined : list.join(",")) : scanned.args[key];
  const from = scanned.given.has(key) ? "flag" : (origin?.from ?? "default");
  return {
    command: table,
    name: key,
    value: value === undefined ? (command.flags[key]?.fallback ?? null) : String(value),
    from,
    place: origin?.place ?? null,
  };
}

function locate(store: EffectiveSetting | undefined, env: Env): string | null {
  if (store !== undefined && store.from !== "default") return store.value;
  try {
    return storeLocation(undefined, env);
  } catch {
    return null;
  }
}
