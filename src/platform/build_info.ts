/** What the build put in: the version, or that of the checkout when it runs from source, and the SQLite below it. */

import { platform } from "#platform";
import manifest from "../../package.json" with { type: "json" };

export const VERSION: string = manifest.version;

export function sqliteVersion(): string {
  const database = platform.openSqlite(":memory:");
  const version = String(database.prepare("SELECT sqlite_version() AS version").get()?.["version"]);
  database.close();
  return version;
}
