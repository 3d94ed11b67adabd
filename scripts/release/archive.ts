/**
 * Archives whose bytes depend on nothing but what is in them: no clock, no user, no order of a folder. tar (ustar), ar
 * and cpio (newc) are small enough to be written down; the tools of a machine put in what differs from machine to machine.
 */

/** A file of a package; folders are made for it. */
export interface Entry {
  /** Without a slash in front. */
  path: string;
  content: Uint8Array;
  executable?: boolean;
}

const BLOCK = 512;

export const modeOf = (entry: Entry): number => (entry.executable ? 0o755 : 0o644);

/** The folders above these files, outermost first. */
export function foldersOf(entries: readonly Entry[]): string[] {
  const folders = new Set<string>();
  for (const { path } of entries) {
    const parts = path.split("/").slice(0, -1);
    for (let depth = 1; depth <= parts.length; depth++) folders.add(parts.slice(0, depth).join("/"));
  }
  return [...folders].toSorted();
}

/** Small things as small as they get; a hundred megabytes would take half a minute for two percent. */
const LARGE = 1024 * 1024;

export function gzip(bytes: Uint8Array): Buffer<ArrayBuffer> {
  return Buffer.from(Bun.gzipSync(bytes as Uint8Array<ArrayBuffer>, { level: bytes.length > LARGE ? 6 : 9 }));
}

/** All as root's, and as old as it is said. */
export function tar(entries: readonly Entry[], at_s: number, prefix = ""): Buffer<ArrayBuffer> {
  const folders = foldersOf(entries.map((entry) => ({ ...entry, path: prefix + entry.path })));
  const parts = folders.map((path) => tarHeader(`${path}/`, 0, 0o755, "5", at_s));
  for (const entry of entries) {
    parts.push(tarHeader(prefix + entry.path, entry.content.length, modeOf(entry), "0", at_s));
    parts.push(Buffer.from(entry.content), Buffer.alloc(-entry.content.length & (BLOCK - 1)));
  }
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)]);
}

function tarHeader(path: string, size: number, mode: number, type: string, at_s: number): Buffer<ArrayBuffer> {
  if (Buffer.byteLength(path) > 100) throw new Error(`${path} is too long for a tar of this form`);
  const header = Buffer.alloc(BLOCK);
  const octal = (value: number, offset: number, length: number) =>
    header.write(`${value.toString(8).padStart(length - 1, "0")}\0`, offset);
  header.write(path, 0);
  octal(mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(at_s, 136, 12);
  header.write("        ", 148);
  header.write(type, 156);
  header.write("ustar\u000000root", 257);
  header.write("root", 297);
  octal(
    header.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  );
  return header;
}

export function ar(members: readonly { name: string; content: Uint8Array }[], at_s: number): Buffer<ArrayBuffer> {
  const parts = [Buffer.from("!<arch>\n")];
  for (const { name, content } of members) {
    const fields = [name.padEnd(16), String(at_s).padEnd(12), "0".padEnd(6), "0".padEnd(6), "100644".padEnd(8)];
    parts.push(Buffer.from(`${fields.join("")}${String(content.length).padEnd(10)}\`\n`), Buffer.from(content));
    if (content.length % 2 === 1) parts.push(Buffer.from("\n"));
  }
  return Buffer.concat(parts);
}

export function cpio(entries: readonly Entry[], at_s: number): Buffer<ArrayBuffer> {
  const parts: Buffer[] = [];
  const add = (name: string, content: Uint8Array, mode: number, inode: number): void => {
    const named = Buffer.from(`${name}\0`);
    // inode mode uid gid links mtime size major minor rmajor rminor namesize check
    const fields = [inode, mode, 0, 0, 1, at_s, content.length, 0, 0, 0, 0, named.length, 0];
    const head = `070701${fields.map((field) => field.toString(16).padStart(8, "0")).join("")}`;
    parts.push(padded(Buffer.concat([Buffer.from(head), named])), padded(Buffer.from(content)));
  };
  for (const [index, entry] of entries.entries()) {
    add(`./${entry.path}`, entry.content, 0o100000 | modeOf(entry), index + 1);
  }
  add("TRAILER!!!", new Uint8Array(), 0, 0);
  return Buffer.concat(parts);
}

const padded = (bytes: Buffer): Buffer => Buffer.concat([bytes, Buffer.alloc(-bytes.length & 3)]);
