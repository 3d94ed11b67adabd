/** A job's result: what it wrote into the file that LEASE_OUTPUT names. */

import { platform } from "#platform";
import { existsSync, mkdirSync, rmSync, statSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export function resultFolder(worker_id: string): string {
  return join(tmpdir(), `lease-${worker_id}`);
}

/** A worker's own folder for the files of its jobs. */
export class ResultFolder {
  readonly #path: string;

  constructor(worker_id: string) {
    this.#path = resultFolder(worker_id);
  }

  make(): void {
    mkdirSync(this.#path, { mode: 0o700 });
  }

  /** Where the attempt may write its result. Whoever tidies up temporary files may have taken the folder from us. */
  pathFor(job: number, token: number): string {
    try {
      if (!existsSync(this.#path)) this.make();
    } catch {
      // A job that has a result finds out by itself; the others need no folder.
    }
    return join(this.#path, `output-${job}-${token}`);
  }

  remove(): void {
    rmSync(this.#path, { recursive: true, force: true });
  }
}

/** Null when the job wrote none; cut at the limit, which is told. The file is removed. */
export async function readResult(
  path: string,
  limit_bytes: number,
  warn: (text: string) => void = () => {},
): Promise<string | null> {
  // Most jobs write none, and this asks for less than the other way.
  if (platform.quickFiles()?.stat(path) === null) return null;
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return null;
  try {
    // A folder, or a pipe that would keep us waiting, is not a result.
    if (!stats.isFile()) return null;
    const file = await open(path, "r");
    if (stats.size > limit_bytes)
      warn(`its result has ${stats.size} bytes and was cut at ${limit_bytes}; --output-limit keeps more`);
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
