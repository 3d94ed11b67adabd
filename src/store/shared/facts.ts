/** Small facts about a store as a whole, which it keeps as JSON. */

import * as v from "valibot";
import { once, type Made } from "../../core/once.ts";
import { natural, time } from "./cells.ts";

/** A small fact that is kept as JSON; null when there is none, or none that can be read. */
export function fromJson<S extends v.GenericSchema>(schema: Made<S>, text: unknown): v.InferOutput<S> | null {
  const found = v.safeParse(v.pipe(v.string(), v.parseJson(), schema()), text);
  return found.success ? found.output : null;
}

export const RECOVERY_TOTALS = once(() => {
  const total = v.optional(natural.schema(), 0);
  const found = {
    expired_found: total,
    recovered: total,
    failed: total,
    cancelled: total,
    checkpoints_created: total,
    orphans_killed: total,
    errors: total,
  };
  return v.object({
    ...found,
    total_scans: total,
    last_at_ms: v.nullable(time.schema()),
    last_scan: v.optional(
      v.nullable(
        v.object({
          at_ms: time.schema(),
          ...found,
          scan_duration_ms: total,
        }),
      ),
      null,
    ),
  });
});

export const RETENTION = once(() =>
  v.partial(v.object({ keep_checkpoints: v.nullable(natural.schema()), checkpoints: v.boolean() })),
);

/** What holds where nobody has said anything. */
export const USUAL_RETENTION = { keep_checkpoints: 100, checkpoints: true } as const;

export const LAST_TRIM = once(() => {
  const noted = v.optional(natural.schema());
  return v.object({ id: noted, keep: noted });
});

/**
 * That this machine's clock was set back while the store was in use: by how much at the most, when that was noticed last,
 * and until when a time may be from before it.
 */
export const CLOCK_SET_BACK = once(() =>
  v.object({ at_ms: time.schema(), by_ms: natural.schema(), until_ms: natural.schema() }),
);
