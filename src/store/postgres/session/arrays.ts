/**
 * Lists as PostgreSQL reads them: `{1,NULL,3}`. A statement takes one list per column and unnests them side by side, so
 * that any number of rows is one round trip and one plan.
 */

type Values<T> = readonly (T | null)[];

export function numbers(values: Values<number>): string {
  return `{${values.map((value) => value ?? "NULL").join(",")}}`;
}

export function booleans(values: readonly boolean[]): string {
  return `{${values.map((value) => (value ? "t" : "f")).join(",")}}`;
}

export function texts(values: Values<string>): string {
  return `{${values.map((value) => (value === null ? "NULL" : quoted(value))).join(",")}}`;
}

export function bytes(values: Values<Uint8Array>): string {
  return `{${values.map((value) => (value === null ? "NULL" : `"\\\\x${hex(value)}"`)).join(",")}}`;
}

const SPECIAL = /["\\]/;
const EVERY_SPECIAL = /["\\]/g;

function quoted(text: string): string {
  return SPECIAL.test(text) ? `"${text.replace(EVERY_SPECIAL, "\\$&")}"` : `"${text}"`;
}

function hex(data: Uint8Array): string {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("hex");
}
