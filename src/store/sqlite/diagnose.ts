/** The health of a SQLite store: the engine, the file, its log, the disk below it. */

import { statSync, statfsSync, type Stats } from "node:fs";
import { dirname } from "node:path";
import type { StateName } from "../../core/job.ts";
import type { SqlRow } from "../../platform/platform.ts";
import type { Finding } from "../queries.ts";
import { LOOKED_AT, damageFinding, finding, worstFirst } from "../shared/findings.ts";
import type { Database } from "./connection.ts";
import { fileSystemName } from "./location.ts";
import { MIGRATIONS } from "./schema.ts";
import { SELECT_WITHOUT_INPUT } from "./statements.ts";

/** Before this a WAL that is reset while another process reads it can lose commits. */
const SAFE_VERSION = [3, 51, 3];
const LONG_WAL_BYTES = 256 * 2 ** 20;
const LITTLE_DISK_BYTES = 100 * 2 ** 20;
const SCARCE_DISK_BYTES = 2 ** 30;

export function diagnose(db: Database, path: string): Finding[] {
  const whole = integrity(db);
  return worstFirst([
    engine(db),
    schema(db),
    whole,
    ...(whole.level === "ok" ? [tallies(db), damageFinding(lookedAt(db))] : []),
    permissions(path),
    file(path),
    wal(path),
    disk(path),
    fileSystem(path),
  ]);
}

function engine(db: Database): Finding {
  const version = db.sql("SELECT sqlite_version() AS version").get()?.["version"] as string;
  const parts = version.split(".").map(Number);
  const first = SAFE_VERSION.findIndex((wanted, index) => parts[index] !== wanted);
  const old = first !== -1 && (parts[first] ?? 0) < (SAFE_VERSION[first] ?? 0);
  if (!old) return finding("sqlite", version);
  const advice = "has the WAL-reset bug, which can lose commits: use a lease built with 3.51.3 or newer";
  return finding("sqlite", version, advice);
}

function schema(db: Database): Finding {
  const version = db.sql("PRAGMA user_version").get()?.["user_version"] as number;
  return finding("schema", `${version} of ${MIGRATIONS.length}`);
}

const MOST_PROBLEMS = 5;

function integrity(db: Database): Finding {
  const problems = [...damages(db)].slice(0, MOST_PROBLEMS);
  if (problems.length === 0) return finding("integrity", "ok");
  const advice = "stop the workers, keep a copy, and salvage it with `sqlite3 FILE .recover`";
  return finding("integrity", problems.join("; "), advice, "error");
}

/** A file can be damaged so that even the check of it fails: that is an answer too. */
function* damages(db: Database): Generator<string> {
  try {
    for (const row of db.sql(`PRAGMA integrity_check(${MOST_PROBLEMS})`).all()) {
      const text = String(row["integrity_check"]);
      if (text !== "ok") yield* text.split("\n").filter((line) => line !== "" && !line.startsWith("***"));
    }
    const orphans = db.sql("PRAGMA foreign_key_check").all().length;
    if (orphans > 0) yield `${orphans} rows belong to no job`;
  } catch (error) {
    yield (error as Error).message;
  }
}

/** Both ways: what is counted wrong, and what is counted and not there. */
const TALLY_ERRORS = `WITH
  real AS (SELECT queue, state, max(token - 1, 0) AS retries, count(*) AS count FROM jobs
    WHERE finished_at_ms IS NOT NULL GROUP BY 1, 2, 3),
  kept AS (SELECT queue, state, retries, count FROM tallies WHERE count <> 0)
  SELECT count(*) AS wrong FROM (SELECT queue, state, retries FROM (SELECT * FROM real EXCEPT SELECT * FROM kept)
    UNION SELECT queue, state, retries FROM (SELECT * FROM kept EXCEPT SELECT * FROM real))`;

function tallies(db: Database): Finding {
  const wrong = db.sql(TALLY_ERRORS).get()?.["wrong"] as number;
  if (wrong === 0) return finding("counts", "equal to the jobs");
  const advice = "somebody changed the tables by hand; `lease copy --to NEW` makes a store with right counts";
  return finding("counts", `${wrong} differ from the jobs`, advice);
}

const UNFINISHED: readonly StateName[] = ["running", "pending", "scheduled", "blocked"];

function lookedAt(db: Database): SqlRow[] {
  const some = (which: string) => db.sql(`${SELECT_WITHOUT_INPUT} WHERE ${which} LIMIT ?1`).all(LOOKED_AT);
  return [
    ...UNFINISHED.flatMap((state) => some(`state = '${state}'`)),
    ...some("state = 'failed' AND finished_at_ms IS NOT NULL ORDER BY finished_at_ms DESC"),
  ];
}

function permissions(path: string): Finding {
  const parts = [dirname(path), path, `${path}-wal`, `${path}-shm`];
  const open = parts.filter((part) => {
    const stats = statOrNull(part);
    return stats !== null && (stats.mode & (stats.isDirectory() ? 0o022 : 0o077)) !== 0;
  });
  const mode = ((statOrNull(path)?.mode ?? 0) & 0o777).toString(8).padStart(4, "0");
  if (open.length === 0) return finding("permissions", mode);
  const advice = `others can get at it, and a store decides what gets executed: chmod go-rwx ${open.join(" ")}`;
  return finding("permissions", `${mode}, open to others`, advice);
}

function file(path: string): Finding {
  return finding("file", `${path}, ${size(statOrNull(path)?.size ?? 0)}`);
}

function wal(path: string): Finding {
  const bytes = statOrNull(`${path}-wal`)?.size ?? 0;
  if (bytes <= LONG_WAL_BYTES) return finding("wal", size(bytes));
  const advice =
    "a process that reads for very long keeps it from being cut: find it with `fuser`, then `lease watchdog --once`";
  return finding("wal", size(bytes), advice);
}

function disk(path: string): Finding {
  const { bavail, bsize } = statfsSync(dirname(path));
  const free = bavail * bsize;
  if (free >= SCARCE_DISK_BYTES) return finding("disk", `${size(free)} free`);
  const level = free < LITTLE_DISK_BYTES ? "error" : "warn";
  const advice = "a full disk stops every worker: free some space, or `lease prune` and `lease copy --to NEW`";
  return finding("disk", `${size(free)} free`, advice, level);
}

function fileSystem(path: string): Finding {
  const { name, network } = fileSystemName(dirname(path));
  if (!network) return finding("file system", name);
  const advice = "SQLite's locks don't hold on network file systems: use a local disk or postgres://";
  return finding("file system", name, advice, "error");
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
