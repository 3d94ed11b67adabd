/**
 * Says yes to the place of a store when it is plain that it is right: a file of ours that nobody else can write, in a
 * folder of ours that nobody else can write, on a well-known local file system. About anything else it says nothing,
 * and place.ts looks closely.
 */

import process from "node:process";
import type { QuickFiles } from "../../platform/platform.ts";

/** Magic numbers of statfs(2): ext, XFS, Btrfs, tmpfs, overlay, ZFS, F2FS. */
const LOCAL = new Set([0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630, 0x2fc12fc1, 0xf2f52010]);
const TYPE = 0o170000;
const FOLDER = 0o040000;
const FILE = 0o100000;
const OTHERS_WRITE = 0o022;

export interface QuickPlace {
  /** The real path of the store. */
  path: string;
  wal_bytes: number;
}

/** Null when it takes a closer look. */
export function quickPlace(files: QuickFiles, file: string): QuickPlace | null {
  const path = file.includes("\0") ? null : files.realPath(file);
  if (path === null) return null;
  const folder = path.slice(0, path.lastIndexOf("/")) || "/";
  if (!LOCAL.has(files.fileSystem(folder) ?? 0)) return null;
  const own_uid = process.getuid?.();
  let wal_bytes = 0;
  for (const part of [folder, path, `${path}-wal`, `${path}-shm`]) {
    const stats = files.stat(part);
    const is_right =
      stats !== null &&
      (stats.mode & TYPE) === (part === folder ? FOLDER : FILE) &&
      (stats.mode & OTHERS_WRITE) === 0 &&
      stats.uid === own_uid;
    if (!is_right) return null;
    if (part.endsWith("-wal")) wal_bytes = stats.size;
  }
  return { path, wal_bytes };
}
