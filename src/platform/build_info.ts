/** What the build put in: the version and its commit, or that of the checkout when it runs from source, and the SQLite below it. */

import { platform } from "#platform";
import manifest from "../../package.json" with { type: "json" };

declare const LEASE_COMMIT: string | undefined;

export const VERSION: string = manifest.version;
/** What a release was built from; null for whatever somebody built by themselves. */
export const COMMIT: string | null = typeof LEASE_COMMIT === "string" ? LEASE_COMMIT : null;

export function sqliteVersion(): string {
  const database = platform.openSqlite(":memory:");
  const version = String(database.prepare("SELECT sqlite_version() AS version").get()?.["version"]);
  database.close();
  return version;
}
