/** The same with a store on PostgreSQL, which other containers and users of the machine share by nature. */

import { describe, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import { newJob } from "../support/jobs.ts";
import { isPossible, VIEWS } from "../support/namespaces.ts";
import { newSchema } from "../support/postgres.ts";
import { BINARY, Program, until } from "../support/process.ts";

const possible = (words: readonly string[]) => isPossible(words, "test/chaos/containers_postgres.test.ts");

describe.each(VIEWS)("on PostgreSQL a watchdog %s", (_what, words) => {
  test.skipIf(!possible(words))(
    "takes no live worker for dead, and is not taken for dead as a worker",
    async () => {
      const schema = await newSchema();
      const store = await openPostgres(schema.url, { clock: systemClock, random: systemRandom });
      const folder = mkdtempSync(join(tmpdir(), "lease-pg-views-"));
      chmodSync(folder, 0o777);
      const programs: Program[] = [];
      const start = (before: readonly string[], ...command: string[]) => {
        const env = { PATH: process.env["PATH"] ?? "", NO_COLOR: "1", HOME: folder, TMPDIR: folder };
        const program = new Program([...before, BINARY, ...command, "--store", schema.url], { env, cwd: folder });
        programs.push(program);
        return program;
      };
      const path = (name: string) => join(folder, name);
      try {
        for (const [of_worker, of_watchdog] of [
          [[], words],
          [words, []],
        ] as const) {
          const script = `until [ -e ${path("end")} ]; do echo beat; sleep 0.05; done`;
          const [queued] = await store.enqueue([newJob({ argv: ["sh", "-c", script], cwd: folder })]);
          const id = queued?.id ?? 0;
          const worker = start(of_worker, "worker", "--once");
          await until("it runs", async () => (await store.attempts(id))[0]?.process, { within_ms: 20_000 });
          const { code, stdout, stderr } = await start(of_watchdog, "watchdog", "--once", "--json").ended;
          expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
          expect(JSON.parse(stdout)).toMatchObject({ expired_found: 0, orphans_killed: 0 });
          await Bun.write(path("end"), "");
          expect((await worker.ended).code).toBe(0);
          expect(await store.jobs([id])).toMatchObject([{ state: { name: "completed" }, token: 1 }]);
          rmSync(path("end"));
        }
      } finally {
        for (const program of programs) if (!program.over) program.signal("SIGKILL");
        await store.close();
        await schema.drop();
        rmSync(folder, { recursive: true, force: true });
      }
    },
    60_000,
  );
});
