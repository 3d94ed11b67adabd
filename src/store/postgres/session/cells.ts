/**
 * Values on their way to the database and back.
 *
 * PostgreSQL has no NUL in texts, and what a program prints may hold one: two noncharacters stand for it, M Z. A text
 * that holds these itself gets an E between them, and one more if it has some there. All other texts are stored as they
 * are, a lone M too: so names compare with what anybody else wrote, and what an earlier version wrote stays readable.
 * Nothing of this is a character of an array's or of JSON's own, so it may be done to any text and to a list of them.
 */

import { toList } from "./arrays.ts";
import type { Param, Scalar } from "./session.ts";

const NUL = "\0";
const [M, E, Z] = ["\uFFFF", "\uFDD1", "\uFDD0"];
const UNSTORABLE = new RegExp(`${NUL}|${M}(?=${E}*${Z})`, "g");
const STAND_IN = new RegExp(`${M}(${E}*)${Z}`, "g");

function withoutNul(text: string): string {
  if (!text.includes(NUL) && !text.includes(M)) return text;
  return text.replaceAll(UNSTORABLE, (found) => (found === NUL ? M + Z : M + E));
}

export function withNul(text: string): string {
  if (!text.includes(M)) return text;
  return text.replaceAll(STAND_IN, (_, escapes: string) => (escapes === "" ? NUL : M + escapes.slice(E.length) + Z));
}

export const TYPES = {
  text: { to: 25, from: [25], parse: withNul, serialize: (value: unknown) => String(value) },
  // Times and ids stay far below 2^53.
  bigint: { to: 20, from: [20, 1700], parse: Number, serialize: (value: unknown) => String(value) },
};

export function bound(param: Param): Scalar {
  const value = Array.isArray(param) ? toList(param) : (param as Scalar);
  return typeof value === "string" ? withoutNul(value) : value;
}

const COPY_ESCAPES: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** A row as COPY has it. */
export function copyLine(row: readonly Scalar[]): string {
  const cells = row.map((cell) => {
    if (cell === null) return "\\N";
    return withoutNul(String(cell)).replaceAll(/[\\\n\r\t]/g, (found) => COPY_ESCAPES[found] ?? found);
  });
  return `${cells.join("\t")}\n`;
}
