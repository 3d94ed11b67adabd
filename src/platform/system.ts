/** Which systems lease runs on, and what is missing on the others. */

import process from "node:process";
import { LeaseError } from "../core/errors.ts";

export const SYSTEM = `${process.platform}-${process.arch}`;

/** What is not as it is on Linux, for `lease doctor` and docs/install.md; null where nothing is missing. */
export function previewText(system: string): string | null {
  if (system !== "darwin") return null;
  return "macOS is a preview: not tried on a Mac by us; no control groups, and nobody stops the jobs of a frozen worker";
}

export const previewHere = () => previewText(process.platform);

export function refuseSystem(system: string): void {
  if (system === "linux" || system === "darwin") return;
  const name = system === "win32" ? "Windows" : system;
  const missing = "process groups and signals to stop jobs by, proof that a worker died, locks and syncs that we know";
  const instead = system === "win32" ? "use WSL 2, or a Linux container" : "use Linux";
  throw new LeaseError("unsupported", `lease does not run on ${name}: it would need ${missing}; ${instead}`);
}
