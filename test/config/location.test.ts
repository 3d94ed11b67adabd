import { describe, expect, test } from "bun:test";
import { storeLocation } from "../../src/config/location.ts";
import { LeaseError } from "../../src/core/errors.ts";

const all = { XDG_STATE_HOME: "/xdg", HOME: "/home/u" };

describe("where the store is", () => {
  test("is what somebody chose, else in the folder for state, else in that of the home folder", () => {
    expect(storeLocation("/flag.db", all)).toBe("/flag.db");
    expect(storeLocation("rel.db", all)).toBe("rel.db");
    expect(storeLocation("postgres://host/db", all)).toBe("postgres://host/db");
    expect(storeLocation(undefined, all)).toBe("/xdg/lease/lease.db");
    expect(storeLocation(undefined, { HOME: "/home/u" })).toBe("/home/u/.local/state/lease/lease.db");
  });

  test("ignores variables that are set to nothing, and a folder for state that is relative", () => {
    expect(storeLocation(undefined, { HOME: "/h", XDG_STATE_HOME: "" })).toBe("/h/.local/state/lease/lease.db");
    expect(storeLocation(undefined, { HOME: "/h", XDG_STATE_HOME: "state" })).toBe("/h/.local/state/lease/lease.db");
  });

  test("is a usage error when the flag is empty, or nobody says anything", () => {
    for (const ask of [
      () => storeLocation("", all),
      () => storeLocation(undefined, {}),
      () => storeLocation(undefined, { HOME: "" }),
    ]) {
      expect(ask).toThrow(LeaseError);
      expect(ask).toThrow(/--store/);
    }
  });
});
