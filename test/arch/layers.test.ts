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
      importing("src/main.ts", "./cli/main.ts", "./quick/quick.ts", "citty"),
      importing("src/cli/main.ts", "./commands.ts", "./dispatch.ts", "../core/errors.ts", "#platform"),
      importing("src/cli/commands.ts", "../commands/worker.ts", "../commands/enqueue/enqueue.ts"),
      importing("src/cli/settings.ts", "../config/file.ts", "../view/text.ts", "../core/errors.ts"),
      importing("src/cli/io.ts", "../store/open.ts"),
      importing("src/platform/build_info.ts", "../../package.json"),
      importing("src/commands/worker.ts", "../cli/io.ts", "../worker/pool.ts", "../config/values.ts", "consola"),
      importing("src/commands/worker.ts", "../store/store.ts", "../observe/metrics.ts", "#platform", "../view/job.ts"),
      importing("src/commands/run.ts", "../foreground/foreground.ts", "../lookup/why_waiting.ts"),
      importing("src/commands/copy.ts", "../store/copy/copy.ts"),
      importing("src/quick/enqueue.ts", "../store/quick.ts", "../config/location.ts"),
      importing("src/foreground/foreground.ts", "../worker/attempt.ts", "../recovery/sweep.ts"),
      importing("src/worker/pool.ts", "../recovery/sweep.ts", "../leasing/extender.ts", "../runner/run.ts"),
      importing("src/recovery/sweep.ts", "../store/store.ts", "../store/queries.ts", "../runner/group.ts", "#platform"),
      importing("src/lookup/leases.ts", "../store/store.ts", "../view/reason.ts"),
      importing("src/observe/dashboard/answers.ts", "../../lookup/overview.ts", "../../store/store.ts", "hono"),
      importing("src/observe/dashboard/pages/job.tsx", "./parts.tsx", "preact/hooks", "uplot"),
      importing("src/leasing/extender.ts", "../store/store.ts", "../core/clock.ts", "node:events"),
      importing("src/runner/run.ts", "../core/job.ts", "#platform", "./log/tail.ts"),
      importing("src/store/open.ts", "./sqlite/store.ts", "./postgres/store.ts", "./store.ts"),
      importing("src/store/sqlite/store.ts", "../store.ts", "../copy/transfer.ts", "../shared/rows.ts", "#platform"),
      importing("src/store/copy/copy.ts", "./transfer.ts", "../store.ts"),
      importing("src/store/store.ts", "../core/job.ts", "./copy/transfer.ts"),
      importing("src/platform/bun.ts", "bun:sqlite", "bun", "./platform.ts"),
      importing("src/index.ts", "./store/open.ts", "./core/job.ts"),
      importing("src/core/job.ts", "./errors.ts", "valibot"),
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
    ["src/core/job.ts", "consola"],
    ["src/core/job.ts", "#platform"],
    ["src/store/store.ts", "../leasing/manager.ts"],
    ["src/store/store.ts", "./sqlite/store.ts"],
    ["src/store/shared/rows.ts", "../open.ts"],
    ["src/observe/dashboard/answers.ts", "../../worker/pool.ts"],
    ["src/observe/dashboard/answers.ts", "./pages/types.ts"],
    ["src/observe/dashboard/app.ts", "preact"],
    ["src/observe/dashboard/pages/job.tsx", "../../../core/job.ts"],
    ["src/observe/dashboard/pages/job.tsx", "../answers.ts"],
    ["src/observe/dashboard/pages/job.tsx", "node:fs"],
    ["src/observe/dashboard/pages/job.tsx", "hono"],
    ["src/store/shared/rows.ts", "../sqlite/store.ts"],
    ["src/store/sqlite/store.ts", "../postgres/store.ts"],
    ["src/store/sqlite/store.ts", "../open.ts"],
    ["src/store/sqlite/store.ts", "../copy/copy.ts"],
    ["src/store/copy/copy.ts", "../sqlite/store.ts"],
    ["src/leasing/manager.ts", "../worker/pool.ts"],
    ["src/leasing/manager.ts", "../runner/run.ts"],
    ["src/leasing/manager.ts", "#platform"],
    ["src/leasing/manager.ts", "../store/shared/rows.ts"],
    ["src/runner/run.ts", "../leasing/extender.ts"],
    ["src/runner/run.ts", "../store/store.ts"],
    ["src/recovery/sweep.ts", "../worker/attempt.ts"],
    ["src/worker/pool.ts", "../foreground/foreground.ts"],
    ["src/worker/pool.ts", "../commands/worker.ts"],
    ["src/worker/pool.ts", "../cli/signals.ts"],
    ["src/worker/pool.ts", "../config/values.ts"],
    ["src/worker/pool.ts", "../store/open.ts"],
    ["src/worker/pool.ts", "../observe/metrics.ts"],
    ["src/lookup/leases.ts", "../worker/pool.ts"],
    ["src/view/table.ts", "../platform/bun.ts"],
    ["src/view/table.ts", "../lookup/leases.ts"],
    ["src/config/settings.ts", "#platform"],
    ["src/config/settings.ts", "../view/table.ts"],
    ["src/cli/settings.ts", "../commands/worker.ts"],
    ["src/cli/settings.ts", "./main.ts"],
    ["src/cli/settings.ts", "../store/open.ts"],
    ["src/commands/retry.ts", "../cli/main.ts"],
    ["src/commands/retry.ts", "../cli/commands.ts"],
    ["src/commands/retry.ts", "../store/open.ts"],
    ["src/commands/retry.ts", "../store/quick.ts"],
    ["src/quick/enqueue.ts", "../store/open.ts"],
    ["src/quick/enqueue.ts", "../store/sqlite/quick_enqueue.ts"],
    ["src/quick/enqueue.ts", "../cli/flags.ts"],
    ["src/commands/retry.ts", "../store/sqlite/store.ts"],
    ["src/commands/retry.ts", "../main.ts"],
    ["src/commands/retry.ts", "../index.ts"],
    ["src/commands/retry.ts", "lease"],
    ["src/commands/retry.ts", "bun:sqlite"],
    ["src/commands/retry.ts", "../../test/support/store.ts"],
    ["src/main.ts", "./store/open.ts"],
    ["src/index.ts", "./cli/io.ts"],
    ["src/worker/pool.ts", "../../package.json"],
    ["src/worker/pool.ts", "npm:consola"],
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
