/** Inputs as nobody would write them: what is right, cut up, doubled, stretched and mixed with what never is. */

import type { Chance } from "../sim/chance.ts";

/** What has broken readers before. */
const NASTY: readonly string[] = [
  "",
  " ",
  "\t",
  "\n",
  "\r\n",
  "\u0000",
  "\u001b[2J",
  "\u007f",
  "\u0085",
  "\u2028",
  "\ufeff",
  "\ud800",
  "\udfff\ud800",
  "𝟘",
  "ß",
  "İ",
  "e\u0301",
  "-",
  "--",
  "=",
  ",",
  ";",
  "'",
  '"',
  "`",
  "\\",
  "/",
  "//",
  "..",
  ":",
  "@",
  "#",
  "%",
  "%00",
  "%zz",
  "*",
  "?",
  "{}",
  "[]",
  "[[",
  "}}",
  "null",
  "undefined",
  "true",
  "NaN",
  "Infinity",
  "-Infinity",
  "__proto__",
  "constructor",
  "toString",
  "0",
  "-0",
  "-1",
  "1",
  "00",
  "0x10",
  "1e9",
  "1e309",
  "9007199254740993",
  "99999999999999999999",
  "2147483648",
  "0.1",
  "1.",
  ".5",
  "١٢",
];

export interface Words {
  /** As they should be. */
  samples: readonly string[];
  /** What they are made of. */
  parts?: readonly string[];
}

const PRINTABLE_FROM = 32;
const PRINTABLE_TO = 126;

function anything(chance: Chance): string {
  if (chance.of(0.6)) return String.fromCharCode(chance.between(PRINTABLE_FROM, PRINTABLE_TO));
  return chance.of(0.5) ? chance.pick(NASTY) : String.fromCodePoint(chance.between(0, 0xffff));
}

/** One change. */
function changed(text: string, parts: readonly string[], chance: Chance): string {
  const [a, b] = [chance.between(0, text.length), chance.between(0, text.length)].toSorted((x, y) => x - y) as [
    number,
    number,
  ];
  const [head, middle, tail] = [text.slice(0, a), text.slice(a, b), text.slice(b)];
  const part = parts.length > 0 && chance.of(0.5) ? chance.pick(parts) : anything(chance);
  switch (chance.between(0, 6)) {
    case 0:
      return head + tail;
    case 1:
      return head + part + middle + tail;
    case 2:
      return head + part + tail;
    case 3:
      return head + middle + middle + tail;
    case 4:
      return tail + middle + head;
    case 5:
      return chance.of(0.02)
        ? head + middle.repeat(chance.between(2, 2_000)) + tail
        : head + middle.toUpperCase() + tail;
    default:
      return head + middle.split("").toReversed().join("") + tail;
  }
}

/** Often nearly right, sometimes right, sometimes noise. */
export function garbled({ samples, parts = [] }: Words, chance: Chance): string {
  if (chance.of(0.1)) return Array.from({ length: chance.between(0, 12) }, () => anything(chance)).join("");
  if (parts.length > 0 && chance.of(0.3)) {
    const words = Array.from({ length: chance.between(0, 8) }, () => chance.pick(parts));
    return words.join(chance.of(0.7) ? "" : " ");
  }
  let text = chance.pick(samples);
  for (let changes = chance.between(0, 4); changes > 0; changes--) text = changed(text, parts, chance);
  return text;
}

export function noise(chance: Chance, most: number): Uint8Array {
  return Uint8Array.from({ length: chance.between(0, most) }, () =>
    chance.of(0.3) ? chance.pick([0, 9, 10, 13, 27, 0xc2, 0xe2, 0xff]) : chance.between(0, 255),
  );
}

/** A cell of a row, as an engine could hand it out. */
export function cell(chance: Chance): string | number | null | Uint8Array {
  switch (chance.between(0, 5)) {
    case 0:
      return null;
    case 1:
      return chance.pick([
        0,
        -1,
        1,
        0.5,
        2 ** 31,
        2 ** 53,
        2 ** 63,
        -(2 ** 63),
        1e308,
        Infinity,
        253402300800000,
        1.8e12,
      ]);
    case 2:
      return noise(chance, 20);
    case 3:
      return chance.between(-5, 2_000_000_000);
    default:
      return garbled(CELLS, chance);
  }
}

const CELLS: Words = {
  samples: [
    '["sh","-c","echo"]',
    '{"A":"1"}',
    '{"timeout_ms":1000,"backoff":{"first_ms":1,"factor":2,"max_ms":3,"jitter":0}}',
    '[["=a"],[["gpu",1]]]',
    '{"gpu":["0","1"],"mem":5}',
    "running",
    "pending",
    "success",
    "default",
  ],
  parts: ["{", "}", "[", "]", ":", ",", '"', "1", "null", "a"],
};
