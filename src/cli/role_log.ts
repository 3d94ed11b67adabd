/**
 * The log of a role on stderr, by consola: one event, one line. At a terminal consola's own reporter writes it, in a pipe
 * it is time, level and text, and with `--log-format json` an object. What jobs are made of never gets to a terminal as
 * it is. Loaded only where there is something to log; consola's reporters, which take as long as a whole enqueue, only
 * at a terminal.
 */

import { createConsola, type ConsolaReporter, type LogObject } from "consola/core";
import process from "node:process";
import { once } from "../core/once.ts";
import type { EventFields, EventName, Level, Report } from "../core/report.ts";
import { jsonLine } from "../view/json.ts";
import { outputLine, wrap } from "../view/text.ts";
import { readable } from "../view/time.ts";
import type { COLOR_CHOICES, LOG_FORMAT_FLAG } from "./flags.ts";
import { isDiscarded, isTerminal, wantsColor, type Io } from "./io.ts";
import { logStream } from "./log_stream.ts";

interface LogArgs {
  verbose: boolean;
  quiet?: boolean;
  color: (typeof COLOR_CHOICES)[number];
  log_format: (typeof LOG_FORMAT_FLAG)["options"][number];
}

/** In every line of JSON, null where it is about none. */
const ALWAYS = { job: null, attempt: null, token: null, queue: null, worker: null };

/** For people these are details, unless nobody draws them a picture; a log for programs has them all the same. */
const FOR_PROGRAMS: ReadonlySet<string> = new Set<EventName>([
  "worker_started",
  "worker_stopped",
  "acquired",
  "started",
  "ended",
]);
const IN_A_PIPE: ReadonlySet<string> = new Set<EventName>(["started", "ended"]);

/** `write`: to a terminal, where something else is drawn as well. */
export async function roleLog(
  role: string,
  args: LogArgs,
  io: Io,
  write: ((text: string) => void) | null = null,
): Promise<Report> {
  const { verbose, quiet = false, color, log_format } = args;
  const level = verbose ? LEVELS.debug : quiet ? LEVELS.warn : LEVELS.info;
  if (log_format === "json") return jsonLog(role, level);
  if (isTerminal(2))
    return reportTo(await terminalReporter(wantsColor(color, { env: io.env, is_tty: true })), level, write);
  // Nobody reads it: not worth the time of a worker with short jobs.
  if (isDiscarded(2)) return reportTo(lineReporter(plainLine), Math.min(level, LEVELS.warn));
  return raised(IN_A_PIPE, reportTo(lineReporter(plainLine), level));
}

/** One object per line; of what it is about first what every line has. */
function jsonLog(role: string, level: number): Report {
  let about: EventFields = {};
  const object = ({ date, type, args }: LogObject) => {
    const { event = null, ...fields } = about;
    const head = { time: date.toISOString(), level: type, role, event, message: args.join(" ") };
    return jsonLine({ ...head, ...ALWAYS, ...fields });
  };
  const report = raised(FOR_PROGRAMS, reportTo(lineReporter(object), level));
  return (kind, message, given = {}) => {
    about = given;
    report(kind, message, given);
  };
}

/** These events are told though they are details. */
function raised(events: ReadonlySet<string>, report: Report): Report {
  return (kind, message, about = {}) =>
    report(kind === "debug" && events.has(about.event ?? "") ? "info" : kind, message, about);
}

const LEVELS = { debug: 4, info: 3, warn: 1 } as const;
const KINDS = { debug: 4, info: 3, warn: 1, error: 0 } as const satisfies Record<Level, number>;

function reportTo(reporter: ConsolaReporter, level: number, write: ((text: string) => void) | null = null): Report {
  // A role that has nothing to say needs neither it nor the stream.
  const consola = once(() =>
    createConsola({
      level,
      throttle: 0,
      reporters: [reporter],
      // Answers are on stdout; the log is none.
      stdout: streamOf(write),
      stderr: streamOf(write),
    }),
  );
  return (kind, message) => {
    if (KINDS[kind] <= level) consola()[kind](message);
  };
}

/** All that consola asks of a stream. */
function streamOf(write: ((text: string) => void) | null): NodeJS.WriteStream {
  const { columns } = process.stderr;
  return { columns, write: write ?? ((text: string) => logStream().write(text)) } as NodeJS.WriteStream;
}

function lineReporter(line: (entry: LogObject) => string): ConsolaReporter {
  return { log: (entry) => void logStream().write(line(entry)) };
}

function plainLine({ date, type, args }: LogObject): string {
  return `${date.toISOString()} ${type.padEnd(5)} ${outputLine(args.join(" "))}\n`;
}

/** Also where consola believes that nobody looks, as in CI. */
const FANCY = { fancy: true, throttle: 0 };

/** Beside a line: the icon or the level, and the time. */
const MARGIN = 18;
const NARROWEST = 20;
const CLOCK = "09:30:00".length;

async function terminalReporter(color: boolean): Promise<ConsolaReporter> {
  const { reporters } = color
    ? (await import("consola")).createConsola(FANCY).options
    : (await import("consola/basic")).createConsola().options;
  // The same everywhere, like all that we print, and not as some country writes it.
  for (const reporter of reporters)
    Object.assign(reporter, { formatDate: (date: Date) => readable(Number(date)).slice(-CLOCK) });
  return {
    log: (entry, context) => {
      const width = Math.max(NARROWEST, (process.stderr.columns || Number.POSITIVE_INFINITY) - MARGIN);
      const text = wrap(outputLine(entry.args.join(" ")), width).join("\n  ");
      const args = [color ? unstyled(text) : text];
      // A badge would put empty lines around each warning.
      for (const reporter of reporters) reporter.log({ ...entry, args, badge: false }, context);
    },
  };
}

/** consola takes ` _so_ ` for emphasis and drops the underscores, which may be part of somebody's command. */
function unstyled(text: string): string {
  return text.replaceAll(/(?<=\s)_/g, "\u001B[39m_");
}
