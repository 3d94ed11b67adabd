/** Files stay under 400 lines and functions under 60. oxlint measures; these tests prove that .oxlintrc.json makes it. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { root } from "./source.ts";

const lines = (count: number, line: string): string => `${line}\n`.repeat(count);
const functionOf = (count: number): string => `export function f() {\n${lines(count - 2, "  f();")}}\n`;

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "lease-size-"));
  copyFileSync(join(root, ".oxlintrc.json"), join(folder, ".oxlintrc.json"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The size rules that oxlint finds broken in one file of a project with our configuration. */
function broken(path: string, source: string): string[] {
  const file = join(folder, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, source);
  const oxlint = join(root, "node_modules/oxlint/bin/oxlint");
  const { stdout } = Bun.spawnSync([process.execPath, oxlint, "--format=json", path], { cwd: folder });
  const { diagnostics } = JSON.parse(stdout.toString()) as { diagnostics: { code: string }[] };
  return diagnostics.map(({ code }) => code).filter((code) => code.includes("max-lines"));
}

describe("the size limits of source files", () => {
  test("a file of 400 lines passes, one of 401 does not", () => {
    expect(broken("src/core/fits.ts", lines(400, "export {};"))).toEqual([]);
    expect(broken("src/core/long.ts", lines(401, "export {};"))).toEqual(["eslint(max-lines)"]);
  });

  test("a function of 60 lines passes, one of 61 does not", () => {
    expect(broken("src/roles/fits.ts", functionOf(60))).toEqual([]);
    expect(broken("src/roles/long.ts", functionOf(61))).toEqual(["eslint(max-lines-per-function)"]);
  });

  test("a test may be longer: a describe block is one function", () => {
    expect(broken("test/core/job.test.ts", functionOf(400))).toEqual([]);
  });
});
