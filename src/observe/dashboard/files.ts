/**
 * The pages, built and compressed. From source they are what `bun scripts/build.ts` left in dist/ui, on every runtime; in
 * the compiled program the build puts the files themselves in the place of this module's list.
 */

import { readFileSync } from "node:fs";
import { LeaseError } from "../../core/errors.ts";

export interface PageFile {
  path: string;
  type: string;
  /** Its name changes with what is in it. */
  immutable: boolean;
  gzip: Uint8Array;
}

/** As it is listed. */
export interface PackedFile extends Omit<PageFile, "gzip"> {
  /** In base64. */
  data: string;
}

const LIST = new URL("../../../dist/ui/files.json", import.meta.url);

/** What the build replaces. */
function packed(): readonly PackedFile[] {
  try {
    return JSON.parse(readFileSync(LIST, "utf8")) as PackedFile[];
  } catch {
    throw new LeaseError("unsupported", "the pages are not built: run `bun scripts/build.ts` in the checkout first");
  }
}

export function pageFiles(): PageFile[] {
  return packed().map(({ data, ...file }) => ({ ...file, gzip: Buffer.from(data, "base64") }));
}
