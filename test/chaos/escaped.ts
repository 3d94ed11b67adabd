/** Processes that left the job which started them: who they are, and that none of them outlives its test. */

import { test } from "bun:test";
import { existsSync } from "node:fs";
import process from "node:process";
import { inSite, type Site } from "../support/process.ts";

const WITHIN_MS = 30_000;

/** The pids that have escaped, and those of them that live. */
export const escaped = (site: Site) => site.lines("escaped").map(Number);
export const alive = (site: Site) => escaped(site).filter(isRunning);

/** A zombie has no program any more. */
export function isRunning(pid: number): boolean {
  return existsSync(`/proc/${pid}/exe`);
}

/** Notes each of the escaped that runs beside the attempt that runs this. */
export const BESIDE = "for pid in $(cat escaped 2>/dev/null); do readlink /proc/$pid/exe >> beside; done";

export const escapeTest = (possible: boolean) => (title: string, body: (site: Site) => Promise<void>) =>
  test.skipIf(!possible)(
    title,
    () =>
      inSite(async (site) => {
        try {
          await body(site);
        } finally {
          for (const pid of alive(site)) process.kill(pid, "SIGKILL");
        }
      }),
    WITHIN_MS,
  );
