/**
 * Notices that a store was deleted or replaced while it was in use. The engine would go on with the file that it has
 * open and that nobody else can see: all that is written to it would be lost with us, without a sound.
 */

import { statSync } from "node:fs";
import { LeaseError } from "../../core/errors.ts";

/** A check that throws when the file at `path` is not the one any more that it is now. */
export function sameFile(path: string): () => void {
  const opened = fileAt(path);
  return () => {
    if (fileAt(path) === opened) return;
    const advice = "was deleted or replaced by another file while it was in use: start again to use what is there now";
    throw new LeaseError("store_path", `store ${path} ${advice}`);
  };
}

function fileAt(path: string): string | null {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats === undefined ? null : `${stats.dev}:${stats.ino}`;
}
