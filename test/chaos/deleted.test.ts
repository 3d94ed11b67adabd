/** A store that is deleted or replaced under a worker: it must not go on writing to a file that nobody else can see. */

import { describe, expect } from "bun:test";
import { rmSync } from "node:fs";
import { BINARY, scenario, until } from "../support/process.ts";

describe("a store that is gone", () => {
  scenario("has its worker exit with 125 and the reason, and not as if the result was kept", async (site) => {
    const gone = site.path("gone.db");
    const lease = (...words: string[]) => site.spawn([BINARY, ...words, "--store", gone]);
    const script = `echo go > ${site.path("go")}; while echo x; do sleep 0.1; done`;
    expect((await lease("enqueue", "--lease", "2s", "-c", script).ended).code).toBe(0);
    const worker = lease("worker", "--once");
    await until("the job runs", () => site.text("go") !== "");
    for (const suffix of ["", "-wal", "-shm"]) rmSync(`${gone}${suffix}`, { force: true });
    const { code, stderr } = await worker.ended;
    expect(code).toBe(125);
    expect(stderr).toMatch(/lost its lease \(it could not be renewed in time\); killing it\n/);
    expect(stderr).toMatch(
      /\nlease: the end of job 1 could not be written: store \S+gone\.db was deleted or replaced .*\n$/,
    );
  });
});
