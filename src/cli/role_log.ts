/**
 * The log of a role on stderr, by consola: one event, one line. At a terminal consola's own reporter writes it, in a pipe
 * it is time, level and text, and with `--log-format json` an object. What jobs are made of never gets to a terminal as
 * it is. Loaded only where there is something to log; consola's reporters, which take as long as a whole enqueue, only
 * at a terminal.
 */

import { createConsola, type ConsolaReporter, type LogObject } from "consola/core";
import { once } from "../core/once.ts";
import type { EventFields, EventName, Report } from "../core/report.ts";
import { jsonLine } from "../view/json.ts";
import { visible } from "../view/text.ts";
import type { COLOR_CHOICES, LOG_FORMAT_FLAG } from "./flags.ts";
import { isTerminal, wantsColor, type Io } from "./io.ts";
import { logStream } from "./log_stream.ts";

interface LogArgs {
  verbose: boolean;
  color: (typeof COLOR_CHOICES)[number];
  log_format: (typeof LOG_FORMAT_FLAG)["options"][number];
}

/** In every line of JSON, null where it is about none. */
const ALWAYS = { job: null, attempt: null, token: null, queue: null, worker: null };

/** For people these are details; a log for programs has them all the same. */
const ALWAYS_LOGGED: ReadonlySet<string> = new Set<EventName>([
  "worker_started",
  "worker_stopped",
  "acquired",
  "started",
  "ended",
]);

export async function roleLog(role: string, { verbose, color, log_format }: LogArgs, io: Io): Promise<Report> {
  if (log_format === "json") return jsonLog(role, verbose);
  if (!isTerminal(2)) return reportTo(lineReporter(plainLine), verbose);
  return reportTo(await terminalReporter(wantsColor(color, { env: io.env, is_tty: true })), verbose);
}

/** One object per line; of what it is about first what every line has. */
function jsonLog(role: string, verbose: boolean): Report {
  let about: EventFields = {};
  const object = ({ date, type, args }: LogObject) => {
    const { event = null, ...fields } = about;
    const head = { time: date.toISOString(), level: type, role, event, message: args.join(" ") };
    return jsonLine({ ...head, ...ALWAYS, ...fields });
  };
  const report = reportTo(lineReporter(object), verbose);
  return (level, message, given = {}) => {
    about = given;
    report(level === "debug" && ALWAYS_LOGGED.has(given.event ?? "") ? "info" : level, message);
  };
}

const LEVELS = { debug: 4, info: 3 } as const;

function reportTo(reporter: ConsolaReporter, verbose: boolean): Report {
  // A role that has nothing to say needs neither it nor the stream.
  const consola = once(() =>
    createConsola({
      level: verbose ? LEVELS.debug : LEVELS.info,
      throttle: 0,
      reporters: [reporter],
      // Answers are on stdout; the log is none.
      stdout: logStream() as NodeJS.WriteStream,
      stderr: logStream() as NodeJS.WriteStream,
    }),
  );
  return (level, message) => {
    if (level !== "debug" || verbose) consola()[level](message);
  };
}

function lineReporter(line: (entry: LogObject) => string): ConsolaReporter {
  return { log: (entry) => void logStream().write(line(entry)) };
}

function plainLine({ date, type, args }: LogObject): string {
  return `${date.toISOString()} ${type.padEnd(5)} ${visible(args.join(" "))}\n`;
}

/** Also where consola believes that nobody looks, as in CI. */
const FANCY = { fancy: true, throttle: 0 };

async function terminalReporter(color: boolean): Promise<ConsolaReporter> {
  const { reporters } = color
    ? (await import("consola")).createConsola(FANCY).options
    : (await import("consola/basic")).createConsola().options;
  return {
    log: (entry, context) => {
      const args = entry.args.map((arg) => (color ? unstyled(visible(String(arg))) : visible(String(arg))));
      // A badge would put empty lines around each warning.
      for (const reporter of reporters) reporter.log({ ...entry, args, badge: false }, context);
    },
  };
}

/** consola takes ` _so_ ` for emphasis and drops the underscores, which may be part of somebody's command. */
function unstyled(text: string): string {
  return text.replaceAll(/(?<=\s)_/g, "\u001B[39m_");
}
