/** Datagrams to a Unix socket, which neither Bun nor Node can send: one message each, as service managers hear them. */

import { ptr } from "bun:ffi";
import { libc } from "./libc.ts";
import type { SendDatagram } from "./platform.ts";

const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_CLOEXEC = 0o2000000;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;
/** What struct sockaddr_un has room for. */
const LONGEST_PATH = 108;

const socketLibc = libc({
  socket: { args: ["i32", "i32", "i32"], returns: "i32" },
  sendto: { args: ["i32", "ptr", "u64", "i32", "ptr", "u32"], returns: "i64" },
});

/** Null where the C library can't be called, or the address is none of a Unix socket. */
export function datagramTo(address: string): SendDatagram | null {
  const c = socketLibc();
  const to = addressOf(address);
  if (c === null || to === null) return null;
  const fd = c.socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return null;
  return (text, { wait }) => {
    const bytes = new TextEncoder().encode(text);
    const flags = MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT);
    return Number(c.sendto(fd, ptr(bytes), bytes.length, flags, ptr(to), to.length)) === bytes.length;
  };
}

/** A path, or behind an `@` a name that no file has: those begin with a zero byte and are as long as they are. */
function addressOf(address: string): Uint8Array | null {
  const is_name = address.startsWith("@");
  if (!is_name && !address.startsWith("/")) return null;
  const path = new TextEncoder().encode(is_name ? `\0${address.slice(1)}` : `${address}\0`);
  return path.length > LONGEST_PATH ? null : Uint8Array.of(AF_UNIX, 0, ...path);
}
