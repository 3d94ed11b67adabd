/**
 * The log of a role on stderr, by consola: one event, one line. At a terminal consola's own reporter writes it, in a pipe
 * it is time, level and text, and with `--log-format json` an object. What jobs are made of never gets to a terminal as
 * it is. Loaded only where there is something to log; consola's reporters, which take as long as a whole enqueue, only
 * at a terminal.
 */

import { createConsola, type ConsolaReporter, type LogObject } from "consola/core";
import { once } from "../core/once.ts";
import type { Report } from "../core/report.ts";
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

export async function roleLog(role: string, { verbose, color, log_format }: LogArgs, io: Io): Promise<Report> {
  if (log_format === "json") {
    const object = ({ date, type, args }: LogObject) =>
      jsonLine({ time: date.toISOString(), level: type, role, message: args.join(" ") });
    return reportTo(lineReporter(object), verbose);
  }
  if (!isTerminal(2)) return reportTo(lineReporter(plainLine), verbose);
  return reportTo(await terminalReporter(wantsColor(color, { env: io.env, is_tty: true })), verbose);
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
  return (level, message) => consola()[level](message);
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
