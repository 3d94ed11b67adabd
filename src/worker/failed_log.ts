/** What a hook reads on its standard input: the log of the attempt that it is about, as much as is kept of it. */

import type { Job } from "../core/job.ts";
import { decodeChunk } from "../runner/log/chunk.ts";
import type { Reader } from "../store/store.ts";

const PAGE = 16;

/** Null: the job is no hook. A log that is gone, or can't be read, keeps nobody from being told. */
export async function failedLog(store: Pick<Reader, "logs">, { settings: { hook } }: Job): Promise<Uint8Array | null> {
  if (hook === null) return null;
  const pieces: Uint8Array[] = [];
  try {
    for (let from = 0; ;) {
      const chunks = await store.logs({ ...hook, from, limit: PAGE });
      for (const chunk of chunks) {
        for (const { bytes } of decodeChunk(chunk)) pieces.push(bytes);
        from = chunk.start + chunk.bytes;
      }
      if (chunks.length < PAGE) break;
    }
  } catch {
    // What has been read is better than nothing.
  }
  return Buffer.concat(pieces);
}
