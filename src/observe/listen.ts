/** Listening where somebody said to; what keeps from it is told with what to do. */

import { LeaseError } from "../core/errors.ts";
import { platform } from "#platform";
import type { Listener, ServeOptions } from "../platform/platform.ts";

/** `fallback_port`: where to listen when that port is taken; null: nowhere. */
export function listen(options: ServeOptions, fallback_port: number | null = null): Listener {
  const { host, port } = options;
  try {
    return platform.serve(options);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const is_taken = code === "EADDRINUSE" || /in use/i.test(message);
    if (is_taken && fallback_port !== null) return platform.serve({ ...options, port: fallback_port });
    if (is_taken) throw new LeaseError("usage", `port ${port} is in use: give another one, or 0 for any that is free`);
    const why = code === "EADDRNOTAVAIL" ? "this machine has no such address" : message;
    throw new LeaseError("usage", `can't listen on ${host} port ${port}: ${why}`);
  }
}
