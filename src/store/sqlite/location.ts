/**
 * Where a store may live. The store decides what gets executed, so a file or folder that others can write is refused; so is a
 * network file system, where SQLite's locks and shared memory do not hold.
 */

import * as fs from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import process from "node:process";
import { LeaseError } from "../../core/errors.ts";

/** Magic numbers of statfs(2). */
const NETWORK_FILE_SYSTEMS = new Map([
  [0x6969, "NFS"],
  [0x517b, "SMB"],
  [0xff534d42, "CIFS"],
  [0xfe534d42, "SMB2"],
  [0x01021997, "9p"],
  [0x00c36400, "Ceph"],
  [0x5346414f, "AFS"],
  [0x6b414653, "AFS"],
  [0x0bd00bd0, "Lustre"],
  [0x73757245, "Coda"],
  [0x19830326, "BeeGFS"],
  [0x47504653, "GPFS"],
]);

const FUSE = 0x65735546;

const LOCAL_FUSE = new Set("fuseblk fuse.ntfs-3g fuse.exfat fuse.fuse-overlayfs fuse.lxcfs fuse.gocryptfs".split(" "));

const MOST_LINKS = 40;

/** The file itself, behind all links, also when it is not there yet: what counts is the folder it will really be in. */
function realPath(path: string): string {
  let real = path;
  for (let links = 0; links < MOST_LINKS; links++) {
    const found = orNull(() => fs.realpathSync(real));
    if (found !== null) return found;
    const target = orNull(() => fs.readlinkSync(real));
    if (target === null) break;
    real = resolve(dirname(real), target);
  }
  return orNull(() => join(fs.realpathSync(dirname(real)), basename(real))) ?? real;
}

function orNull<T>(ask: () => T): T | null {
  try {
    return ask();
  } catch {
    return null;
  }
}

/** Makes sure that `file` can be a store and exists, or says why not; answers where it really is. */
export function prepareLocation(file_path: string, options: { trust: boolean; create: boolean }): string {
  const path = realPath(resolve(file_path));
  const folder = dirname(path);
  const file = statOrNull(path);
  if (file?.isDirectory()) throw new LeaseError("store_path", `store ${path} is a folder: name a file in it`);
  if (file !== null && !file.isFile()) throw new LeaseError("store_path", `store ${path} is not a regular file`);
  if (file === null && !options.create) {
    throw new LeaseError("no_store", `there is no store at ${path} yet: enqueue a job, or name another with --store`);
  }
  if (file === null) creating(path, () => fs.mkdirSync(folder, { recursive: true, mode: 0o700 }));
  refuseNetwork(folder, path);
  if (!options.trust) {
    refuseUntrusted(fs.statSync(folder), folder);
    // What lies beside it is read as part of it, even if the store itself is yet to be made.
    for (const part of [path, `${path}-wal`, `${path}-shm`]) {
      const stats = statOrNull(part);
      if (stats !== null) refuseUntrusted(stats, part);
    }
  }
  if (file === null) creating(path, () => fs.closeSync(fs.openSync(path, "wx", 0o600)));
  return path;
}

/** Another process may be first. */
function creating(path: string, create: () => void): void {
  try {
    create();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return;
    throw new LeaseError("store_path", `store ${path} can't be created: ${because(error)}`, { cause: error });
  }
}

/** Others may write when the mode says so (a sticky folder such as /tmp protects its files), or when it is theirs. */
function refuseUntrusted(stats: fs.Stats, path: string): void {
  const own_uid = process.getuid?.();
  const sticky_folder = stats.isDirectory() && (stats.mode & 0o1000) !== 0;
  const others_write = (stats.mode & 0o022) !== 0 && !sticky_folder;
  const foreign = own_uid !== undefined && stats.uid !== own_uid && stats.uid !== 0;
  if (!others_write && !foreign) return;
  const what = others_write ? "can be written by others" : "belongs to another user";
  const fix = others_write ? `chmod go-w ${path}` : "use a store of your own";
  const message = `${path} ${what}, and a store decides what gets executed: ${fix}, or pass --trust-store`;
  throw new LeaseError("store_untrusted", message);
}

function refuseNetwork(folder: string, path: string): void {
  const name = networkFileSystem(fs.statfsSync(folder).type, () => mountKind(folder));
  if (name === null) return;
  const advice = "where SQLite loses data: use a local disk or postgres://";
  throw new LeaseError("store_network", `store ${path} is on a network file system (${name}), ${advice}`);
}

/** The name of the network file system with this magic number; null for a local one. */
export function networkFileSystem(magic: number, fuse_kind: () => string): string | null {
  // Some systems hand the number out sign-extended.
  const type = magic >>> 0;
  if (type !== FUSE) return NETWORK_FILE_SYSTEMS.get(type) ?? null;
  const kind = fuse_kind();
  return LOCAL_FUSE.has(kind) ? null : kind;
}

export function fileSystemName(folder: string): { name: string; network: boolean } {
  const network = networkFileSystem(fs.statfsSync(folder).type, () => mountKind(folder));
  return { name: network ?? mountKind(folder), network: network !== null };
}

/** The type of the mount that holds `folder`, for example `fuse.sshfs`. */
function mountKind(folder: string): string {
  let best = { length: -1, kind: "fuse" };
  for (const line of fs.readFileSync("/proc/self/mounts", "utf8").split("\n")) {
    const [, mount = "", kind = "fuse"] = line.split(" ");
    const holds = folder === mount || folder.startsWith(mount.endsWith("/") ? mount : `${mount}/`);
    if (holds && mount.length > best.length) best = { length: mount.length, kind };
  }
  return best.kind;
}

function statOrNull(path: string): fs.Stats | null {
  try {
    return fs.statSync(path);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ENOENT") return null;
    throw new LeaseError("store_path", `store ${path} can't be reached: ${because(error)}`, { cause: error });
  }
}

function because(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "EACCES" || code === "EPERM") return "permission denied";
  if (code === "EROFS") return "the file system is read-only";
  if (code === "ENOTDIR") return "part of the path is a file";
  if (code === "ENOSPC") return "the disk is full";
  return message;
}

/**
 * A check that throws when the file at `path` is not the one any more that it is now, because it was deleted or replaced.
 * The engine would go on with the file that it has open and that nobody else can see: all that is written to it would be
 * lost with us, without a sound.
 */
export function sameFile(path: string): () => void {
  const opened = fileAt(path);
  return () => {
    if (fileAt(path) === opened) return;
    const advice = "was deleted or replaced by another file while it was in use: start again to use what is there now";
    throw new LeaseError("store_path", `store ${path} ${advice}`);
  };
}

function fileAt(path: string): string | null {
  const stats = fs.statSync(path, { throwIfNoEntry: false });
  return stats === undefined ? null : `${stats.dev}:${stats.ino}`;
}
