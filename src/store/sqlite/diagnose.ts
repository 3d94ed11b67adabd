/** The health of a SQLite store: the engine, the file, its log, the disk below it. */

import { statSync, statfsSync, type Stats } from "node:fs";
import { dirname } from "node:path";
import * as v from "valibot";
import type { StateName } from "../../core/job.ts";
import { hasOtherLives } from "../../core/life.ts";
import { once } from "../../core/once.ts";
import type { SqlRow } from "../../platform/platform.ts";
import type { DiagnoseOptions, Finding } from "../queries.ts";
import { finite } from "../shared/cells.ts";
import { fromJson } from "../shared/facts.ts";
import { LOOKED_AT, damageFinding, finding, talliesFinding, worstFirst } from "../shared/findings.ts";
import type { Database } from "./open.ts";
import { LOG_LOST } from "./lost_log.ts";
import { BESIDE, fileSystemName } from "./location.ts";
import { MIGRATIONS } from "./schema.ts";
import { SELECT_WITHOUT_INPUT, SQL } from "./statements.ts";

/** Before this a WAL that is reset while another process reads it can lose commits. */
const SAFE_VERSION = [3, 51, 3];
const LONG_WAL_BYTES = 256 * 2 ** 20;
const LITTLE_DISK_BYTES = 100 * 2 ** 20;
const SCARCE_DISK_BYTES = 2 ** 30;

const ADVICE = {
  sqlite: "has the WAL-reset bug, which can lose commits: use a lease built with 3.51.3 or newer",
  integrity: "stop the workers, keep a copy, and salvage it with `sqlite3 FILE .recover`",
  permissions: "others can get at it, and a store decides what gets executed: chmod go-rwx",
  wal: "a process that reads for very long keeps it from being cut: find it with `fuser`, then `lease watchdog --once`",
  log: "what was acknowledged right before is missing: enqueue it again; a `lease copy --to NEW` does not remember this",
  disk: "a full disk stops every worker: free some space, or `lease prune` and `lease copy --to NEW`",
  network: "SQLite's locks don't hold on network file systems: use a local disk or postgres://",
};

/** Up to here a file is read whole in a moment. */
const SMALL_BYTES = 32 * 2 ** 20;
/** Of each kind of job, where that is all that is looked at. */
const FEW_LOOKED_AT = 1_000;

export function diagnose(db: Database, path: string, { full = false, step }: DiagnoseOptions = {}): Finding[] {
  const version = db.sql("SELECT sqlite_version() AS version").get()?.["version"] as string;
  const schema = db.sql("PRAGMA user_version").get()?.["user_version"] as number;
  const file_bytes = statOrNull(path)?.size ?? 0;
  const wal_bytes = statOrNull(`${path}-wal`)?.size ?? 0;
  const { bavail, bsize } = statfsSync(dirname(path));
  const free_bytes = bavail * bsize;
  const { name, network } = fileSystemName(dirname(path));
  return worstFirst([
    finding("sqlite", version, isSafe(version) ? null : ADVICE.sqlite),
    finding("schema", `${schema} of ${MIGRATIONS.length}`),
    ...(full || file_bytes <= SMALL_BYTES ? readWhole(db, step) : glance(db, file_bytes)),
    ...lives(db),
    ...lostLog(db),
    permissions(path),
    finding("file", `${path}, ${size(file_bytes)}`),
    finding("wal", size(wal_bytes), wal_bytes <= LONG_WAL_BYTES ? null : ADVICE.wal),
    finding(
      "disk",
      `${size(free_bytes)} free`,
      free_bytes >= SCARCE_DISK_BYTES ? null : ADVICE.disk,
      free_bytes < LITTLE_DISK_BYTES ? "error" : "warn",
    ),
    finding("file system", name, network ? ADVICE.network : null, "error"),
  ]);
}

function readWhole(db: Database, step: DiagnoseOptions["step"]): Finding[] {
  const problems = [...damages(db, step)].slice(0, MOST_PROBLEMS);
  if (problems.length > 0) return [finding("integrity", problems.join("; "), ADVICE.integrity, "error")];
  step?.("counts");
  const wrong = db.sql(TALLY_ERRORS).get()?.["wrong"] as number;
  step?.("jobs that wait");
  return [finding("integrity", "ok"), talliesFinding(wrong), damageFinding(lookedAt(db, LOOKED_AT))];
}

/** What can be told without reading all of it: the roots of all trees, and the first jobs of each state. */
function glance(db: Database, file_bytes: number): Finding[] {
  try {
    for (const { name } of db.sql(TABLES).all()) db.sql(`SELECT 1 AS found FROM "${name}" LIMIT 1`).get();
    const jobs = damageFinding(lookedAt(db, FEW_LOOKED_AT));
    const whole = "`lease doctor --full` reads all of it";
    return [finding("integrity", `no damage seen at a glance into ${size(file_bytes)}; ${whole}`), jobs];
  } catch (error) {
    return [finding("integrity", (error as Error).message, ADVICE.integrity, "error")];
  }
}

function isSafe(version: string): boolean {
  const parts = version.split(".").map(Number);
  const first = SAFE_VERSION.findIndex((wanted, index) => parts[index] !== wanted);
  return first === -1 || (parts[first] ?? 0) >= (SAFE_VERSION[first] ?? 0);
}

const MOST_PROBLEMS = 5;

/** A file can be damaged so that even the check of it fails: that is an answer too. */
function* damages(db: Database, step: DiagnoseOptions["step"]): Generator<string> {
  try {
    // Table by table where somebody wants to know how far it is.
    const tables = step === undefined ? [] : db.sql(TABLES).all();
    for (const [index, { name }] of tables.entries()) {
      step?.(`table ${name}, ${index + 1} of ${tables.length}`);
      yield* complaints(db, `"${name}"`);
    }
    if (step === undefined) yield* complaints(db, String(MOST_PROBLEMS));
    else step("links");
    const orphans = db.sql("PRAGMA foreign_key_check").all().length;
    if (orphans > 0) yield `${orphans} rows belong to no job`;
  } catch (error) {
    yield (error as Error).message;
  }
}

const TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name";

function complaints(db: Database, of: string): string[] {
  const texts = db
    .sql(`PRAGMA integrity_check(${of})`)
    .all()
    .map((row) => String(row["integrity_check"]));
  const wrong = texts.filter((text) => text !== "ok").flatMap((text) => text.split("\n"));
  return wrong.filter((line) => line !== "" && !line.startsWith("***"));
}

/** Both ways: what is counted wrong, and what is counted and not there. */
const TALLY_ERRORS = `WITH
  real AS (SELECT queue, 'all' AS state, 0 AS retries, count(*) AS count FROM jobs GROUP BY queue
    UNION ALL SELECT queue, state, iif(finished_at_ms IS NULL, min(token, 1), max(token - 1, 0)) AS retries, count(*)
      FROM jobs WHERE state NOT IN ('pending', 'running') GROUP BY 1, 2, 3),
  kept AS (SELECT queue, state, retries, count FROM tallies WHERE count <> 0)
  SELECT count(*) AS wrong FROM (SELECT queue, state, retries FROM (SELECT * FROM real EXCEPT SELECT * FROM kept)
    UNION SELECT queue, state, retries FROM (SELECT * FROM kept EXCEPT SELECT * FROM real))`;

const UNFINISHED: readonly StateName[] = ["running", "pending", "scheduled", "blocked"];

function lookedAt(db: Database, most: number): SqlRow[] {
  const some = (which: string) => db.sql(`${SELECT_WITHOUT_INPUT} WHERE ${which} LIMIT ?1`).all(most);
  return [
    ...UNFINISHED.flatMap((state) => some(`state = '${state}'`)),
    ...some("state = 'failed' AND finished_at_ms IS NOT NULL ORDER BY finished_at_ms DESC"),
  ];
}

const LOST = once(() => v.object({ at_ms: finite(), pages: finite() }));

/** The last millisecond that can be written down. */
const LATEST_MS = 8_640_000_000_000_000;

/** Of a store that was ever put back; nothing is wrong with that. */
function lives(db: Database): Finding[] {
  const get = (name: string) => String(db.sql(SQL.getMeta).get(name)?.["value"] ?? "");
  const at_ms = Number(get("life_at_ms"));
  if (!hasOtherLives(get("store_id")) || !(Math.abs(at_ms) <= LATEST_MS)) return [];
  const at = new Date(at_ms).toISOString();
  return [finding("restore", `put back from a copy, noticed ${at}; what was granted before that is refused`)];
}

/** What the log has ever lost: nobody else can tell, for the store is as if it had never been. */
function lostLog(db: Database): Finding[] {
  const lost = fromJson(LOST, db.sql(SQL.getMeta).get(LOG_LOST)?.["value"]);
  if (lost === null || !(Math.abs(lost.at_ms) <= LATEST_MS)) return [];
  const at = new Date(lost.at_ms).toISOString();
  return [finding("log", `${lost.pages} pages of it were cut off or damaged, noticed ${at}`, ADVICE.log)];
}

function permissions(path: string): Finding {
  const parts = [dirname(path), path, ...BESIDE.map((suffix) => path + suffix)];
  const open = parts.filter((part) => {
    const stats = statOrNull(part);
    return stats !== null && (stats.mode & (stats.isDirectory() ? 0o022 : 0o077)) !== 0;
  });
  const mode = ((statOrNull(path)?.mode ?? 0) & 0o777).toString(8).padStart(4, "0");
  if (open.length === 0) return finding("permissions", mode);
  return finding("permissions", `${mode}, open to others`, `${ADVICE.permissions} ${open.join(" ")}`);
}

function statOrNull(path: string): Stats | null {
  return statSync(path, { throwIfNoEntry: false }) ?? null;
}

function size(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** power;
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[power]}`;
}
