/**
 * Signs a program for macOS as its own linker does: ad hoc, which says only that the file is whole. A Mac starts nothing
 * without that, and the signature of the runtime that ours is made of no longer fits. The form is that of Apple's
 * cs_blobs.h: a "super blob" with one code directory, which has a SHA-256 of every page.
 */

import { createHash } from "node:crypto";

const MAGIC_64 = 0xfeedfacf;
const LC_SEGMENT_64 = 0x19;
const LC_CODE_SIGNATURE = 0x1d;
const SUPER_BLOB = 0xfade0cc0;
const CODE_DIRECTORY = 0xfade0c02;
const HEADER_BYTES = 32;
const SUPER_BYTES = 20;
const DIRECTORY_BYTES = 88;
const DIRECTORY_VERSION = 0x20400;
/** Ad hoc, and by a linker: `codesign` may replace it without being forced. */
const FLAGS = 0x20002;
const SHA256 = { type: 2, bytes: 32 };
const PAGE_BITS = 12;
const MAIN_BINARY = 1n;

interface Layout {
  /** Of the command that says where the signature is, and that of the segment which holds it. */
  signature_at: number;
  linkedit_at: number;
  /** Where the signature begins: all before it is signed. */
  limit: number;
  text: { offset: bigint; size: bigint };
}

function layoutOf(program: Buffer): Layout {
  if (program.readUInt32LE(0) !== MAGIC_64) throw new Error("this is no 64-bit Mach-O program");
  let at = HEADER_BYTES;
  let [signature_at, linkedit_at, text] = [0, 0, { offset: 0n, size: 0n }];
  for (let left = program.readUInt32LE(16); left > 0; left--) {
    const command = program.readUInt32LE(at);
    if (command === LC_CODE_SIGNATURE) signature_at = at;
    if (command === LC_SEGMENT_64) {
      const name = program.toString("latin1", at + 8, at + 24).replace(/\0.*/s, "");
      if (name === "__LINKEDIT") linkedit_at = at;
      if (name === "__TEXT")
        text = { offset: program.readBigUInt64LE(at + 40), size: program.readBigUInt64LE(at + 48) };
    }
    at += program.readUInt32LE(at + 4);
  }
  if (signature_at === 0 || linkedit_at === 0) throw new Error("this program has no place for a signature");
  return { signature_at, linkedit_at, limit: program.readUInt32LE(signature_at + 8), text };
}

const digestOf = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest();

/** The program with a signature of its own in place of the one that it has. */
export function signedAdHoc(program: Buffer, identifier: string): Buffer<ArrayBuffer> {
  const { signature_at, linkedit_at, limit, text } = layoutOf(program);
  const pages = Math.ceil(limit / 2 ** PAGE_BITS);
  const name = Buffer.from(`${identifier}\0`);
  const hashes_at = DIRECTORY_BYTES + name.length;
  const directory_bytes = hashes_at + pages * SHA256.bytes;
  const size = Math.ceil((SUPER_BYTES + directory_bytes) / 16) * 16;

  const signed = Buffer.alloc(limit + size);
  program.copy(signed, 0, 0, limit);
  signed.writeUInt32LE(size, signature_at + 12);
  // The segment ends with the signature; in memory it is rounded to the largest page that a Mac has.
  const in_file = BigInt(limit + size) - signed.readBigUInt64LE(linkedit_at + 40);
  signed.writeBigUInt64LE(in_file, linkedit_at + 48);
  signed.writeBigUInt64LE(((in_file + 0x3fffn) / 0x4000n) * 0x4000n, linkedit_at + 32);

  const words = [SUPER_BLOB, SUPER_BYTES + directory_bytes, 1, 0, SUPER_BYTES];
  for (const [index, word] of words.entries()) signed.writeUInt32BE(word, limit + 4 * index);
  const at = limit + SUPER_BYTES;
  const hashing = (SHA256.bytes << 24) | (SHA256.type << 16) | PAGE_BITS;
  const begin = [CODE_DIRECTORY, directory_bytes, DIRECTORY_VERSION, FLAGS, hashes_at, DIRECTORY_BYTES];
  const fields = [...begin, 0, pages, limit, hashing];
  for (const [index, field] of fields.entries()) signed.writeUInt32BE(field, at + 4 * index);
  signed.writeBigUInt64BE(text.offset, at + 64);
  signed.writeBigUInt64BE(text.size, at + 72);
  signed.writeBigUInt64BE(MAIN_BINARY, at + 80);
  name.copy(signed, at + DIRECTORY_BYTES);
  // Only now: the first page has the commands that were changed.
  for (let page = 0; page < pages; page++)
    digestOf(pageOf(signed, page, limit)).copy(signed, at + hashes_at + page * 32);
  return signed;
}

const pageOf = (program: Buffer, page: number, limit: number): Buffer =>
  program.subarray(page << PAGE_BITS, Math.min((page + 1) << PAGE_BITS, limit));

/** How many pages are not what the signature says they are; null where none is found. */
export function unsignedPages(program: Buffer): number | null {
  const { limit } = layoutOf(program);
  if (program.readUInt32BE(limit) !== SUPER_BLOB) return null;
  const at = limit + program.readUInt32BE(limit + 16);
  if (program.readUInt32BE(at) !== CODE_DIRECTORY || program.readUInt32BE(at + 32) !== limit) return null;
  const [hashes_at, pages] = [program.readUInt32BE(at + 16), program.readUInt32BE(at + 28)];
  let wrong = 0;
  for (let page = 0; page < pages; page++) {
    const said = program.subarray(at + hashes_at + page * 32, at + hashes_at + (page + 1) * 32);
    if (!digestOf(pageOf(program, page, limit)).equals(said)) wrong++;
  }
  return wrong;
}
