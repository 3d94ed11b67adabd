/** What a start loads: each built-in module that a plain `lease enqueue` does not need is a tenth of its time. */

import { expect, test } from "bun:test";
import { join } from "node:path";

const QUICK = join(import.meta.dir, "../../src/commands/enqueue/quick.ts");

async function bundleOf(entry: string): Promise<string> {
  const { outputs } = await Bun.build({ entrypoints: [entry], target: "bun", format: "esm" });
  return (await outputs[0]?.text()) ?? "";
}

async function builtInsOf(entry: string): Promise<string[]> {
  const text = await bundleOf(entry);
  return new Bun.Transpiler({ loader: "js" })
    .scanImports(text)
    .map(({ path }) => path.replace(/^node:/, ""))
    .toSorted();
}

test("the quick enqueue loads no built-in module but these", async () => {
  expect([...new Set(await builtInsOf(QUICK))]).toEqual(["bun:ffi", "bun:sqlite", "process"]);
});

test("the check sees what the whole program loads", async () => {
  expect(await builtInsOf(join(import.meta.dir, "../../src/main.ts"))).toContain("fs");
});

test("the quick enqueue reads no rows, and loads nothing that decodes them", async () => {
  expect(await bundleOf(QUICK)).not.toContain("isReadable");
  expect(await bundleOf(join(import.meta.dir, "../../src/store/shared/rows.ts"))).toContain("isReadable");
});

const command = (path: string) => join(import.meta.dir, "../../src/commands", path);

test.each(["beat.ts", "checkpoint.ts", "guard.ts", "enqueue/enqueue.ts", "inspect/inspect.ts", "run.ts"])(
  "%s logs nothing and loads no consola",
  async (path) => {
    expect(await bundleOf(command(path))).not.toContain("createConsola");
  },
);

test("the check sees it where a role logs", async () => {
  expect(await bundleOf(command("worker.ts"))).toContain("createConsola");
});
