/** Values that are lists of their own kind: names of tasks, and the numbers of an array of jobs. */

import * as v from "valibot";
import { once } from "./once.ts";
import { MOST_IDS, ends, kind, numerals, text, type Parsed } from "./values.ts";

/** `1-100`, `0-9:3`, `1,4,7-9`. */
function numbers(given: string): Parsed<number[]> {
  const found = new Set<number>();
  for (const part of given.split(",")) {
    const [range = "", step = "1", ...more] = part.trim().split(":");
    const [from, to] = ends(range, 9) ?? [1, 0];
    const every = /^\d{1,9}$/.test(step) ? Number(step) : 0;
    if (from > to || every < 1 || more.length > 0) {
      return { problem: "is not a range of numbers: write 1-100, 0-90:10 or 1,4,7-9", about: part };
    }
    if ((to - from) / every + found.size >= MOST_IDS) return { problem: "is too many jobs at once", about: part };
    for (let number = from; number <= to; number += every) found.add(number);
  }
  return { value: [...found] };
}

export const ARRAY = kind("RANGE", text(numbers), { from: numerals });

function names(given: string): Parsed<string[]> {
  const found = given.split(",").filter((name) => name !== "");
  return found.length === 0
    ? { problem: "names none: write one, or several with commas between them" }
    : { value: found };
}

const nameList = once(() =>
  v.pipe(
    v.union([v.array(v.string()), v.string()], "a name, or a list of them"),
    v.transform((given) => (typeof given === "string" ? given : given.join(","))),
  ),
);

export const TASKS = kind("NAMES", text(names), { from: nameList, completer: "tasks" });
