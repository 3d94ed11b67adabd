/** Chunks that nobody of us has written: a store may bring anything, and reading it ends, soon and in little memory. */

import { describe, expect, test } from "bun:test";
import { deflateRawSync } from "node:zlib";
import * as fc from "fast-check";
import { decodeChunk, encodeChunk } from "../../../src/runner/log/chunk.ts";

const chunkOf = (data: Uint8Array) => ({ start: 0, bytes: 10, data });
const packed = (plain: Uint8Array) => new Uint8Array([1, ...deflateRawSync(plain)]);
const text = new TextEncoder().encode("hello\n");
const entry = (at_ms: number) => ({ stream: "stdout" as const, at_ms, start: 0, bytes: text });

describe("a chunk of somebody else's", () => {
  test("that would be gigabytes is given up instead", () => {
    const bomb = packed(new Uint8Array(512 * 1024 * 1024));
    expect(bomb.length).toBeLessThan(1024 * 1024);
    const before = process.memoryUsage.rss();
    expect(decodeChunk(chunkOf(bomb))).toEqual([]);
    expect(process.memoryUsage.rss() - before).toBeLessThan(128 * 1024 * 1024);
  });

  test("is read as far as it goes", () => {
    const whole = encodeChunk([entry(1), entry(2)]);
    expect(decodeChunk(chunkOf(whole))).toHaveLength(2);
    expect(decodeChunk(chunkOf(whole.subarray(0, whole.length - 1)))).toHaveLength(1);
    expect(decodeChunk(chunkOf(encodeChunk([entry(1), entry(Number.NaN)])))).toHaveLength(1);
    expect(decodeChunk(chunkOf(encodeChunk([entry(1e15)])))).toEqual([]);
    expect(decodeChunk(chunkOf(new Uint8Array([7, 1, 2, 3])))).toEqual([]);
    expect(decodeChunk(chunkOf(new Uint8Array(0)))).toEqual([]);
  });

  test("never throws, whatever its bytes are, and is as long as it was when they are ours", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.boolean(), (bytes, deflated) => {
        for (const { at_ms } of decodeChunk(chunkOf(deflated ? packed(bytes) : bytes))) new Date(at_ms).toISOString();
      }),
    );
  });
});
