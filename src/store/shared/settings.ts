/** What of a job's settings a row holds as JSON: those without a column of their own. */

import * as v from "valibot";
import { BEATS } from "../../core/job.ts";
import { once } from "../../core/once.ts";
import { finite } from "./cells.ts";
import { LONGEST_LEASE_MS } from "./columns.ts";

/** Of time or bytes, or how often. */
const amount = once(() => v.pipe(finite(), v.minValue(0), v.maxValue(LONGEST_LEASE_MS)));
const whole = once(() => v.pipe(v.number(), v.safeInteger()));

/** What differs from the defaults; what a newer version adds is left out. */
export const SETTINGS = once(() =>
  v.partial(
    v.object({
      backoff: v.object({ first_ms: amount(), factor: amount(), max_ms: amount(), jitter: amount() }),
      retry_on: v.picklist(["any", "lost"]),
      fatal_exit: v.array(v.tuple([whole(), whole()])),
      timeout_ms: v.nullable(amount()),
      interval_ms: v.nullable(amount()),
      extension_ms: v.nullable(amount()),
      beat: v.nullable(v.picklist(BEATS)),
      grace_ms: v.nullable(v.union([amount(), v.literal("never")])),
      on_failed: v.nullable(v.string()),
      hook: v.nullable(v.object({ job: whole(), attempt: whole() })),
      aged: whole(),
      pty: v.boolean(),
      log_limit_bytes: amount(),
      output_limit_bytes: amount(),
      memory_bytes: v.nullable(amount()),
      pids: v.nullable(amount()),
      cpus: v.nullable(amount()),
    }),
  ),
);
