import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync, existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { findConfig as find } from "../../src/config/location.ts";
import { LeaseError } from "../../src/core/errors.ts";

const findConfig = (flag: string | undefined, env: Parameters<typeof find>[1]) => find(flag, env, existsSync);

const before = process.cwd();
let folder: string;
let own: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "lease-find-"));
  own = join(folder, "home/.config/lease/lease.toml");
  mkdirSync(join(folder, "home/.config/lease"), { recursive: true });
  mkdirSync(join(folder, "xdg/lease"), { recursive: true });
  mkdirSync(join(folder, "here"));
  mkdirSync(join(folder, "empty"));
  for (const path of [own, join(folder, "xdg/lease/lease.toml"), join(folder, "here/lease.toml")]) {
    writeFileSync(path, "");
  }
});
afterAll(() => {
  process.chdir(before);
  rmSync(folder, { recursive: true });
});

describe("the settings file is", () => {
  test("the one that is named, by the flag before the variable, wherever it is", () => {
    process.chdir(join(folder, "here"));
    const env = { HOME: join(folder, "home"), LEASE_CONFIG: own };
    expect(findConfig("../xdg/lease/lease.toml", env)).toEqual({ path: "../xdg/lease/lease.toml", named: true });
    expect(findConfig(undefined, env)).toEqual({ path: own, named: true });
  });

  test("else that of the working folder, else the user's own, else none", () => {
    const env = { HOME: join(folder, "home") };
    const xdg = join(folder, "xdg");
    process.chdir(join(folder, "here"));
    expect(findConfig(undefined, { ...env, LEASE_CONFIG: "" })).toEqual({ path: "lease.toml", named: false });
    process.chdir(join(folder, "empty"));
    expect(findConfig(undefined, env)).toEqual({ path: own, named: false });
    expect(findConfig(undefined, { ...env, XDG_CONFIG_HOME: "relative" })).toEqual({ path: own, named: false });
    expect(findConfig(undefined, { ...env, XDG_CONFIG_HOME: xdg })?.path).toBe(join(xdg, "lease/lease.toml"));
    expect(findConfig(undefined, { HOME: join(folder, "empty") })).toBeNull();
    expect(findConfig(undefined, {})).toBeNull();
  });

  test("refused when it was named and is not there, saying by what", () => {
    expect(() => findConfig("no.toml", {})).toThrow("--config no.toml does not exist");
    expect(() => findConfig(undefined, { LEASE_CONFIG: "no.toml" })).toThrow("LEASE_CONFIG no.toml does not exist");
    expect(() => findConfig("", {})).toThrow(LeaseError);
  });
});
