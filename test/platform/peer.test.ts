import { expect, test } from "bun:test";
import { ownerIn } from "../../src/platform/peer.ts";

const TABLE = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:14CF 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0
   1: 0100007F:A2B4 0100007F:14CF 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0 20 4 30 10 -1
   2: 0A00000A:A2B5 0100007F:14CF 01 00000000:00000000 00:00000000 00000000  1002        0 3 1 0 20 4 30 10 -1
   3: 0000000000000000FFFF00000100007F:A2B6 0000000000000000FFFF00000100007F:14CF 01 00000000:00000000 00:00000000 00000000  1003 0 4`;

test("the owner of a connection from this machine is found by its port", () => {
  expect(ownerIn(TABLE, 0xa2b4)).toBe(1001);
  expect(ownerIn(TABLE, 0xa2b6)).toBe(1003);
});

test("who listens, who comes from elsewhere and who is not there is nobody", () => {
  expect([0x14cf, 0xa2b5, 1].map((port) => ownerIn(TABLE, port))).toEqual([null, null, null]);
});
