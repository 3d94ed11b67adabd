/**
 * Limits and resources among real processes that are killed: never more jobs at a time than a limit allows, never two
 * with the same id of a machine, and all of them get done.
 */

import { describe, expect } from "bun:test";
import { newJob } from "../support/jobs.ts";
import { scenario, until } from "../support/process.ts";

const JOBS = 24;
/** The lock is free when every process of the job is dead: who finds it taken has met another, or what is left of one. */
const alone = (what: string) =>
  `exec 9>"lock-${what}"; flock -n 9 || echo "${what} $LEASE_JOB_ID" >> broken; echo "$LEASE_JOB_ID" >> ran; sleep 0.1`;

describe("workers that are killed again and again", () => {
  scenario(
    "never exceed a limit, nor give an id to two jobs",
    async (site) => {
      await site.store.setLimit("one", { most: 1, rate: null });
      const settings = { retries: 9 };
      const limited = { argv: ["sh", "-c", alone("limit")], cwd: site.folder, limits: ["one"], settings };
      const needing = { argv: ["sh", "-c", alone("$LEASE_NEED_GPU")], cwd: site.folder, needs: { gpu: 1 }, settings };
      const jobs = Array.from({ length: JOBS }, (_, n) => newJob(n % 2 === 0 ? limited : needing));
      await site.store.enqueue(jobs);
      const have = ["-j", "3", "--have", "gpu=0,1"];
      for (let round = 0; round < 3; round++) {
        const victims = [site.worker(...have), site.worker(...have)];
        const before = site.lines("ran").length;
        await until("four more have run", () => site.lines("ran").length >= before + 4);
        for (const victim of victims) victim.signal("SIGKILL");
        await Promise.all(victims.map(({ ended }) => ended));
      }
      const ends = await Promise.all([1, 2].map(() => site.worker("--until-empty", ...have).ended));
      expect(ends.map(({ code }) => code)).toEqual([0, 0]);
      expect(site.lines("broken")).toEqual([]);
      expect(new Set(site.lines("ran")).size).toBe(JOBS);
      const counts = (await site.store.counts()).filter(({ count }) => count > 0);
      expect(counts.map(({ state, count }) => `${state} ${count}`)).toEqual([`completed ${JOBS}`]);
    },
    60_000,
  );
});
