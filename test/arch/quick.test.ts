/** What a start loads: each built-in module that a plain `lease enqueue` does not need is a tenth of its time. */

import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { LEASE } from "../cli/lease.ts";

const QUICK = join(import.meta.dir, "../../src/quick/quick.ts");

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

/** From so many calls on the runtime compiles a function, and starts threads for it: half of an enqueue's time. */
test("nothing of a plain enqueue, beat or checkpoint runs often enough to be compiled", async () => {
  const place = mkdtempSync(join(tmpdir(), "lease-start-"));
  try {
    const store = join(place, "store", "lease.db");
    await lease(["enqueue", "--store", store, "--", "true"]);
    const compiled = await lease(["enqueue", "--store", store, "-q", "mail", "--delay", "1s", "--", "echo", "hi"]);
    expect(compiled).toBe("2\n");
    // The whole command is seen to be another thing.
    expect(await lease(["inspect", "--store", store])).toContain("Optimized");
  } finally {
    rmSync(place, { recursive: true });
  }
});

async function lease(words: readonly string[]): Promise<string> {
  const env = { PATH: process.env["PATH"] ?? "", HOME: "/nowhere", BUN_JSC_reportCompileTimes: "1" };
  const child = Bun.spawn([LEASE, ...words], { env, stdout: "pipe", stderr: "pipe" });
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return stdout + stderr;
}
