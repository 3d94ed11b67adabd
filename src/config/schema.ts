/**
 * What lease.toml may hold, as valibot schemas made from the table of settings. Shapes only: what a text means is
 * decided where the flag is read, so that file and flag can't disagree.
 */

import * as v from "valibot";
import { nearest } from "../core/nearest.ts";
import { COMMAND_SETTINGS, SHARED_SETTINGS, type SettingKind, type Table } from "./settings.ts";

const text = v.pipe(
  v.union([v.string(), v.number()], "is not a text or a number"),
  v.check((value) => typeof value === "string" || Number.isFinite(value), "is not a finite number"),
  v.transform(String),
);

const KINDS = {
  text,
  path: v.pipe(v.string("is not the name of a file"), v.nonEmpty("is empty")),
  place: v.pipe(v.string("is not the name of a file or an address"), v.nonEmpty("is empty")),
  switch: v.boolean("is not true or false"),
  list: v.union(
    [
      v.array(v.string()),
      v.pipe(
        v.string(),
        v.transform((one) => [one]),
      ),
    ],
    'is not a list of texts, such as ["a", "b"]',
  ),
} as const satisfies Record<SettingKind, v.GenericSchema>;

function table(settings: Table) {
  return object(Object.entries(settings).map(([key, kind]) => [key, v.optional(KINDS[kind])]));
}

function object(entries: readonly (readonly [string, v.GenericSchema])[]) {
  // Without a prototype: valibot asks for keys with `in`, and would let `constructor` pass.
  const own: v.ObjectEntries = Object.assign(Object.create(null), Object.fromEntries(entries));
  return v.strictObject(own, "is not a table");
}

const SCHEMA = object([
  ...Object.entries(table(SHARED_SETTINGS).entries as Record<string, v.GenericSchema>),
  ...Object.entries(COMMAND_SETTINGS).map(([name, settings]) => [name, v.optional(table(settings))] as const),
]);

export type SettingValue = string | boolean | string[];
export type ConfigTables = Readonly<Record<string, SettingValue | Readonly<Record<string, SettingValue>> | undefined>>;

/** The settings, or in one line what is wrong with the first that is. */
export function checkShape(document: unknown): { settings: ConfigTables } | { problem: string } {
  const checked = v.safeParse(SCHEMA, document, { abortEarly: true });
  if (checked.success) return { settings: checked.output as ConfigTables };
  const [issue] = checked.issues;
  const path = issue.path?.map(({ key }) => String(key)) ?? [];
  const unknown = issue.type === "strict_object" && issue.expected === "never";
  if (unknown) return { problem: unknownKey(path) };
  const value = issue.path?.at(-1)?.value;
  const told = typeof value === "number" ? String(value) : JSON.stringify(value);
  return { problem: `${path.join(".")} ${told} ${issue.message}` };
}

function unknownKey(path: readonly string[]): string {
  const key = path.at(-1) ?? "";
  const [section] = path;
  const known: readonly string[] =
    path.length === 1
      ? [...Object.keys(SHARED_SETTINGS), ...Object.keys(COMMAND_SETTINGS)]
      : Object.keys(COMMAND_SETTINGS[section ?? ""] ?? {});
  const told = `${path.join(".")} is not a setting`;
  if (key === "trust_store") return `${told}: a file can't ask to be trusted, pass --trust-store where you mean it`;
  const meant = nearest(key, known);
  const near = meant === null ? null : [...path.slice(0, -1), meant].join(".");
  if (near !== null) return `${told}; did you mean ${near}?`;
  const home = Object.entries(COMMAND_SETTINGS).find(([, settings]) => Object.hasOwn(settings, key));
  if (path.length === 1 && home !== undefined) return `${told}; did you mean ${home[0]}.${key}?`;
  return `${told}; there are ${known.join(", ")}`;
}
