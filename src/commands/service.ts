/** `lease service`: units for systemd, printed or written to where it looks for them. */

import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import process from "node:process";
import { forcedGrace } from "../core/calibration.ts";
import { LeaseError, errorText } from "../core/errors.ts";
import { DEFAULT_QUEUE, type Grace } from "../core/job.ts";
import { NAME } from "../core/values.ts";
import { serviceUnits, systemctl, UNIT_MARK, watchdogTimer, workerUnit, type Service } from "../view/service_units.ts";
import { command, type Commands } from "../cli/command.ts";
import { valueFlag } from "../cli/flags.ts";
import { findHandler } from "../cli/handler.ts";
import { storePlace, type Io } from "../cli/io.ts";
import { applySettings, configPath, readFlag } from "../cli/settings.ts";
import { parseLine, type ParsedLine } from "../cli/strict.ts";

const DEFAULT_DRAIN_MS = 30_000;
const UNIT_MODE = 0o644;
/** What the last write and the goodbye may take. */
const STOP_MARGIN_MS = 15_000;

export default command({
  meta: {
    name: "service",
    description: "Print or install systemd units for a worker and the watchdog",
    flags_of: "worker",
  },
  args: {
    install: { type: "boolean", description: "Write them to where systemd looks, instead of printing them" },
    system: { type: "boolean", description: "For the machine, in /etc/systemd/system; else for you alone" },
    as: valueFlag(NAME, "With --system: the user that it runs as", { fallback: "root" }),
    name: valueFlag(NAME, "For a second service: lease-NAME-worker.service"),
    watchdog: {
      type: "boolean",
      default: true,
      description: "Units that sweep every minute",
      negativeDescription: "Without the units that sweep every minute",
    },
  },
  rest: "command",
  operands: "[-- FLAGS OF WORKER…]",
  operand_values: {},
  examples: [
    ["lease service", "what it would be for: lease worker"],
    ["lease service --install -- -j 4", "yours, with four slots"],
    ["lease service --install --name mail -- -q mail -- ./send.sh", "one more, with a handler"],
    ["sudo lease service --install --system --store /var/lib/lease/lease.db", "the machine's, as root"],
  ],
  notes: [
    "The worker tells systemd when it is ready and what it does (systemctl status), and proves every twenty seconds that " +
      "it is not frozen. The store, the settings file and PATH are those that hold where you ask, and are written down.",
  ],
  run: async ({ args, rest, before_dashes, commands, io }) => {
    if (rest.length > 0 && before_dashes !== 0) {
      throw new LeaseError("usage", `service takes the worker's flags behind --: lease service -- -q ${rest[0]}`);
    }
    if (args.as !== undefined && !args.system)
      throw new LeaseError("usage", "--as goes with --system: yours runs as you");
    const { service, secrets } = await planned(args, rest, { commands, io });
    const folder = folders(args.system, io.env).units;
    const units = serviceUnits(service).map(({ file, text }) => ({ path: join(folder, file), text, mode: UNIT_MODE }));
    const files = secrets === null ? units : [secrets, ...units];
    if (!args.install) return print(files, io);
    const written = files.map((file) => ({ ...file, was: write(file) }));
    for (const { path, was } of written) io.stdout(`${path}${was === "unchanged" ? " (unchanged)" : ""}\n`);
    io.stderr(nextSteps(service));
    return 0;
  },
});

interface UnitFile {
  path: string;
  text: string;
  mode: number;
}

interface Asked {
  store: string | undefined;
  config: string | undefined;
  trust_store: boolean;
  name: string | undefined;
  as: string | undefined;
  system: boolean;
  watchdog: boolean;
}

async function planned(args: Asked, words: readonly string[], around: Around) {
  const { io } = around;
  const worker = await workerLine(words, args, around);
  const name = unitName(args.name);
  const { location, secret } = await storePlace(args.store, io);
  const secrets = secret === "" ? null : secretFile(name, location, folders(args.system, io.env).secrets);
  const config = configPath(args.config, io.env);
  const shared = [
    ...(secrets === null ? [`--store=${location}`] : []),
    ...(config === null ? [] : [`--config=${resolve(config)}`]),
    ...(args.trust_store ? ["--trust-store"] : []),
  ];
  const program = ownProgram();
  const service: Service = {
    name,
    scope: args.system ? "system" : "user",
    as: args.as ?? null,
    worker: [...program, "worker", ...shared, ...worker.words],
    watchdog: args.watchdog ? [...program, "watchdog", "--once", ...shared] : null,
    about: worker.about,
    path: io.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin",
    secrets: secrets?.path ?? null,
    networked: location.includes("://"),
    stop_ms: worker.drain_ms + worker.grace_ms + STOP_MARGIN_MS,
  };
  return { service, secrets };
}

function secretFile(name: string, location: string, folder: string): UnitFile {
  return { path: join(folder, `${name}.env`), text: `LEASE_STORE='${location}'\n`, mode: 0o600 };
}

/** They would end it, and systemd would start it again. */
const ENDS = ["once", "until_empty", "max_jobs"] as const;
/** Both the worker and the watchdog need to know them. */
const SHARED = ["store", "config", "trust_store"] as const;

interface Around {
  commands: Commands;
  io: Io;
}

/** What is wrong with the worker's flags is said now, and not by a service that does not start. */
async function workerLine(words: readonly string[], args: Asked, { commands, io }: Around) {
  const worker = await (commands["worker"] as Commands[string]).load();
  const line = parseLine({ ...worker, meta: { name: "lease worker" } }, words);
  refuseFlags(line);
  const flags = words.slice(0, words.length - line.rest.length);
  const handler = findHandler(line.rest, io.env);
  // Only the file: what this shell has set, the service does not see.
  const { HOME, XDG_CONFIG_HOME, LEASE_CONFIG } = io.env;
  line.args["config"] = args.config;
  await applySettings(worker, line, { HOME, XDG_CONFIG_HOME, LEASE_CONFIG });
  const value = (key: string) => readFlag(worker, key, line.args[key], line.given.get(key));
  for (const key in worker.flags) value(key);
  const { queue: queues = [] } = line.lists;
  return {
    words: [...flags, ...handler],
    about: queues.includes("*") ? "all queues" : `queue ${queues.length === 0 ? DEFAULT_QUEUE : queues.join(", ")}`,
    drain_ms: (value("drain") as number | undefined) ?? DEFAULT_DRAIN_MS,
    grace_ms: forcedGrace((value("grace") as Grace | undefined) ?? null),
  };
}

function refuseFlags({ given, args }: ParsedLine): void {
  const has = (flag: string) => given.has(flag);
  const [ending, shared] = [ENDS.find(has), SHARED.find(has)];
  if (ending !== undefined) throw new LeaseError("usage", `a service goes on: leave out ${given.get(ending)}`);
  if (shared !== undefined) {
    const flag = given.get(shared);
    throw new LeaseError(
      "usage",
      `the watchdog needs ${flag} too: write it before the --, lease service ${flag} … -- …`,
    );
  }
  const { log_dir } = args;
  if (typeof log_dir === "string" && !isAbsolute(log_dir)) {
    throw new LeaseError("usage", `a service is in no folder of yours: write --log-dir ${resolve(log_dir)}`);
  }
}

function unitName(name: string | undefined): string {
  if (name === undefined) return "lease";
  if (/^[A-Za-z0-9_.-]{1,64}$/.test(name)) return `lease-${name}`;
  throw new LeaseError("usage", `--name ${JSON.stringify(name)}: systemd takes letters, digits, _, . and -`);
}

/** This very program, as it can be started from anywhere. */
function ownProgram(): string[] {
  const [, script = ""] = process.argv;
  // What is compiled has its script inside.
  const is_compiled = script.startsWith("/$bunfs/") || script === process.execPath;
  return is_compiled ? [process.execPath] : [process.execPath, resolve(script)];
}

function ownFolder(env: Io["env"]): string {
  const { XDG_CONFIG_HOME, HOME } = env;
  if (XDG_CONFIG_HOME?.startsWith("/") === true) return XDG_CONFIG_HOME;
  if (HOME !== undefined && HOME !== "") return join(HOME, ".config");
  throw new LeaseError("usage", "HOME is not set: where would your units be? Or use --system");
}

/** Where systemd looks for units, and where what they need is kept. */
function folders(system: boolean, env: Io["env"]): { units: string; secrets: string } {
  if (system) return { units: "/etc/systemd/system", secrets: "/etc/lease" };
  return { units: join(ownFolder(env), "systemd/user"), secrets: join(ownFolder(env), "lease") };
}

function print(files: readonly UnitFile[], io: Io): number {
  // What is secret stands in a file that only its owner reads, and not on a screen.
  const shown = files.filter(({ mode }) => mode === UNIT_MODE);
  io.stdout(shown.map(({ path, text }) => `# ${path}\n${text}`).join("\n"));
  for (const { path, mode } of files) {
    if (mode !== UNIT_MODE) io.stderr(`lease: the store's address has a password: --install writes it to ${path}\n`);
  }
  return 0;
}

/** As one step: systemd never reads half of it. */
function write({ path, text, mode }: UnitFile): "written" | "unchanged" {
  const before = contentOf(path);
  if (before === text) return "unchanged";
  if (before !== null && mode === UNIT_MODE && !before.startsWith(UNIT_MARK)) {
    const advice = "move it away, or choose another --name";
    throw new LeaseError("usage", `${path} is there, and not from lease service: ${advice}`);
  }
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(`${path}.new`, text, { mode });
    chmodSync(`${path}.new`, mode);
    renameSync(`${path}.new`, path);
  } catch (error) {
    const advice = (error as NodeJS.ErrnoException).code === "EACCES" ? "; sudo, or leave out --system" : "";
    throw new LeaseError("usage", `${path} can't be written: ${errorText(error)}${advice}`, { cause: error });
  }
  return "written";
}

function contentOf(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}

function nextSteps({ name, scope, watchdog }: Service): string {
  const units = [workerUnit(name), ...(watchdog === null ? [] : [watchdogTimer(name)])].join(" ");
  const ctl = systemctl(scope);
  const steps = [
    `${ctl} daemon-reload`,
    `${ctl} enable --now ${units}`,
    `${ctl} restart ${workerUnit(name)}      # if it runs already`,
    ...(scope === "user" ? ["loginctl enable-linger      # also while you are not logged in"] : []),
  ];
  return `lease: written; these start it:\n${steps.map((step) => `  ${step}\n`).join("")}`;
}
