/**
 * `lease doctor`: looks at everything that can be wrong with a store, its surroundings and the settings, says what to do,
 * and what every setting is at this moment and who says so: the flag, a variable, a file, or nobody.
 */

import { existsSync, statfsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Config } from "../config/file.ts";
import { storeLocation, type Env } from "../config/location.ts";
import { COMMAND_SETTINGS, strangeVariables } from "../config/command_settings.ts";
import { SHARED_SETTINGS } from "../config/settings.ts";
import { calibrate } from "../core/calibration.ts";
import { checkName } from "../core/check_job.ts";
import { errorText, LeaseError } from "../core/errors.ts";
import { draftJob } from "../core/draft.ts";
import { JOB_FIELDS } from "../core/job_fields.ts";
import { scalingOf } from "../core/scaling.ts";
import { ALERTS, ENV, readValue, type AlertRules } from "../core/values.ts";
import { alerts } from "../lookup/alerts.ts";
import { auditFindings } from "../lookup/audit.ts";
import { checkup, clock, okFinding } from "../lookup/checkup.ts";
import { sqliteVersion } from "../platform/build_info.ts";
import { systemClock } from "../platform/clock.ts";
import type { Finding } from "../store/queries.ts";
import type { Store } from "../store/store.ts";
import { diagnosisJson, diagnosisText, isHealthy, type EffectiveSetting } from "../view/doctor.ts";
import { jsonLine } from "../view/json.ts";
import { visible } from "../view/text.ts";
import { command, type AnyCommand, type Commands } from "../cli/command.ts";
import { COLOR_CHOICES, flagName, JSON_FLAG, valueFlag } from "../cli/flags.ts";
import { isTerminal, screenOf, storeGrants, withStore, type Io } from "../cli/io.ts";
import { ERASE_LINE } from "../cli/progress.ts";
import { fillIn, loadConfig, nameOrigin, readFlag, type Origins } from "../cli/settings.ts";
import { parseLine, type ParsedLine } from "../cli/strict.ts";

const FAILED = 125;

export default command({
  meta: { name: "doctor", description: "Look for what is wrong with the store, its workers and the settings" },
  args: {
    grants: { type: "boolean", description: "Print the SQL by which a DBA makes roles and a schema for the store" },
    full: {
      type: "boolean",
      description: "Read the whole store, however large: every page, every link, every count",
    },
    audit: {
      type: "boolean",
      description: "Hold the store's whole history against what lease promises, and tell that alone",
    },
    alert: valueFlag(ALERTS, "Only tell what breaks these rules, and exit with 1 then: for cron and monitors"),
    json: JSON_FLAG,
  },
  rest: "none",
  ignores_config: true,
  examples: [
    ["lease doctor", "what is wrong, what to do, and where each setting comes from"],
    [
      "lease doctor --grants --store postgres://app@db.example/jobs | psql jobs",
      "roles that may do no more than needed",
    ],
    ["lease doctor --alert stale=5m,oldest=1h,failed=10/1h", "quiet unless somebody should look"],
    ["lease doctor --audit", "was any job ever granted twice, lost, or run before its turn?"],
    ["lease doctor --json | jq '.findings[] | select(.level != \"ok\")'", "for a monitor"],
  ],
  notes: [
    "Changes nothing, but that a store of an older lease gets the schema of this one, as by any command. A store of more than " +
      "32 MiB is only glanced into, which takes a moment whatever its size; --full reads all of it, and says at a terminal how " +
      "far it is.",
  ],
  exit_codes: [
    ["0", "all is well, or there are only warnings"],
    ["1", "something is wrong, a promise was broken, there is no store yet, or a rule of --alert is broken"],
    ["125", "the store can't be opened"],
  ],
  run: async ({ args, given, commands, io }) => {
    const { settings, findings, store } = await effectiveSettings({ args, given }, commands, io.env);
    if (args.grants) {
      io.stdout(await storeGrants(store ?? undefined, io));
      return 0;
    }
    if (args.alert !== undefined)
      return tellAlerts(args.alert, { json: args.json, store, trust: args.trust_store }, io);
    const steps = showingSteps(args.full, io);
    const look = args.audit ? auditFindings : (of: Store) => of.diagnose({ full: args.full, ...steps });
    const looked = await lookAtStore(store, args.trust_store, io, look, !args.audit);
    if (steps.step !== undefined) io.stderr(ERASE_LINE);
    const all = args.audit ? looked.findings : [...findings, ...looked.findings];
    const diagnosis = {
      findings: all.toSorted((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level)),
      settings: args.audit ? [] : settings,
    };
    const chosen = settings.find(({ command: of, name }) => of === null && name === "color")?.value;
    const color = COLOR_CHOICES.find((choice) => choice === chosen) ?? args.color;
    const screen = screenOf(color, io, systemClock.wall_ms());
    io.stdout(args.json ? jsonLine(diagnosisJson(diagnosis)) : diagnosisText(diagnosis, screen));
    return looked.failure ?? (isHealthy(diagnosis) ? 0 : 1);
  },
});

const LEVELS = ["error", "warn", "ok"];

/** Nothing at all when all is well, so that cron sends no mail. */
async function tellAlerts(
  rules: AlertRules,
  { json, store: location, trust }: { json: boolean; store: string | null; trust: boolean },
  io: Io,
): Promise<number> {
  const shared = { store: location ?? undefined, trust_store: trust };
  const found = await withStore(shared, io, { create: false }, ({ store }) => alerts(store, rules));
  if (json) io.stdout(jsonLine({ alerts: found }));
  else for (const { rule, text } of found) io.stdout(`${rule}: ${visible(text)}\n`);
  return found.length === 0 ? 0 : 1;
}

type Look = (store: Store) => Promise<Finding[]>;

/** How far it is, where somebody looks on. */
function showingSteps(full: boolean, io: Io): { step?: (what: string) => void } {
  return full && isTerminal(2) ? { step: (what) => io.stderr(`${ERASE_LINE}lease: looking at ${what}`) } : {};
}

/** `whole`: with all that can be told beside what the look tells. */
async function lookAtStore(location: string | null, trust_store: boolean, io: Io, look: Look, whole: boolean) {
  const wall_ms = systemClock.wall_ms();
  try {
    const shared = { store: location ?? undefined, trust_store };
    const findings = await withStore(shared, io, { create: false }, async ({ store, store_url }) => [
      ...(await look(store)),
      ...(whole ? await checkup(store, store_url, wall_ms) : []),
    ]);
    return { findings, failure: null };
  } catch (error) {
    const failure = error instanceof LeaseError ? error.exit_code : FAILED;
    return { findings: withoutStore(error, location, wall_ms), failure };
  }
}

/** What can be told all the same. */
function withoutStore(error: unknown, location: string | null, wall_ms: number): Finding[] {
  return [
    { name: "store", level: "error", value: errorText(error), advice: null },
    okFinding("sqlite", sqliteVersion()),
    clock({ now_ms: wall_ms, wall_ms, latest_ms: 0, workers: [] }),
    ...disk(location),
  ];
}

function disk(location: string | null): Finding[] {
  if (location === null || location.includes("://")) return [];
  let folder = dirname(resolve(location));
  while (!existsSync(folder) && folder !== dirname(folder)) folder = dirname(folder);
  const { bavail, bsize } = statfsSync(folder);
  return [okFinding("disk", `${Math.round((bavail * bsize) / 2 ** 20)} MiB free`)];
}

/** What `lease doctor` itself was given. */
interface Given {
  args: Readonly<Record<string, unknown>>;
  given: ReadonlyMap<string, string>;
}

/** `store` is where it is by all that; null when nobody says and there is no home folder. */
async function effectiveSettings(doctor: Given, commands: Commands, env: Env) {
  let config: Config | null = null;
  const findings: Finding[] = [];
  try {
    config = await loadConfig(doctor.args["config"] as string | undefined, env);
    findings.push(okFinding("config", config?.path ?? "no lease.toml"));
  } catch (error) {
    findings.push(broken(errorText(error)));
  }
  findings.push(...strangers(env));
  const settings: EffectiveSetting[] = [];
  const add = async (table: string | null, keys: readonly string[]) => {
    const of = await commands[table ?? "doctor"]?.load();
    if (of === undefined) return;
    const line = parseLine(of, []);
    for (const [key, written] of table === null ? doctor.given : []) {
      line.given.set(key, written);
      line.args[key] = doctor.args[key];
    }
    try {
      const origins = fillIn(of, line, env, { config, settings: COMMAND_SETTINGS[of.meta.name] });
      settings.push(...keys.map((key) => settingOf(table, key, of, line, origins)));
      findings.push(...refusedSettings(of, line, origins, env).map(broken));
    } catch (error) {
      findings.push(broken(errorText(error)));
    }
  };
  await add(null, Object.keys(SHARED_SETTINGS));
  for (const [name, table] of Object.entries(COMMAND_SETTINGS)) await add(name, Object.keys(table));
  const chosen = settings.find(({ command: of, name }) => of === null && name === "store");
  const store = locate(chosen, env);
  if (chosen?.from === "default") chosen.value = store;
  return { settings, findings, store };
}

function broken(problem: string): Finding {
  const advice = "commands that need it refuse to start: correct it";
  return { name: "config", level: "error", value: problem, advice };
}

function strangers(env: Env): Finding[] {
  return strangeVariables(env).map(({ name, meant }) => {
    const advice = meant === null ? "unset it, if it was meant for lease" : `did you mean ${meant}?`;
    return { name: "environment", level: "warn", value: `${name} is not a setting`, advice };
  });
}

function settingOf(
  table: string | null,
  key: string,
  { repeat, flags }: AnyCommand,
  { args, lists, given }: ParsedLine,
  origins: Origins,
): EffectiveSetting {
  const origin = origins.get(key);
  const list = lists[key] ?? [];
  const value = repeat.includes(key) ? (list.length === 0 ? undefined : list.join(",")) : args[key];
  return {
    command: table,
    name: key,
    value: value === undefined ? (flags[key]?.fallback ?? null) : String(value),
    from: given.has(key) ? "flag" : (origin?.from ?? "default"),
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

const NOTHING_ELSE = { folder: String, moment: Number, input: () => new Uint8Array() };

/** One line for each value that the command would refuse, once it is started. */
function refusedSettings(of: AnyCommand, line: ParsedLine, origins: Origins, env: Env): string[] {
  const problems: string[] = [];
  const attempt = (read: () => unknown) => {
    try {
      return read();
    } catch (error) {
      problems.push(errorText(nameOrigin(error, of, origins)));
      return undefined;
    }
  };
  const read: Record<string, unknown> = {};
  for (const key of origins.keys()) {
    for (const text of of.repeat.includes(key) ? (line.lists[key] ?? []) : [line.args[key]]) {
      if (key === "queue" || key === "task") attempt(() => checkName(key, String(text)));
      read[key] = attempt(() => readFlag(of, key, text, origins.get(key)?.label));
      if (key === "env" && read[key] !== undefined) attempt(() => takeAlong(String(text), env));
    }
  }
  // Only where each of them could be read do the rules between them mean anything.
  if (problems.length > 0 || origins.size === 0) return problems;
  attempt(() => calibrate(timesOf(of, read)));
  if (of.meta.name === "worker") attempt(() => scalingOf(read, (option) => `--${flagName(option)}`));
  return problems;
}

function takeAlong(text: string, env: Env): void {
  JOB_FIELDS.env.set(draftJob("/"), readValue(ENV, text, "--env"), "--env", { ...NOTHING_ELSE, env });
}

function timesOf({ meta }: AnyCommand, read: Readonly<Record<string, unknown>>) {
  const time = (name: string) => (typeof read[name] === "number" ? read[name] : null);
  if (meta.name === "watchdog") return { sweep_every_ms: time("every"), sweep_grace_ms: time("grace") };
  return { lease_ms: time("lease"), interval_ms: time("interval"), extension_ms: time("extension") };
}
