/**
 * A service manager's ear: `bun datagrams.ts ADDRESS` binds a Unix datagram socket there, prints "listening", and then
 * each message that it gets as a line of JSON, until it is killed.
 */

import { dlopen, ptr } from "bun:ffi";

const [, , address = ""] = process.argv;
const { symbols: c } = dlopen("libc.so.6", {
  socket: { args: ["i32", "i32", "i32"], returns: "i32" },
  bind: { args: ["i32", "ptr", "u32"], returns: "i32" },
  recv: { args: ["i32", "ptr", "u64", "i32"], returns: "i64" },
});

const path = new TextEncoder().encode(address.startsWith("@") ? `\0${address.slice(1)}` : `${address}\0`);
const name = Uint8Array.of(1, 0, ...path);
const fd = c.socket(1, 2, 0);
if (fd < 0 || c.bind(fd, ptr(name), name.length) !== 0) throw new Error(`can't listen at ${address}`);
await Bun.write(Bun.stdout, "listening\n");
const buffer = new Uint8Array(65_536);
for (;;) {
  const count = Number(c.recv(fd, ptr(buffer), buffer.length, 0));
  if (count < 0) throw new Error(`can't hear at ${address}`);
  await Bun.write(Bun.stdout, `${JSON.stringify(new TextDecoder().decode(buffer.subarray(0, count)))}\n`);
}
