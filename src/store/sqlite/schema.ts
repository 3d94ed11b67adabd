/**
 * The SQLite schema, as steps: step n takes a store from version n-1 to n. Steps are only ever added.
 *
 * CHECKs hold what must never be false, whoever writes: terminal ⇔ finished_at_ms, running ⇔ holder and expiry. The
 * partial indexes answer exactly the hot questions, so acquire and settle cost the same on a store of any size.
 * Input has a table of its own because SQLite rewrites a whole row, and a lease is extended often.
 */

import { LeaseError, assert } from "../../core/errors.ts";
import type { SqlDatabase } from "../../platform/platform.ts";
import { bounded } from "../shared/columns.ts";
import { APPLICATION_ID, SCHEMA_VERSION } from "./quick_enqueue.ts";
import { rollback } from "./writer.ts";

const VERSION_1 = `
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  state TEXT NOT NULL
    CHECK (state IN ('blocked', 'scheduled', 'pending', 'running', 'completed', 'failed', 'cancelled')),
  queue TEXT NOT NULL, priority INTEGER NOT NULL, run_at_ms INTEGER NOT NULL,
  token INTEGER NOT NULL DEFAULT 0 CHECK (token >= 0), failures INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
  retries INTEGER NOT NULL CHECK (retries >= 0),
  lease_ms INTEGER CHECK (lease_ms >= 0), -- null: the worker's; 0: learned
  holder TEXT, expires_at_ms INTEGER, cancel_requested_at_ms INTEGER,
  created_at_ms INTEGER NOT NULL, started_at_ms INTEGER, finished_at_ms INTEGER, last_beat_at_ms INTEGER,
  task TEXT, key TEXT, argv TEXT NOT NULL, cwd TEXT NOT NULL, settings TEXT, env TEXT,
  progress REAL, message TEXT,
  cause TEXT, exit_code INTEGER, error TEXT, output TEXT, reason TEXT,
  CHECK ((state IN ('completed', 'failed', 'cancelled')) = (finished_at_ms IS NOT NULL)),
  CHECK ((state = 'running') = (holder IS NOT NULL)),
  CHECK ((state = 'running') = (expires_at_ms IS NOT NULL)),
  CHECK (state = 'running' OR cancel_requested_at_ms IS NULL),
  CHECK (state <> 'running' OR token > 0)
) STRICT;

CREATE INDEX jobs_ready ON jobs (queue, priority DESC, run_at_ms, id) WHERE state = 'pending';
CREATE INDEX jobs_ready_task ON jobs (task, queue, priority DESC, run_at_ms, id)
  WHERE state = 'pending' AND task IS NOT NULL;
CREATE INDEX jobs_due ON jobs (run_at_ms) WHERE state = 'scheduled';
CREATE INDEX jobs_retrying ON jobs (queue) WHERE state = 'scheduled' AND token > 0;
CREATE INDEX jobs_expiry ON jobs (expires_at_ms, id, holder) WHERE state = 'running';
CREATE INDEX jobs_cancelling ON jobs (holder) WHERE state = 'running' AND cancel_requested_at_ms IS NOT NULL;
CREATE INDEX jobs_blocked ON jobs (queue) WHERE state = 'blocked';
CREATE UNIQUE INDEX jobs_live_key ON jobs (key)
  WHERE key IS NOT NULL AND state IN ('blocked', 'scheduled', 'pending', 'running');
CREATE TABLE inputs (
  job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE, data BLOB NOT NULL
) STRICT;
CREATE TABLE attempts (
  job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, attempt INTEGER NOT NULL CHECK (attempt > 0),
  worker TEXT NOT NULL, host TEXT NOT NULL, boot_id TEXT, pid INTEGER, pid_started INTEGER,
  lease_ms INTEGER NOT NULL, started_at_ms INTEGER NOT NULL, ended_at_ms INTEGER,
  cause TEXT, exit_code INTEGER, signal TEXT, error TEXT, last_line TEXT, beats INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (job_id, attempt),
  CHECK ((ended_at_ms IS NULL) = (cause IS NULL))
) STRICT, WITHOUT ROWID;
CREATE TABLE checkpoints (
  id INTEGER PRIMARY KEY AUTOINCREMENT, job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, task TEXT,
  kind TEXT NOT NULL CHECK (kind IN ('error', 'progress')), token INTEGER NOT NULL, at_ms INTEGER NOT NULL,
  text TEXT NOT NULL
) STRICT;
CREATE INDEX checkpoints_job ON checkpoints (job_id, kind, id);
CREATE INDEX checkpoints_task ON checkpoints (task, id) WHERE task IS NOT NULL;
CREATE TABLE workers (
  id TEXT PRIMARY KEY, name TEXT,
  host TEXT NOT NULL, boot_id TEXT NOT NULL, pid INTEGER NOT NULL, pid_started INTEGER NOT NULL,
  version TEXT NOT NULL, queues TEXT, slots INTEGER NOT NULL,
  started_at_ms INTEGER NOT NULL, seen_at_ms INTEGER NOT NULL, stopped_at_ms INTEGER,
  ended TEXT CHECK (ended IN ('clean', 'dead')),
  CHECK ((stopped_at_ms IS NULL) = (ended IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX workers_live ON workers (host) WHERE stopped_at_ms IS NULL;
CREATE TABLE logs (
  id INTEGER PRIMARY KEY, job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, attempt INTEGER NOT NULL,
  start INTEGER NOT NULL, bytes INTEGER NOT NULL, data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX logs_position ON logs (job_id, attempt, start);
CREATE TABLE dependencies (
  job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  parent_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  kind TEXT NOT NULL CHECK (kind IN ('success', 'any')),
  PRIMARY KEY (job_id, parent_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependencies_parent ON dependencies (parent_id);
CREATE TABLE queues (
  name TEXT PRIMARY KEY, paused_at_ms INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE meta (
  name TEXT PRIMARY KEY, value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
`;

/**
 * Tallies hold how many jobs ended how, so that nobody has to count a million rows to answer. Triggers keep them,
 * because they must be right whoever writes; waiting and running jobs are counted from the indexes above.
 */
const VERSION_2 = `
CREATE TABLE tallies (
  queue TEXT NOT NULL, state TEXT NOT NULL, retries INTEGER NOT NULL, count INTEGER NOT NULL,
  PRIMARY KEY (queue, state, retries)
) STRICT, WITHOUT ROWID;

INSERT INTO tallies SELECT queue, state, max(token - 1, 0), count(*) FROM jobs WHERE finished_at_ms IS NOT NULL
  GROUP BY 1, 2, 3;
CREATE TRIGGER jobs_added AFTER INSERT ON jobs WHEN new.finished_at_ms IS NOT NULL BEGIN
  INSERT INTO tallies VALUES (new.queue, new.state, max(new.token - 1, 0), 1)
    ON CONFLICT DO UPDATE SET count = count + 1;
END;
CREATE TRIGGER jobs_ended AFTER UPDATE OF state ON jobs WHEN new.finished_at_ms IS NOT NULL BEGIN
  INSERT INTO tallies VALUES (new.queue, new.state, max(new.token - 1, 0), 1)
    ON CONFLICT DO UPDATE SET count = count + 1;
END;
CREATE TRIGGER jobs_reopened AFTER UPDATE OF state ON jobs WHEN old.finished_at_ms IS NOT NULL BEGIN
  UPDATE tallies SET count = count - 1 WHERE queue = old.queue AND state = old.state AND retries = max(old.token - 1, 0);
END;
CREATE TRIGGER jobs_gone AFTER DELETE ON jobs WHEN old.finished_at_ms IS NOT NULL BEGIN
  UPDATE tallies SET count = count - 1 WHERE queue = old.queue AND state = old.state AND retries = max(old.token - 1, 0);
END;
DROP INDEX jobs_due; -- now with what is counted by it
CREATE INDEX jobs_due ON jobs (run_at_ms, queue) WHERE state = 'scheduled';
CREATE INDEX jobs_finished ON jobs (state, finished_at_ms) WHERE finished_at_ms IS NOT NULL;
CREATE INDEX jobs_task ON jobs (task, id) WHERE task IS NOT NULL;
CREATE INDEX jobs_key ON jobs (key, id) WHERE key IS NOT NULL;
CREATE TABLE learned (
  subject TEXT PRIMARY KEY, runs INTEGER NOT NULL, gaps TEXT NOT NULL, lease_ms INTEGER
) STRICT, WITHOUT ROWID;
ALTER TABLE workers ADD COLUMN draining INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN completed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
`;

/** Without it nobody could say why a job waits that its queue's workers don't take. */
const VERSION_3 = "ALTER TABLE workers ADD COLUMN task TEXT;";

/**
 * Jobs without a command wait for a worker with a handler. They have a place of their own in the index, so that one
 * that runs commands alone does not step over them, however many wait.
 */
const VERSION_4 = `
DROP INDEX jobs_ready;
DROP INDEX jobs_ready_task;
CREATE INDEX jobs_ready ON jobs (queue, (argv = '[]'), priority DESC, run_at_ms, id) WHERE state = 'pending';
CREATE INDEX jobs_ready_task ON jobs (task, queue, (argv = '[]'), priority DESC, run_at_ms, id)
  WHERE state = 'pending' AND task IS NOT NULL;
ALTER TABLE workers ADD COLUMN commands_only INTEGER NOT NULL DEFAULT 0;
`;

/** Which tally a job in `row` belongs to besides that of all: of the ended by their retries, of others whether they ran. */
const retriesOf = (row: string) => `iif(${row}.finished_at_ms IS NULL, min(${row}.token, 1), max(${row}.token - 1, 0))`;
const addTo = (row: string, state: string, retries: string) =>
  `INSERT INTO tallies VALUES (${row}.queue, ${state}, ${retries}, 1) ON CONFLICT DO UPDATE SET count = ${bounded("count")} + 1`;
const takeFrom = (row: string, state: string, retries: string) =>
  `UPDATE tallies SET count = ${bounded("count")} - 1 WHERE queue = ${row}.queue AND state = ${state} AND retries = ${retries}`;

/**
 * Counts of every state, at a cost that neither acquire nor settle feels: kept are all jobs of a queue, and of them
 * those that are neither pending nor running; running ones are as few as slots, and the rest is pending. Who adds many
 * rows counts them by itself (see enqueue.ts), as `counting` said when that did not take the trigger away.
 *
 * The history of a queue is by the minute and, after a week, by the hour.
 */
const VERSION_5 = `
CREATE TABLE counting (by_hand INTEGER NOT NULL) STRICT;
INSERT INTO counting VALUES (0);
INSERT INTO tallies SELECT queue, 'all', 0, count(*) FROM jobs GROUP BY queue;
INSERT INTO tallies SELECT queue, state, min(token, 1), count(*) FROM jobs WHERE state IN ('scheduled', 'blocked')
  GROUP BY 1, 2, 3;
DROP TRIGGER jobs_added;
DROP TRIGGER jobs_ended;
DROP TRIGGER jobs_reopened;
DROP TRIGGER jobs_gone;
CREATE TRIGGER jobs_added AFTER INSERT ON jobs WHEN (SELECT by_hand FROM counting) IS NOT 1 BEGIN
  ${addTo("new", "'all'", "0")};
  INSERT INTO tallies SELECT new.queue, new.state, ${retriesOf("new")}, 1 WHERE new.state NOT IN ('pending', 'running')
    ON CONFLICT DO UPDATE SET count = ${bounded("count")} + 1;
END;
CREATE TRIGGER jobs_counted AFTER UPDATE OF state, queue ON jobs
  WHEN new.finished_at_ms IS NOT NULL OR new.state IN ('scheduled', 'blocked') BEGIN
  ${addTo("new", "new.state", retriesOf("new"))};
END;
CREATE TRIGGER jobs_uncounted AFTER UPDATE OF state, queue ON jobs
  WHEN old.finished_at_ms IS NOT NULL OR old.state IN ('scheduled', 'blocked') BEGIN
  ${takeFrom("old", "old.state", retriesOf("old"))};
END;
CREATE TRIGGER jobs_moved AFTER UPDATE OF queue ON jobs WHEN new.queue <> old.queue BEGIN
  ${addTo("new", "'all'", "0")};
  ${takeFrom("old", "'all'", "0")};
END;
CREATE TRIGGER jobs_gone AFTER DELETE ON jobs BEGIN
  ${takeFrom("old", "'all'", "0")};
  ${takeFrom("old", "old.state", retriesOf("old"))};
END;
CREATE TABLE history (
  span_ms INTEGER NOT NULL, at_ms INTEGER NOT NULL, queue TEXT NOT NULL,
  completed INTEGER NOT NULL, failed INTEGER NOT NULL, cancelled INTEGER NOT NULL, retried INTEGER NOT NULL,
  recovered INTEGER NOT NULL, ended INTEGER NOT NULL, run_ms INTEGER NOT NULL, run_max_ms INTEGER NOT NULL,
  first_ended INTEGER NOT NULL, wait_ms INTEGER NOT NULL, wait_max_ms INTEGER NOT NULL,
  PRIMARY KEY (span_ms, at_ms, queue)
) STRICT, WITHOUT ROWID;
CREATE TABLE totals (
  queue TEXT NOT NULL, name TEXT NOT NULL, label TEXT NOT NULL, count INTEGER NOT NULL, sum_ms INTEGER NOT NULL,
  PRIMARY KEY (queue, name, label)
) STRICT, WITHOUT ROWID;
`;

/** What an attempt was held together by, and what it took. */
const VERSION_6 = `
ALTER TABLE attempts ADD COLUMN fence TEXT;
ALTER TABLE attempts ADD COLUMN cpu_ms INTEGER;
ALTER TABLE attempts ADD COLUMN memory_bytes INTEGER;
`;

/**
 * What a cancel says of the time that it leaves, what became of extensions, jobs that wait for a failure, and parents
 * of so many children that these are freed in several commits.
 */
const VERSION_7 = `
ALTER TABLE jobs ADD COLUMN cancel_grace_ms INTEGER; -- null: not said; negative: never
ALTER TABLE jobs ADD COLUMN cancel_told_at_ms INTEGER; -- when the job itself heard of it
ALTER TABLE attempts ADD COLUMN self_beats INTEGER NOT NULL DEFAULT 0; -- by the job itself
ALTER TABLE attempts ADD COLUMN extensions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN extension_failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN extension_refusals INTEGER NOT NULL DEFAULT 0;
CREATE TABLE dependencies_new (
  job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  parent_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  kind TEXT NOT NULL CHECK (kind IN ('success', 'any', 'failure')),
  PRIMARY KEY (job_id, parent_id)
) STRICT, WITHOUT ROWID;
INSERT INTO dependencies_new SELECT job_id, parent_id, kind FROM dependencies
  WHERE job_id IN (SELECT id FROM jobs) AND parent_id IN (SELECT id FROM jobs);
DROP TABLE dependencies;
ALTER TABLE dependencies_new RENAME TO dependencies;
CREATE INDEX dependencies_parent ON dependencies (parent_id, job_id);
CREATE TABLE freeing (
  parent_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
  behind_id INTEGER NOT NULL -- children up to this one have been told
) STRICT;
`;

/**
 * Limits and resources. Jobs that are bounded wait in lines of their own (see core/gate.ts): whoever looks for work
 * passes over any number of them with one look. A lease that knows nothing of limits, and had the store open before,
 * must not grant them: its grants of such jobs change nothing, because they say nothing of what is held.
 */
const VERSION_8 = `
ALTER TABLE jobs ADD COLUMN gate TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN held TEXT; -- what the running attempt was given; of a bounded job always there
ALTER TABLE workers ADD COLUMN have TEXT;
DROP INDEX jobs_ready;
DROP INDEX jobs_ready_task;
DROP INDEX jobs_expiry;
CREATE INDEX jobs_ready ON jobs (queue, (argv = '[]'), gate, priority DESC, run_at_ms, id) WHERE state = 'pending';
CREATE INDEX jobs_ready_task ON jobs (task, queue, (argv = '[]'), gate, priority DESC, run_at_ms, id)
  WHERE state = 'pending' AND task IS NOT NULL;
CREATE INDEX jobs_gates ON jobs (gate) WHERE state = 'pending' AND gate <> '';
CREATE INDEX jobs_expiry ON jobs (expires_at_ms, id, holder, queue, gate) WHERE state = 'running';
CREATE TRIGGER jobs_bounded BEFORE UPDATE OF state ON jobs
  WHEN new.state = 'running' AND new.gate <> '' AND new.held IS NULL BEGIN SELECT RAISE(IGNORE); END;
CREATE TABLE limits (
  name TEXT PRIMARY KEY, most INTEGER CHECK (most >= 0), rate_count INTEGER CHECK (rate_count > 0),
  rate_ms INTEGER CHECK (rate_ms > 0), CHECK ((rate_count IS NULL) = (rate_ms IS NULL))
) STRICT, WITHOUT ROWID;
CREATE TABLE starts ( -- of jobs within a limit that has a rate, for as long as it counts them
  name TEXT NOT NULL, at_ms INTEGER NOT NULL, job_id INTEGER NOT NULL, attempt INTEGER NOT NULL,
  PRIMARY KEY (name, at_ms, job_id, attempt)
) STRICT, WITHOUT ROWID;
`;

/** Schedules, and which of their times have become jobs. */
const VERSION_9 = `
CREATE TABLE schedules (
  name TEXT PRIMARY KEY, cron TEXT, every_ms INTEGER CHECK (every_ms > 0), zone TEXT,
  overlap TEXT NOT NULL CHECK (overlap IN ('skip', 'queue', 'replace')),
  catch_up TEXT NOT NULL CHECK (catch_up IN ('none', 'one', 'all')), jitter_ms INTEGER NOT NULL DEFAULT 0,
  job TEXT NOT NULL, set_at_ms INTEGER NOT NULL, paused INTEGER NOT NULL DEFAULT 0,
  next_at_ms INTEGER, last_at_ms INTEGER, last_job INTEGER,
  CHECK ((cron IS NULL) <> (every_ms IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX schedules_next ON schedules (next_at_ms) WHERE paused = 0;
CREATE TABLE fired ( -- each time of a schedule once
  schedule TEXT NOT NULL, at_ms INTEGER NOT NULL, job_id INTEGER,
  PRIMARY KEY (schedule, at_ms)
) STRICT, WITHOUT ROWID;
`;

export const MIGRATIONS: readonly string[] = [
  VERSION_1,
  VERSION_2,
  VERSION_3,
  VERSION_4,
  VERSION_5,
  VERSION_6,
  VERSION_7,
  VERSION_8,
  VERSION_9,
];
assert(MIGRATIONS.length === SCHEMA_VERSION, "the version counts the steps");

/** Brings the schema of a store to this version, under the lock. */
export function migrate(database: SqlDatabase, path: string): void {
  database.exec("BEGIN IMMEDIATE");
  try {
    // Read again under the lock: another process may have been first.
    const version = database.prepare("PRAGMA user_version").get()?.["user_version"] as number;
    if (version > MIGRATIONS.length) {
      const found = `has schema ${version} and this lease knows ${MIGRATIONS.length}`;
      throw new LeaseError("store_newer", `store ${path} ${found}: use a newer lease`);
    }
    for (const step of MIGRATIONS.slice(version)) database.exec(step);
    database.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
    database.exec(`PRAGMA user_version = ${MIGRATIONS.length}`);
    database.exec("COMMIT");
  } catch (error) {
    rollback(database);
    throw error;
  }
}
