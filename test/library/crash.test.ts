/** Handlers on both engines, and what is left of a program that was killed in the middle of its work. */

import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open, type Queue } from "../../src/index.ts";
import { newSchema, type Schema } from "../support/postgres.ts";

const folder = mkdtempSync(join(tmpdir(), "lease-crash-"));
const schemas: Schema[] = [];
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  for (const schema of schemas) await schema.drop();
});

const ENGINES = [
  ["SQLite", async () => join(mkdtempSync(join(folder, "store-")), "jobs.db")],
  [
    "PostgreSQL",
    async () => {
      const schema = await newSchema();
      schemas.push(schema);
      return schema.url;
    },
  ],
] as const;

const quiet = { report: () => {} };

/** Until the job has begun: the program that runs it is another. */
async function begun(queue: Queue, id: number): Promise<void> {
  for (const started_ms = performance.now(); performance.now() - started_ms < 20_000;) {
    const { progress } = await queue.inspect(id);
    if (progress !== null) return;
    await Bun.sleep(20);
  }
  throw new Error("it did not begin");
}

describe.each(ENGINES)("on %s", (_name, location) => {
  test("a handler works, resumes from its checkpoint and is cancelled", async () => {
    await using queue = await open(await location(), quiet);
    const { id } = await queue.enqueue({ input: { pages: [1, 2, 3] }, backoff: "none" });
    const seen: number[] = [];
    await using _ = queue.worker({ slots: 4 }, async (job, { checkpoint, log, progress, signal }) => {
      if (job.input === "wait") {
        progress(1, "waiting");
        return new Promise((_resolve, reject) =>
          signal.addEventListener("abort", () => reject(signal.reason as Error)),
        );
      }
      for (const page of job.input.pages.slice(job.checkpoint ?? 0)) {
        if (page === 3 && job.attempts === 1) throw new Error("the third is not there yet");
        seen.push(page);
        log("page", page);
        await checkpoint(page);
      }
      return { pages: seen.length };
    });
    expect(await queue.wait(id, { timeout: "20s" })).toMatchObject({ state: "completed", output: { pages: 3 } });
    expect(seen).toEqual([1, 2, 3]);
    expect((await Array.fromAsync(queue.logs(id, { attempt: 2 }))).map(({ text }) => text)).toEqual(["page 3"]);
    const waiting = await queue.enqueue({ input: "wait" });
    await begun(queue, waiting.id);
    await queue.cancel(waiting);
    expect(await queue.wait(waiting, { timeout: "20s" })).toMatchObject({ state: "cancelled", cause: "cancelled" });
  }, 60_000);

  test("what a killed program left is run again by another, and never both", async () => {
    const place = await location();
    await using queue = await open(place, quiet);
    const { id } = await queue.enqueue({ input: 1 });
    const program = join(folder, `${crypto.randomUUID()}.ts`);
    writeFileSync(
      program,
      `import { open } from ${JSON.stringify(join(import.meta.dir, "../../src/index.ts"))};
       await using queue = await open(${JSON.stringify(place)});
       const worker = queue.worker({}, (job, { progress }) => { progress(1); return new Promise(() => {}); });
       await worker.finished;`,
    );
    const victim = Bun.spawn([process.execPath, program], { stdout: "ignore", stderr: "ignore" });
    await begun(queue, id);
    victim.kill("SIGKILL");
    await victim.exited;
    await using _ = queue.worker({}, (job) => ({ attempt: job.attempts }));
    expect(await queue.wait(id, { timeout: "20s" })).toMatchObject({ state: "completed", output: { attempt: 2 } });
    expect((await queue.inspect(id)).history).toMatchObject([{ cause: "lost" }, { cause: "success" }]);
  }, 60_000);
});
