/** No two workers ever get the same job. */

import { Database } from "bun:sqlite";
import { describe, expect } from "bun:test";
import { newJob } from "../support/jobs.ts";
import { scenario } from "../support/process.ts";

const JOBS = 10_000;
const WORKERS = 4;
/** Each run leaves a line that no other process could have written. */
const SIGN = 'echo "$LEASE_JOB_ID" >> ran';

describe("four workers on one store", () => {
  scenario(
    "run each of 10,000 jobs exactly once, and all of them get their part",
    async (site) => {
      const job = newJob({ argv: ["sh", "-c", SIGN], cwd: site.folder });
      for (let queued = 0; queued < JOBS; queued += 1_000) {
        await site.store.enqueue(Array.from({ length: 1_000 }, () => job));
      }
      const workers = Array.from({ length: WORKERS }, () => site.worker("--until-empty", "-j", "2"));
      const ends = await Promise.all(workers.map(({ ended }) => ended));
      expect(ends.map(({ code }) => code)).toEqual([0, 0, 0, 0]);

      const ran = site.lines("ran");
      expect({ runs: ran.length, jobs: new Set(ran).size }).toEqual({ runs: JOBS, jobs: JOBS });

      const database = new Database(site.location, { readonly: true });
      const row = (sql: string) => database.query<Record<string, number>, []>(sql).get();
      expect(
        row("SELECT count(*) AS jobs, sum(state = 'completed') AS completed, sum(failures) AS failures FROM jobs"),
      ).toEqual({ jobs: JOBS, completed: JOBS, failures: 0 });
      // What a worker took ahead and could not start in time it may give back; that is no run.
      expect(
        row(`SELECT count(*) AS attempts, count(DISTINCT job_id) AS jobs, count(DISTINCT worker) AS workers
          FROM attempts WHERE NOT (cause = 'returned' AND pid IS NULL)`),
      ).toEqual({ attempts: JOBS, jobs: JOBS, workers: WORKERS });
      expect(row("SELECT count(*) AS ok FROM attempts WHERE cause = 'success'")).toEqual({ ok: JOBS });
      const least = row("SELECT min(n) AS least FROM (SELECT count(*) AS n FROM attempts GROUP BY worker)");
      expect(least?.["least"]).toBeGreaterThan(JOBS / WORKERS / 10);
      database.close();
    },
    120_000,
  );
});
