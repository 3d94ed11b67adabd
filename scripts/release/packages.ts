/**
 * Debian's and RPM's packages. Written here and not by nfpm or rpmbuild: both formats are documented and stable, need a
 * page of code each, and come out the same on every machine; the alternatives are a program in Go that no registry of
 * ours has, and tools that read the clock and the host. `dpkg-deb`, `lintian` and `rpm` judge them in the tests.
 */

import { createHash } from "node:crypto";
import manifest from "../../package.json" with { type: "json" };
import { ar, cpio, foldersOf, gzip, modeOf, tar, type Entry } from "./archive.ts";

export interface PackageInfo {
  version: string;
  /** The name of the architecture that this format has. */
  arch: string;
  /** When the commit was made. */
  at_s: number;
}

const HOME = manifest.homepage;
export const MAINTAINER = "lease maintainers <maintainers@lease.example>";
const SUMMARY = "durable queue for shell jobs in one executable";
const DESCRIPTION = [
  "Jobs live in one SQLite file or a PostgreSQL database. A worker runs a job",
  "under a lease that is extended only while the job proves that it works; what",
  "hangs is stopped and tried again, what lost its worker is recovered.",
];

const digest = (kind: "md5" | "sha1" | "sha256", bytes: Uint8Array): string =>
  createHash(kind).update(bytes).digest("hex");

export function deb(entries: readonly Entry[], { version, arch, at_s }: PackageInfo): Buffer {
  const kilobytes = Math.ceil(entries.reduce((sum, { content }) => sum + content.length, 0) / 1024);
  const control = [
    "Package: lease",
    `Version: ${version}`,
    `Architecture: ${arch}`,
    `Maintainer: ${MAINTAINER}`,
    `Installed-Size: ${kilobytes}`,
    "Depends: libc6 (>= 2.17)",
    "Section: utils",
    "Priority: optional",
    `Homepage: ${HOME}`,
    `Description: ${SUMMARY}`,
    ...DESCRIPTION.map((line) => ` ${line}`),
  ];
  const sums = entries.map(({ path, content }) => `${digest("md5", content)}  ${path}`);
  const about: Entry[] = [
    { path: "control", content: Buffer.from(`${control.join("\n")}\n`) },
    { path: "md5sums", content: Buffer.from(`${sums.join("\n")}\n`) },
  ];
  const members = [
    { name: "debian-binary", content: Buffer.from("2.0\n") },
    { name: "control.tar.gz", content: gzip(tar(about, at_s, "./")) },
    { name: "data.tar.gz", content: gzip(tar(entries, at_s, "./")) },
  ];
  return ar(members, at_s);
}

type Value =
  | { type: "int16" | "int32"; values: number[] }
  | { type: "text" | "texts" | "i18n"; values: string[] }
  | { type: "bytes"; values: Uint8Array };

const TYPES = { int16: 3, int32: 4, text: 6, bytes: 7, texts: 8, i18n: 9 } as const;
const WIDTH: Partial<Record<Value["type"], number>> = { int16: 2, int32: 4 };

function encoded({ type, values }: Value): { bytes: Buffer; count: number } {
  if (type === "bytes") return { bytes: Buffer.from(values), count: values.length };
  if (type === "int16" || type === "int32") {
    const width = type === "int16" ? 2 : 4;
    const bytes = Buffer.alloc(values.length * width);
    for (const [index, value] of values.entries()) bytes.writeUIntBE(value, index * width, width);
    return { bytes, count: values.length };
  }
  return { bytes: Buffer.from(values.map((value) => `${value}\0`).join("")), count: values.length };
}

/** A header as rpm has it: an index of tags, and their values behind it; the first one says that all belongs together. */
function header(region: number, tags: ReadonlyMap<number, Value>): Buffer {
  const index: Buffer[] = [];
  const store: Buffer[] = [];
  let offset = 0;
  const entry = (tag: number, type: number, at: number, count: number): Buffer => {
    const bytes = Buffer.alloc(16);
    for (const [place, value] of [tag, type, at, count].entries()) bytes.writeInt32BE(value, place * 4);
    return bytes;
  };
  for (const [tag, value] of [...tags].toSorted(([a], [b]) => a - b)) {
    const { bytes, count } = encoded(value);
    const gap = Buffer.alloc(-offset & ((WIDTH[value.type] ?? 1) - 1));
    store.push(gap, bytes);
    index.push(entry(tag, TYPES[value.type], offset + gap.length, count));
    offset += gap.length + bytes.length;
  }
  const entries = index.length + 1;
  const trailer = entry(region, TYPES.bytes, -16 * entries, 16);
  const head = Buffer.alloc(16);
  head.writeUInt32BE(0x8eade801, 0);
  head.writeUInt32BE(entries, 8);
  head.writeUInt32BE(offset + 16, 12);
  return Buffer.concat([head, entry(region, TYPES.bytes, offset, 16), ...index, ...store, trailer]);
}

const int32 = (...values: number[]): Value => ({ type: "int32", values });
const text = (value: string): Value => ({ type: "text", values: [value] });
const texts = (values: string[]): Value => ({ type: "texts", values });
const i18n = (value: string): Value => ({ type: "i18n", values: [value] });

const [AT_MOST, EXACTLY] = [0x0100000a, 8];
/** What rpm itself must be able to do, and the C library. */
const REQUIRED: readonly (readonly [string, string, number])[] = [
  ["libc.so.6()(64bit)", "", 0],
  ["rpmlib(CompressedFileNames)", "3.0.4-1", AT_MOST],
  ["rpmlib(FileDigests)", "4.6.0-1", AT_MOST],
  ["rpmlib(PayloadFilesHavePrefix)", "4.0-1", AT_MOST],
];

function fileTags(entries: readonly Entry[], at_s: number): [number, Value][] {
  const each = <T>(value: (entry: Entry, index: number) => T): T[] =>
    entries.map((entry, index) => value(entry, index));
  const folderOf = (path: string) => `/${path.slice(0, path.lastIndexOf("/") + 1)}`;
  const folders = foldersOf(entries)
    .map((folder) => `/${folder}/`)
    .filter((folder) => entries.some(({ path }) => folderOf(path) === folder));
  return [
    [1028, int32(...each(({ content }) => content.length))],
    [1030, { type: "int16", values: each((entry) => 0o100000 | modeOf(entry)) }],
    [1033, { type: "int16", values: each(() => 0) }],
    [1034, int32(...each(() => at_s))],
    [1035, texts(each(({ content }) => digest("sha256", content)))],
    [1036, texts(each(() => ""))],
    // %doc is 2, %license 128.
    [1037, int32(...each(({ path }) => (path.includes("/licenses/") ? 128 : path.includes("/man/") ? 2 : 0)))],
    [1039, texts(each(() => "root"))],
    [1040, texts(each(() => "root"))],
    [1045, int32(...each(() => 0xffffffff))],
    [1095, int32(...each(() => 1))],
    [1096, int32(...each((_entry, index) => index + 1))],
    [1097, texts(each(() => ""))],
    [1116, int32(...each(({ path }) => folders.indexOf(folderOf(path))))],
    [1117, texts(each(({ path }) => path.slice(path.lastIndexOf("/") + 1)))],
    [1118, texts(folders)],
    [5011, int32(8)],
  ];
}

export function rpm(entries: readonly Entry[], { version, arch, at_s }: PackageInfo): Buffer {
  // A dash would end the version.
  const dashless = version.replaceAll("-", "~");
  const unpacked = cpio(entries, at_s);
  const payload = gzip(unpacked);
  const main = header(
    63,
    new Map<number, Value>([
      [100, texts(["C"])],
      [1000, text("lease")],
      [1001, text(dashless)],
      [1002, text("1")],
      [1004, i18n(SUMMARY)],
      [1005, i18n(DESCRIPTION.join("\n"))],
      [1006, int32(at_s)],
      [1007, text("lease")],
      [1009, int32(entries.reduce((sum, { content }) => sum + content.length, 0))],
      [1014, text(manifest.license)],
      [1016, i18n("Applications/System")],
      [1020, text(HOME)],
      [1021, text("linux")],
      [1022, text(arch)],
      [1044, text(`lease-${dashless}-1.src.rpm`)],
      [1047, texts(["lease"])],
      [1048, int32(...REQUIRED.map(([, , flags]) => flags))],
      [1049, texts(REQUIRED.map(([name]) => name))],
      [1050, texts(REQUIRED.map(([, least]) => least))],
      [1064, text("4.18.0")],
      [1112, int32(EXACTLY)],
      [1113, texts([`${dashless}-1`])],
      [1124, text("cpio")],
      [1125, text("gzip")],
      [1126, text("6")],
      [5092, texts([digest("sha256", payload)])],
      [5093, int32(8)],
      ...fileTags(entries, at_s),
    ]),
  );
  const both = Buffer.concat([main, payload]);
  const signature = header(
    62,
    new Map<number, Value>([
      [269, text(digest("sha1", main))],
      [273, text(digest("sha256", main))],
      [1000, int32(both.length)],
      [1004, { type: "bytes", values: Buffer.from(digest("md5", both), "hex") }],
      [1007, int32(unpacked.length)],
    ]),
  );
  const lead = Buffer.alloc(96);
  lead.writeUInt32BE(0xedabeedb, 0);
  lead.writeUInt8(3, 4);
  lead.writeUInt16BE(arch === "aarch64" ? 19 : 1, 8);
  lead.write(`lease-${dashless}-1`, 10);
  lead.writeUInt16BE(1, 76);
  lead.writeUInt16BE(5, 78);
  return Buffer.concat([lead, signature, Buffer.alloc(-signature.length & 7), both]);
}
