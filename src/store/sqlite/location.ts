/**
 * Where a store may live. The store decides what gets executed, so whatever of it others can write, replace or plant is
 * refused: the file, what SQLite reads beside it, its folder, and the folders above. So is a network file system, where
 * SQLite's locks and shared memory do not hold; and a file with a second name, which has a second write-ahead log there:
 * whoever comes by the other name neither sees our commits nor waits for our locks.
 */

import * as fs from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import process from "node:process";
import { LeaseError } from "../../core/errors.ts";
import { identityOf, refuseOtherLog, replaced } from "./identity.ts";

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

export interface Place {
  /** The real path of the store. */
  path: string;
  /** Throws when the file is not the one any more that was looked at, or something was put beside it since. */
  recheck: () => void;
}

interface PlaceOptions {
  trust: boolean;
  create: boolean;
}

/** What SQLite reads as part of a store, even one that is yet to be made. */
export const BESIDE = ["-wal", "-shm", "-journal"] as const;

/** Makes sure that `file` can be a store and exists, or says why not; answers where it really is. */
export function prepareLocation(file_path: string, options: PlaceOptions): Place {
  let path = realPath(resolve(file_path));
  if (lookAt(path) === null && !options.create) {
    throw new LeaseError("no_store", `there is no store at ${path} yet: enqueue a job, or name another with --store`);
  }
  if (lookAt(path) === null) {
    creating(path, () => makeFolder(dirname(path)));
    // Some of the folders on the way may have been links.
    path = realPath(path);
  }
  refuseNetwork(dirname(path), path);
  if (!options.trust) refuseUntrustedAround(path);
  refuseOtherLog(path);
  if (lookAt(path) === null) creating(path, () => fs.closeSync(fs.openSync(path, "wx", 0o600)));
  const opened = identityOf(path);
  const recheck = () => {
    if (identityOf(path) !== opened) throw replaced(path);
    if (!options.trust) refuseUntrustedAround(path);
  };
  return { path, recheck };
}

/** The file, if it is there and can be a store. */
function lookAt(path: string): fs.Stats | null {
  const file = statOrNull(path);
  if (file?.isDirectory()) throw new LeaseError("store_path", `store ${path} is a folder: name a file in it`);
  if (file !== null && !file.isFile()) throw new LeaseError("store_path", `store ${path} is not a regular file`);
  if (file !== null) refuseSecondName(path, file);
  return file;
}

const TWO_LOGS = "each would get a write-ahead log of its own, and jobs would be lost";

function refuseSecondName(path: string, { nlink }: fs.Stats): void {
  if (nlink > 1) {
    const fix = `keep one (\`find / -xdev -samefile ${path}\` lists them), or make a copy with \`lease copy\``;
    throw new LeaseError("store_second_name", `store ${path} has ${nlink} names (hard links), and ${TWO_LOGS}: ${fix}`);
  }
  if (isMountPoint(path)) {
    const fix = "mount the folder that it is in, not the file";
    throw new LeaseError("store_second_name", `store ${path} is mounted as a file by itself, and ${TWO_LOGS}: ${fix}`);
  }
}

/** Mount points as the kernel lists them: blanks, and what else would confuse the list, in octal. */
function isMountPoint(path: string): boolean {
  const mounts = orNull(() => fs.readFileSync("/proc/self/mountinfo", "utf8")) ?? "";
  const listed = path.replaceAll(/[\\ \t\n#]/g, (char) => `\\${char.charCodeAt(0).toString(8).padStart(3, "0")}`);
  return mounts.split("\n").some((line) => line.split(" ")[4] === listed);
}

/** SQLite syncs the folder of a store; that the folder itself is there after a power failure is for us to see to. */
function makeFolder(folder: string): void {
  const first = fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let made = resolve(folder); made.length >= resolve(first).length; made = dirname(made))
    syncFolder(dirname(made));
}

function syncFolder(folder: string): void {
  // One that we may not read can't be synced by us, and not every file system syncs folders.
  const fd = orNull(() => fs.openSync(folder, "r"));
  if (fd === null) return;
  orNull(() => fs.fsyncSync(fd));
  fs.closeSync(fd);
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

const STICKY = 0o1000;
const OTHERS_WRITE = 0o022;

/** Parts, folder, and the folders above it: who can write one of those puts another folder in the place of ours. */
function refuseUntrustedAround(path: string): void {
  const folder = dirname(path);
  for (let above = folder; ; above = dirname(above)) {
    const stats = fs.statSync(above);
    refuseForeign(stats, above);
    const others_write = (stats.mode & OTHERS_WRITE) !== 0;
    const sticky = (stats.mode & STICKY) !== 0;
    // In a sticky folder nobody can take away what is ours, but anybody can put something beside it.
    if (others_write && above === folder && sticky) untrusted(above, "is a folder in which anybody can put files", OWN);
    if (others_write && !sticky) untrusted(above, OPEN, `chmod go-w ${above}`);
    if (above === dirname(above)) break;
  }
  for (const part of [path, ...BESIDE.map((suffix) => path + suffix)]) {
    const stats = statOrNull(part, fs.lstatSync);
    if (stats === null) continue;
    if (!stats.isFile()) untrusted(part, "is not a regular file", `look at it, and remove it`);
    refuseForeign(stats, part);
    if ((stats.mode & OTHERS_WRITE) !== 0) untrusted(part, OPEN, `chmod go-w ${part}`);
  }
}

const OPEN = "can be written by others";
const OWN = "use a store of your own, in a folder of its own";

/** Who owns the root folder can do anything anyway: root, or in some containers whoever stands for it. */
function refuseForeign({ uid }: fs.Stats, path: string): void {
  const own_uid = process.getuid?.();
  if (own_uid === undefined || uid === own_uid || uid === 0 || uid === fs.statSync("/").uid) return;
  untrusted(path, "belongs to another user", "use a store of your own");
}

function untrusted(path: string, what: string, fix: string): never {
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
  const mounts = orNull(() => fs.readFileSync("/proc/self/mounts", "utf8"));
  if (mounts === null) return "unknown";
  for (const line of mounts.split("\n")) {
    const [, mount = "", kind = "fuse"] = line.split(" ");
    const holds = folder === mount || folder.startsWith(mount.endsWith("/") ? mount : `${mount}/`);
    if (holds && mount.length > best.length) best = { length: mount.length, kind };
  }
  return best.kind;
}

function statOrNull(path: string, ask: (path: string) => fs.Stats = fs.statSync): fs.Stats | null {
  try {
    return ask(path);
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
