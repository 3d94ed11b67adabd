/** A bar that says how far something is. */

import type { Paint } from "./style.ts";

/** `━━━━━━━━────────`, `width` columns wide; a fraction outside 0…1 counts as its nearest end. */
export function bar(fraction: number, width: number, paint: Paint): string {
  const done = Math.round(Math.min(1, Math.max(0, fraction)) * width);
  return paint.green("━".repeat(done)) + paint.dim("─".repeat(width - done));
}
