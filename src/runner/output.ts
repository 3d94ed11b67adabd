/** A job's result: what it wrote into the file that LEASE_OUTPUT names. */

import { statSync } from "node:fs";
import { open, rm } from "node:fs/promises";

/** Null when the job wrote none; cut at the limit. The file is removed. */
export async function readOutput(path: string, limit_bytes: number): Promise<string | null> {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return null;
  try {
    // A folder, or a pipe that would keep us waiting, is not a result.
    if (!stats.isFile()) return null;
    const file = await open(path, "r");
    try {
      const { buffer, bytesRead } = await file.read(new Uint8Array(limit_bytes), 0, limit_bytes, 0);
      // As the first part of a stream: half a letter at the cut is left out.
      return new TextDecoder().decode(buffer.subarray(0, bytesRead), { stream: bytesRead === limit_bytes });
    } finally {
      await file.close();
    }
  } catch {
    // A file it may not read back.
    return null;
  } finally {
    await rm(path, { recursive: true, force: true });
  }
}
