/** What bounds a job, as it is stored: its gate, and what a machine has or an attempt was given. */

import * as v from "valibot";
import { readGate } from "../../core/gate.ts";
import { once } from "../../core/once.ts";

const gateSchema = once(() =>
  v.pipe(
    v.string(),
    v.check((text) => readGate(text) !== null),
  ),
);

/** As a column of a row; most jobs have none. */
export const gateColumn = { schema: gateSchema, test: (value: unknown) => value === "", instead: "" };

export const resourcesSchema = once(() =>
  v.record(v.string(), v.union([v.pipe(v.number(), v.safeInteger()), v.array(v.string())])),
);
