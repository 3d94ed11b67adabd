/** Values of flags, read one by one. */

import { GRACE, IDS, integer, LEASE, readValue } from "../core/values.ts";

export { parseSince } from "../core/values.ts";

export const parseInteger = (text: string, name: string, range: { min?: number; max?: number } = {}): number =>
  readValue(integer(range), text, name);

export const parseIds = (words: readonly string[], name: string): number[] =>
  words.length === 0 ? [] : readValue(IDS, words.join(","), name);

export const parseGrace = (text: string, name: string): number | null => readValue(GRACE, text, name);

export const parseLease = (text: string, name: string): number | "auto" => readValue(LEASE, text, name);
