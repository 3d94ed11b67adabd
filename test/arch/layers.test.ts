import { describe, expect, test } from "bun:test";
import { wrongImports } from "./layers.ts";
import { sources } from "./source.ts";

/** One virtual file that imports each specifier in turn. */
const importing = (path: string, ...specifiers: string[]): string[] =>
  wrongImports([{ path, source: specifiers.map((specifier) => `import { x } from "${specifier}";`).join("\n") }]);

test("imports in src point down only", async () => {
  expect(wrongImports(await sources())).toEqual([]);
});

describe("the check of import direction", () => {
  test("accepts the chain from main down to core", () => {
    const chain = [
      importing("src/main.ts", "./commands/enqueue.ts", "./core/errors.ts", "../package.json", "citty"),
      importing("src/commands/worker.ts", "./context.ts", "../roles/pool.ts", "../config/worker.ts", "../view/job.ts"),
      importing("src/commands/worker.ts", "../store/store.ts", "../observe/metrics.ts", "#platform", "consola"),
      importing("src/commands/context.ts", "../store/open.ts"),
      importing("src/commands/quick.ts", "../store/quick.ts"),
      importing("src/roles/pool.ts", "../leasing/extender.ts", "../runner/shell.ts", "../store/store.ts", "#platform"),
      importing("src/leasing/extender.ts", "../store/store.ts", "../core/lease.ts", "node:events"),
      importing("src/runner/shell.ts", "../core/job.ts", "#platform"),
      importing("src/store/open.ts", "./sqlite/store.ts", "./postgres/store.ts", "./store.ts"),
      importing("src/store/sqlite/store.ts", "../store.ts", "../batch.ts", "./statements.ts", "#platform"),
      importing("src/store/store.ts", "../core/job.ts"),
      importing("src/platform/bun.ts", "bun:sqlite", "bun", "./platform.ts"),
      importing("src/index.ts", "./store/open.ts", "./core/job.ts"),
      importing("src/core/job.ts", "./errors.ts"),
    ];
    expect(chain.flat()).toEqual([]);
  });

  test("names the file, the import and the rule", () => {
    expect(importing("src/view/table.ts", "../store/store.ts")).toEqual([
      'src/view/table.ts imports "../store/store.ts": view may import only itself, core',
    ]);
  });

  test.each([
    ["src/core/job.ts", "../store/store.ts"],
    ["src/core/job.ts", "node:fs"],
    ["src/core/job.ts", "valibot"],
    ["src/core/job.ts", "#platform"],
    ["src/store/store.ts", "../leasing/manager.ts"],
    ["src/store/store.ts", "./sqlite/store.ts"],
    ["src/store/batch.ts", "./open.ts"],
    ["src/store/sqlite/store.ts", "../postgres/store.ts"],
    ["src/store/sqlite/store.ts", "../open.ts"],
    ["src/leasing/manager.ts", "../roles/pool.ts"],
    ["src/leasing/manager.ts", "../runner/shell.ts"],
    ["src/leasing/manager.ts", "#platform"],
    ["src/leasing/manager.ts", "../store/batch.ts"],
    ["src/runner/shell.ts", "../leasing/extender.ts"],
    ["src/runner/shell.ts", "../store/store.ts"],
    ["src/roles/pool.ts", "../commands/worker.ts"],
    ["src/roles/pool.ts", "../config/worker.ts"],
    ["src/roles/pool.ts", "../store/open.ts"],
    ["src/roles/pool.ts", "../observe/metrics.ts"],
    ["src/view/table.ts", "../platform/bun.ts"],
    ["src/config/settings.ts", "#platform"],
    ["src/config/settings.ts", "../view/table.ts"],
    ["src/commands/enqueue.ts", "../store/open.ts"],
    ["src/commands/enqueue.ts", "../store/quick.ts"],
    ["src/commands/quick.ts", "../store/open.ts"],
    ["src/commands/quick.ts", "../store/sqlite/quick_enqueue.ts"],
    ["src/commands/enqueue.ts", "../store/sqlite/store.ts"],
    ["src/commands/enqueue.ts", "../main.ts"],
    ["src/commands/enqueue.ts", "../index.ts"],
    ["src/commands/enqueue.ts", "lease"],
    ["src/commands/enqueue.ts", "bun:sqlite"],
    ["src/commands/enqueue.ts", "../../test/support/store.ts"],
    ["src/main.ts", "./store/open.ts"],
    ["src/index.ts", "./commands/context.ts"],
    ["src/roles/pool.ts", "../../package.json"],
    ["src/roles/pool.ts", "npm:consola"],
  ])("refuses %s importing %s", (path, specifier) => {
    expect(importing(path, specifier)).toHaveLength(1);
  });

  test.each([
    'import type { Store } from "../store/store.ts";',
    'export { open } from "../store/open.ts";',
    'export * from "../store/open.ts";',
    'import "../store/open.ts";',
    'const { open } = await import("../store/open.ts");',
    'type Store = import("../store/store.ts").Store;',
    "await import(path);",
  ])("sees `%s`", (source) => {
    expect(wrongImports([{ path: "src/view/table.ts", source }])).toHaveLength(1);
  });

  test("refuses a file in a folder it does not know", () => {
    expect(importing("src/helpers/text.ts")).toHaveLength(1);
    expect(importing("src/version.ts")).toHaveLength(1);
  });
});
