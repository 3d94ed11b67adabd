/** A fleet in the middle of its work: one worker is told to end, one is killed, the rest does it all. */

import { Database } from "bun:sqlite";
import { describe, expect } from "bun:test";
import { newJob } from "../support/jobs.ts";
import { scenario, until } from "../support/process.ts";

const JOBS = 500;

describe("three workers in the middle of 500 jobs", () => {
  scenario(
    "lose nothing when one gets SIGTERM and one SIGKILL: each job completes with exactly one accepted result",
    async (site) => {
      const work = "echo $LEASE_JOB_ID >> begun; sleep 0.01; echo $LEASE_JOB_ID >> ended";
      const job = newJob({ argv: ["sh", "-c", work], cwd: site.folder });
      await site.store.enqueue(Array.from({ length: JOBS }, () => job));
      const workers = await Promise.all([1, 2, 3].map(() => site.workerReady("-j", "2")));
      await until("a good part is done", () => site.lines("ended").length > JOBS / 5);
      workers[0]?.signal("SIGTERM");
      workers[1]?.signal("SIGKILL");
      expect(site.lines("ended").length).toBeLessThan(JOBS);
      expect((await workers[0]?.ended)?.code).toBe(0);
      expect((await workers[1]?.ended)?.signal).toBe("SIGKILL");
      const done = async () => (await site.store.counts()).find(({ state }) => state === "completed")?.count === JOBS;
      await until("all is done", done, { within_ms: 60_000 });
      expect(await site.store.counts()).toEqual([{ queue: "default", state: "completed", count: JOBS }]);

      const database = new Database(site.location, { readonly: true });
      const row = (sql: string) => database.query<Record<string, number>, []>(sql).get();
      expect(
        row(`SELECT count(*) AS results, count(DISTINCT job_id) AS jobs FROM attempts WHERE cause = 'success'`),
      ).toEqual({ results: JOBS, jobs: JOBS });
      expect(row("SELECT count(*) AS open FROM attempts WHERE ended_at_ms IS NULL")).toEqual({ open: 0 });
      // What did not count was given back, or was in the hands of the one that was killed.
      expect(row("SELECT count(*) AS others FROM attempts WHERE cause NOT IN ('success', 'returned', 'lost')")).toEqual(
        { others: 0 },
      );
      database.close();
      expect(new Set(site.lines("ended")).size).toBe(JOBS);
      expect((await workers[2]?.end())?.code).toBe(0);
    },
    90_000,
  );
});
