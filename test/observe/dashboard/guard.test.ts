import { expect, test } from "bun:test";
import { hostName, isAddress, isSame, newToken } from "../../../src/observe/dashboard/guard.ts";

test("a host is its name, with or without a port", () => {
  const headers = ["localhost:5327", "LOCALHOST", "[::1]:5327", "[::1]", "10.0.0.7:80", "name.", ""];
  expect(headers.map(hostName)).toEqual(["localhost", "localhost", "::1", "::1", "10.0.0.7", "name", ""]);
});

test("a name that looks like an address is none", () => {
  expect(["10.0.0.7", "::1", "fe80::1"].every(isAddress)).toBe(true);
  expect(["10.0.0.7.evil.example", "localhost", "", "1.2.3"].some(isAddress)).toBe(false);
});

test("tokens are long, each another, and compared whole", () => {
  const token = newToken();
  expect(token).toMatch(/^[\w-]{32}$/);
  expect(newToken()).not.toBe(token);
  expect(isSame(token, token)).toBe(true);
  for (const other of ["", token.slice(0, -1), `${token}x`, newToken()]) expect(isSame(other, token)).toBe(false);
});
