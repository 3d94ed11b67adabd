/** A job's result: what it wrote into the file that LEASE_OUTPUT names. */

import { platform } from "#platform";
import { constants } from "node:fs";
import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import type { Scratch } from "./scratch.ts";

export class ResultFile {
  readonly path: string;
  readonly #scratch: Scratch;

  constructor(scratch: Scratch, job: number, token: number) {
    this.#scratch = scratch;
    this.path = join(folderOf(scratch), `output-${job}-${token}`);
  }

  /** Null when the job wrote none; cut at the limit, which is told. The file is removed. */
  async read(limit_bytes: number, warn: (text: string) => void = () => {}): Promise<string | null> {
    // Most jobs write none, and this asks for less than the other way.
    if (platform.quickFiles()?.stat(this.path) === null || !this.#scratch.isSame()) return null;
    try {
      return await readFile(this.path, limit_bytes, warn);
    } catch {
      // There is none, or one that may not be read back.
      return null;
    } finally {
      await rm(this.path, { recursive: true, force: true }).catch(() => {});
    }
  }
}

/** A job that has a result finds out by itself that there is no room for it; the others need no folder. */
function folderOf(scratch: Scratch): string {
  try {
    return scratch.folder();
  } catch {
    return "/nonexistent";
  }
}

/** Neither what a link points to, nor a pipe that would keep us waiting, is a result. */
const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

async function readFile(path: string, limit_bytes: number, warn: (text: string) => void): Promise<string | null> {
  const file = await open(path, READ);
  try {
    const stats = await file.stat();
    if (!stats.isFile() || stats.uid !== process.getuid?.()) return null;
    if (stats.size > limit_bytes)
      warn(`its result has ${stats.size} bytes and was cut at ${limit_bytes}; --output-limit keeps more`);
    const { buffer, bytesRead } = await file.read(new Uint8Array(limit_bytes), 0, limit_bytes, 0);
    // As the first part of a stream: half a letter at the cut is left out.
    return new TextDecoder().decode(buffer.subarray(0, bytesRead), { stream: bytesRead === limit_bytes });
  } finally {
    await file.close();
  }
}
