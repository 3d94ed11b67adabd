/** The log of a role on stderr, by consola: loaded only where something is worth saying. */

import { createConsola } from "consola/core";
import process from "node:process";
import type { Report } from "../core/report.ts";
import { visible } from "../view/text.ts";

const LEVELS = { debug: 4, info: 3, warn: 1, error: 0 } as const;

/** One line per event: time, level, what happened. */
export function roleLog(verbose: boolean): Report {
  const consola = createConsola({
    level: verbose ? LEVELS.debug : LEVELS.info,
    throttle: 0,
    reporters: [
      {
        log: ({ date, type, args }) => {
          process.stderr.write(`${date.toISOString()} ${type.padEnd(5)} ${visible(args.join(" "))}\n`);
        },
      },
    ],
  });
  return (level, message) => consola[level](message);
}
