/** Values of what bounds and plans jobs, as people write them; see values.ts. */

import * as v from "valibot";
import { readDuration } from "./duration.ts";
import { LeaseError } from "./errors.ts";
import type { Rate } from "./gate.ts";
import { once } from "./once.ts";
import { readNeeds, readResource, type Needs, type Resources } from "./resources.ts";
import { kind, readValue, text, timeText, type Parsed, type Value } from "./values.ts";
import { TASKS } from "./value_lists.ts";

/** `10/1m`: so many in so much time. */
function rate(given: string): Parsed<Rate> {
  const [count = "", per = "", ...more] = given.split("/");
  const time = readDuration(/^(ms|s|m|h|d|w)$/.test(per) ? `1${per}` : per);
  if (more.length > 0 || !/^\d+$/.test(count) || "problem" in time) return { problem: "is not a rate: write 10/1m" };
  const value = { count: Number(count), per_ms: time.value };
  if (value.count >= 1 && value.count <= MOST_STARTS && value.per_ms >= 1) return { value };
  return { problem: `is not a rate from 1 to ${MOST_STARTS} in a time above 0: write 10/1m, or leave it out` };
}

const MOST_STARTS = 1_000_000;
export const RATE = kind("N/TIME", text(rate), { from: timeText });

/** Of limits. */
export const LIMITS: Value<readonly string[]> = { ...TASKS, hint: "NAME", completer: "limits" };

const needsText = text(readNeeds);
const AMOUNTS = 'what it needs and how much of it, {"gpu": 1, "mem": "8G"}, or a text as for --need';
const needsMap = once(() =>
  v.pipe(
    v.union([v.array(v.string()), v.record(v.string(), v.union([v.string(), v.number()]))], AMOUNTS),
    v.transform((given) =>
      Array.isArray(given)
        ? given.join(",")
        : Object.entries(given)
            .map(([name, of]) => `${name}=${of}`)
            .join(","),
    ),
    needsText(),
  ),
);
const needsJson = once(() => v.lazy((given) => (typeof given === "string" ? needsText() : needsMap())));
export const NEEDS: Value<Needs> = kind("NAME[=N]", needsText, { json: needsJson });

/** One resource of a machine. */
export const HAVE = kind("NAME=WHAT", text(readResource));

/** All of them, as `option` was given them. */
export function haveOf(given: readonly string[], option: string): Resources {
  const have: Record<string, readonly string[] | number> = {};
  for (const one of given) {
    const [name, has] = readValue(HAVE, one, option);
    if (name in have) throw new LeaseError("usage", `${option} ${name} is given twice: say all of it at once`);
    have[name] = has;
  }
  return have;
}
