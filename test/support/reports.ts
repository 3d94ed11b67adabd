/** Reports as people read them, without the events that only programs follow. */

import type { Report } from "../../src/core/report.ts";

export function linesFor(lines: string[], line = (level: string, text: string) => `${level}: ${text}`): Report {
  return (level, text, about) => {
    const is_detail = level === "debug" && about?.event !== undefined && about.event !== "ended";
    if (!is_detail) lines.push(line(level, text));
  };
}

/** Without their levels. */
export const textsFor = (lines: string[]): Report => linesFor(lines, (_level, text) => text);
