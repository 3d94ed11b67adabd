/** A machine that has too few descriptors for all the slots of a worker: jobs wait for their turn, none is given up. */

import { describe, expect } from "bun:test";
import { scenario } from "../support/process.ts";

describe("a worker with more slots than descriptors", () => {
  scenario("runs every job in the end, since the shortage is not the fault of any", async (site) => {
    const jobs = Array.from({ length: 40 }, () => JSON.stringify({ argv: ["sleep", "0.2"] })).join("\n");
    const flags = ["--retries", "1000", "--backoff", "50ms", "--from", "-"];
    expect((await site.run(["enqueue", ...flags], { input: jobs })).code).toBe(0);
    const limited = `ulimit -n 40; exec lease worker -j 40 --until-empty --store ${site.location}`;
    const { code, stderr } = await site.spawn(["sh", "-c", limited]).ended;
    expect(stderr).toContain("sleep could not be started: EMFILE");
    expect(code).toBe(0);
    expect(await site.store.counts()).toEqual([{ queue: "default", state: "completed", count: 40 }]);
  });
});
