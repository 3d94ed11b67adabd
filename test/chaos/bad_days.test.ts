/**
 * Bad days of a fleet, a minute on each engine: scripts/chaos.ts has the longer ones. What jobs wrote into their
 * ledger, what the store says and what its audit finds must be the same story. `CHAOS_MINUTES=10` makes them longer.
 */

import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import process from "node:process";

const minutes = Number(process.env["CHAOS_MINUTES"] ?? 1);
/** What is left is given four minutes to end. */
const WITHIN_MS = minutes * 60_000 + 300_000;

describe.each(["sqlite", "postgres"])("a fleet on %s", (store) => {
  test(
    "loses no job, runs none twice at a time, keeps every order, limit and progress, and no command breaks",
    async () => {
      const script = join(import.meta.dir, "../../scripts/chaos.ts");
      const chaos = Bun.spawn([process.execPath, script, "--minutes", String(minutes), "--store", store], {
        stdout: "pipe",
        stderr: "pipe",
        timeout: WITHIN_MS,
        killSignal: "SIGKILL",
      });
      const [stdout, code] = await Promise.all([chaos.stdout.text(), chaos.exited]);
      const told = stdout.slice(stdout.indexOf("\n}\n") + 3);
      expect({ code, told: code === 0 ? "" : `${stdout.split("\n")[0]}\n${told}` }).toEqual({ code: 0, told: "" });
    },
    WITHIN_MS + 10_000,
  );
});
