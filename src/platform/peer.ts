/**
 * Whose connection it is that comes from this machine: on Linux the kernel says which user owns the other end. Other users
 * of the machine reach its own address as well, and must not look into, or run something through, what is not theirs.
 */

import { readFileSync } from "node:fs";
import process from "node:process";
import type { Peer } from "./platform.ts";

/** A connection lasts, and asks often. */
const KNOWN_FOR_MS = 5_000;
const MOST_KNOWN = 256;
const known = new Map<number, { uid: number | null; at_ms: number }>();

/** Certainly somebody else, and not the administrator. False where the system does not tell. */
export function isForeignPeer({ port }: Peer): boolean {
  const own = process.getuid?.();
  if (own === undefined || process.platform !== "linux") return false;
  const now_ms = performance.now();
  let found = known.get(port);
  if (found === undefined || now_ms - found.at_ms > KNOWN_FOR_MS) {
    found = { uid: ownerOf(port), at_ms: now_ms };
    if (known.size >= MOST_KNOWN) known.clear();
    known.set(port, found);
  }
  return found.uid !== null && found.uid !== own && found.uid !== 0;
}

/** Of the loopback connection that has this port on its own side. */
function ownerOf(port: number): number | null {
  for (const table of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    const uid = ownerIn(readTable(table), port);
    if (uid !== null) return uid;
  }
  return null;
}

function readTable(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

const ESTABLISHED = "01";

/** `  0: 0100007F:14CF 0100007F:A2B4 01 00000000:00000000 00:00000000 00000000  1000 …`: local, remote, state, …, user. */
export function ownerIn(table: string, port: number): number | null {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  for (const line of table.split("\n")) {
    const [, local = "", , state, , , , uid] = line.trim().split(/\s+/);
    if (state === ESTABLISHED && local.endsWith(suffix) && isLoopback(local)) return Number(uid);
  }
  return null;
}

/** 127.x.x.x, ::1, or the former in the form of the latter; the kernel writes them by words, the low byte first. */
function isLoopback(local: string): boolean {
  return /^(?:[\dA-F]{6}7F|0{24}01000000|0{16}FFFF0000[\dA-F]{6}7F):/.test(local);
}
