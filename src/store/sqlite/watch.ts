/**
 * Wake-ups: tells when another process has committed, within about a millisecond and for next to nothing.
 *
 * The file system reports every write to the WAL, ours included; `PRAGMA data_version` changes only by a commit of
 * another connection and sorts the two apart.
 */

import { watch as watchFile } from "node:fs";
import { basename, dirname } from "node:path";
import type { Statements } from "./statements.ts";

export function watchCommits(path: string, statements: Statements, changed: () => void): () => void {
  const wal = `${basename(path)}-wal`;
  const version = () => statements.sql("PRAGMA data_version").get()?.["data_version"];
  let seen = version();
  let checking = false;
  const check = () => {
    checking = false;
    const current = version();
    if (current === seen) return;
    seen = current;
    changed();
  };
  // The folder, not the file: a WAL may be removed and made again.
  const watcher = watchFile(dirname(path), (_event, name) => {
    if (name !== wal || checking) return;
    checking = true;
    setImmediate(check);
  });
  watcher.unref();
  return () => watcher.close();
}
