/** Options of the library, read by the schemas of the flags of the same names: a mistake is told in the same words. */

import * as v from "valibot";
import { LeaseError } from "../core/errors.ts";
import { BEATS } from "../core/job.ts";
import { nearest } from "../core/nearest.ts";
import { MOST_SLOTS } from "../core/scaling.ts";
import {
  choice,
  COUNT,
  DURATION,
  FOLDER,
  GRACE,
  integer,
  LEASE,
  NAME,
  readJson,
  SWITCH,
  TASK,
} from "../core/values.ts";
import type { Value } from "../core/values.ts";

type Values = Readonly<Record<string, Value<unknown>>>;
type Read<T extends Values> = { [K in keyof T]?: T[K] extends Value<infer Out> ? Out : never };

/** Every option that is given, as what it means; an unknown name is refused with the nearest. */
export function readOptions<T extends Values>(options: object, known: T, also: readonly string[] = []): Read<T> {
  const read: Record<string, unknown> = {};
  for (const [name, given] of Object.entries(optionsOf(options))) {
    if (given === undefined || also.includes(name)) continue;
    const value = Object.hasOwn(known, name) ? known[name] : undefined;
    if (value === undefined) throw unknownOption(name, [...Object.keys(known), ...also]);
    read[name] = readJson(value, given, name);
  }
  return read as Read<T>;
}

/** What a program without types may pass instead is refused. */
export function optionsOf<T extends object>(options: T): T {
  if (typeof options === "object" && options !== null) return options;
  const given = options === null ? "null" : options === undefined ? "missing" : `a ${typeof options}`;
  throw new LeaseError("usage", `options are an object, { name: value }, and this is ${given}`);
}

function unknownOption(name: string, names: readonly string[]): LeaseError {
  const meant = nearest(name, names);
  const hint = meant === null ? `there are ${names.join(", ")}` : `did you mean ${meant}?`;
  return new LeaseError("usage", `there is no option ${JSON.stringify(name)}; ${hint}`);
}

/** One name, or several. */
const nameList: Value<readonly string[]> = {
  ...NAME,
  schema: () =>
    v.pipe(
      v.string("a name, or a list of names"),
      v.transform((name): readonly string[] => [name]),
    ),
  json: () =>
    v.pipe(
      v.union([v.string(), v.array(v.string())], "a name, or a list of names"),
      v.transform((given): readonly string[] => (typeof given === "string" ? [given] : given)),
    ),
};

const SLOTS = integer({ min: 1, max: MOST_SLOTS });

export const WORKER_VALUES = {
  queue: nameList,
  have: nameList,
  task: TASK,
  slots: SLOTS,
  min: SLOTS,
  max: SLOTS,
  scale_up_at: COUNT,
  scale_down_after: DURATION,
  name: NAME,
  log_dir: FOLDER,
  preempt: SWITCH,
  poll: DURATION,
  sweep: SWITCH,
  once: SWITCH,
  until_empty: SWITCH,
  max_jobs: COUNT,
  drain: DURATION,
  grace: GRACE,
  lease: LEASE,
  interval: DURATION,
  extension: DURATION,
  beat: choice(BEATS),
  isolate: SWITCH,
} as const;

export const OPEN_VALUES = { trust_store: SWITCH, create: SWITCH } as const;
export const STOP_VALUES = { drain: DURATION } as const;
export const WAIT_VALUES = { timeout: DURATION, any: SWITCH } as const;
export const CANCEL_VALUES = { reason: NAME, grace: GRACE, cascade: SWITCH } as const;
