/** What of a job's settings a row holds as JSON: those without a column of their own. */

import * as v from "valibot";
import { BEATS } from "../../core/job.ts";
import { once } from "../../core/once.ts";

export const finite = once(() => v.pipe(v.number(), v.finite()));
const whole = once(() => v.pipe(v.number(), v.safeInteger()));

/** What differs from the defaults; what a newer version adds is left out. */
export const SETTINGS = once(() =>
  v.partial(
    v.object({
      backoff: v.object({ first_ms: finite(), factor: finite(), max_ms: finite(), jitter: finite() }),
      retry_on: v.picklist(["any", "lost"]),
      fatal_exit: v.array(v.tuple([whole(), whole()])),
      timeout_ms: v.nullable(finite()),
      interval_ms: v.nullable(finite()),
      extension_ms: v.nullable(finite()),
      beat: v.nullable(v.picklist(BEATS)),
      grace_ms: v.nullable(v.union([finite(), v.literal("never")])),
      pty: v.boolean(),
      log_limit_bytes: finite(),
      output_limit_bytes: finite(),
      memory_bytes: v.nullable(finite()),
      pids: v.nullable(finite()),
      cpus: v.nullable(finite()),
    }),
  ),
);
