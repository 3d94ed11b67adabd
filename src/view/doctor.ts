/** What `lease doctor` found: each look with its outcome and what to do about it, then every setting and who set it. */

import { renderTable, type Column } from "./table.ts";
import type { Screen } from "./style.ts";
import { displayWidth, pad, visible, withoutPassword, wrap } from "./text.ts";
import { readable } from "./time.ts";

/** As a store tells it. */
interface Finding {
  name: string;
  level: "ok" | "warn" | "error";
  value: string;
  advice: string | null;
}

export interface EffectiveSetting {
  /** Null: of every command. */
  command: string | null;
  name: string;
  /** Null: nothing is set, and there is no default. */
  value: string | null;
  from: "flag" | "environment" | "file" | "default";
  /** The variable, or the file. */
  place: string | null;
}

export interface Diagnosis {
  findings: readonly Finding[];
  settings: readonly EffectiveSetting[];
}

export function isHealthy({ findings }: Diagnosis): boolean {
  return findings.every(({ level }) => level !== "error");
}

/** For `jsonLine`. */
export function diagnosisJson(diagnosis: Diagnosis) {
  return {
    healthy: isHealthy(diagnosis),
    findings: diagnosis.findings.map(({ name, level, value, advice }) => ({ name, level, value, advice })),
    settings: diagnosis.settings.map((setting) => {
      const { command, name, from, place } = setting;
      return { command, name, value: valueText(setting), from, place };
    }),
  };
}

export function diagnosisText(diagnosis: Diagnosis, screen: Screen): string {
  const { findings, settings } = diagnosis;
  const width = Math.max(0, ...findings.map(({ name }) => displayWidth(name)));
  const count = (level: Finding["level"]) => findings.filter((finding) => finding.level === level).length;
  const [errors, warnings] = [count("error"), count("warn")];
  const told = [
    ...(errors > 0 ? [screen.paint.red(`${errors} wrong`)] : []),
    ...(warnings > 0 ? [screen.paint.yellow(`${warnings} to look at`)] : []),
  ];
  return [
    ...findings.map((finding) => findingText(finding, width, screen)),
    "",
    told.length === 0 ? screen.paint.green("all is well") : told.join(", "),
    "",
    ...(settings.length === 0 ? [] : [renderTable(settingColumns(screen), settings, screen), ""]),
  ].join("\n");
}

const MARKS = { ok: "ok", warn: "warn", error: "ERROR" } as const;
const MARK_WIDTH = 5;

function findingText({ name, level, value, advice }: Finding, name_width: number, { paint, width }: Screen): string {
  const style = { ok: paint.green, warn: paint.yellow, error: paint.red }[level];
  const indent = " ".repeat(MARK_WIDTH + name_width + 4);
  const room = width === null ? Number.POSITIVE_INFINITY : Math.max(20, width - indent.length - 2);
  const lines = wrap(visible(inLocalTime(value)), room);
  const advised = advice === null ? [] : wrap(visible(advice), room - 2);
  const head = `${style(pad(MARKS[level], MARK_WIDTH))}  ${pad(name, name_width)}  `;
  return [
    ...(lines.length === 0 ? [head.trimEnd()] : lines.map((line, index) => (index === 0 ? head : indent) + line)),
    ...advised.map((line, index) => `${indent}${index === 0 ? "→ " : "  "}${line}`),
  ].join("\n");
}

/** Programs read moments in UTC; a person compares them with the clock on the wall. */
function inLocalTime(text: string): string {
  return text.replaceAll(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, (moment) => readable(Date.parse(moment)));
}

function settingColumns({ paint }: Screen): Column<EffectiveSetting>[] {
  const origin = ({ from, place }: EffectiveSetting) =>
    from === "default" ? { text: from, style: paint.dim } : { text: place ?? from, style: paint.cyan };
  return [
    { title: "SETTING", cell: ({ command, name }) => (command === null ? name : `${command}.${name}`) },
    { title: "VALUE", cell: valueText, shrink_to: 12 },
    { title: "FROM", cell: origin, shrink_to: 12 },
  ];
}

/** A report gets pasted into bug reports: no passwords in it, and no values of variables. */
function valueText({ name, value }: EffectiveSetting): string | null {
  if (value === null) return null;
  return name === "env" ? value.replaceAll(/=[^,]*/g, "=…") : withoutPassword(value);
}
