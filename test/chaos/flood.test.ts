/** Floods of output: whatever a job prints, its worker's memory stays where it was. */

import { describe, expect } from "bun:test";
import { readFileSync } from "node:fs";
import { scenario } from "../support/process.ts";
import type { Site } from "../support/process.ts";

const MIB = 1024 * 1024;
const MOST_GROWTH = 150 * MIB;

/** In bytes: what a process has in memory, or had at its highest. */
function memory(pid: number, what: "VmRSS" | "VmHWM"): number {
  const line = new RegExp(`^${what}:\\s+(\\d+) kB$`, "m").exec(readFileSync(`/proc/${pid}/status`, "latin1"));
  return Number(line?.[1]) * 1024;
}

/** Runs one job, and answers by how much its worker grew. */
async function growth(site: Site, flags: string[], script: string): Promise<number> {
  const worker = await site.workerReady();
  await Bun.sleep(300);
  const idle = memory(worker.pid, "VmRSS");
  const id = await site.script(flags, script);
  const job = await site.reaches(id, "completed", { within_ms: 60_000 });
  expect(job).toMatchObject({ attempts: 1, cause: "success" });
  const grown = memory(worker.pid, "VmHWM") - idle;
  expect((await worker.end()).code).toBe(0);
  return grown;
}

describe("the memory of a worker whose job prints", () => {
  scenario(
    "a line of one gigabyte stays below 150 MB above idle",
    async (site) => {
      expect(await growth(site, [], 'head -c 1000000000 /dev/zero | tr "\\0" x')).toBeLessThan(MOST_GROWTH);
      const { bytes } = await site.run(["logs", "1"]);
      expect(bytes.length).toBeLessThan(18 * MIB);
      expect(new TextDecoder().decode(bytes)).toMatch(/bytes were not kept/);
    },
    90_000,
  );

  scenario(
    "5,000,000 short lines stays below 150 MB above idle, and each of them was a beat",
    async (site) => {
      expect(await growth(site, ["--log-limit", "1MiB"], "seq 5000000")).toBeLessThan(MOST_GROWTH);
      expect((await site.job(1)).history[0]).toMatchObject({ beats: 5_000_000, last_line: "5000000" });
    },
    90_000,
  );
});
