/** The library as JSR takes it: `deno publish` has nothing against it. Without a network: what it needs lies beside it. */

import { afterAll, expect, test } from "bun:test";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import manifest from "../../package.json" with { type: "json" };
import { packJsr, packLibrary } from "../../scripts/pack.ts";
import { ROOT, run } from "../cli/lease.ts";

const folder = mkdtempSync(join(tmpdir(), "lease-jsr-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const NOWHERE = "http://127.0.0.1:1";

test("deno publish would take it", async () => {
  const place = join(folder, "jsr");
  await packLibrary(join(folder, "queue"));
  packJsr(place, join(folder, "queue"));
  const path = join(place, "deno.json");
  const about = JSON.parse(readFileSync(path, "utf8"));
  expect(about).toMatchObject({ name: "@lease/queue", version: manifest.version });
  expect(about.imports).toEqual({
    postgres: `npm:postgres@${manifest.dependencies.postgres}`,
    valibot: `npm:valibot@${manifest.dependencies.valibot}`,
  });
  writeFileSync(path, JSON.stringify({ ...about, nodeModulesDir: "manual" }));
  for (const name of ["postgres", "valibot", "@types/node", "undici-types"]) {
    cpSync(join(ROOT, "node_modules", name), join(place, "node_modules", name), { recursive: true, dereference: true });
  }
  const { code, stderr } = await run([join(ROOT, "node_modules/.bin/deno"), "publish", "--dry-run"], {
    cwd: place,
    env: { DENO_DIR: join(folder, "deno"), DENO_NO_UPDATE_CHECK: "1", NO_COLOR: "1", NPM_CONFIG_REGISTRY: NOWHERE },
    within_ms: 110_000,
  });
  expect(stderr).toContain("Success Dry run complete");
  // A handler's module is named by whoever has one.
  const warnings = new Set(stderr.match(/warning\[[\w-]+\]/g));
  expect([...warnings]).toEqual(["warning[unanalyzable-dynamic-import]"]);
  expect(code).toBe(0);
}, 120_000);
