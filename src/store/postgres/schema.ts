/**
 * The PostgreSQL schema, as steps: step n takes a store from version n-1 to n. Steps are only ever added. `lease.` stands
 * for the schema that the store's URL names.
 *
 * The twin of the SQLite schema, but for what differs in the engine:
 *   - What a beat changes is in no index, so that an extension stays within its page (HOT) and leaves nothing to vacuum
 *     but a tuple. Expired leases are found among the running jobs, of which there are only as many as slots.
 *   - No foreign keys: each insert would lock the job once more. What belongs to a job is written in the statement that
 *     checks its fence, and deleted in the one that deletes it.
 *   - `awaited` says that others wait for the job: only then has its end to look for them.
 *   - Time comes from one function, the database's clock.
 */

import type { Made } from "../../core/once.ts";
import type { GenericSchema } from "valibot";
import { LeaseError } from "../../core/errors.ts";
import { VERSION } from "../../platform/build_info.ts";
import { fromJson } from "../shared/facts.ts";
import type { Connection, Session } from "./session/session.ts";
import type { Names, Place } from "./session/trust.ts";
import type { Target } from "./session/url.ts";
import { SQL } from "./statements.ts";

const VERSION_1 = `
CREATE FUNCTION lease.now_ms() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE AS
  'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint';

CREATE TABLE lease.jobs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run_at_ms bigint NOT NULL, priority bigint NOT NULL,
  token integer NOT NULL DEFAULT 0, failures integer NOT NULL DEFAULT 0, retries bigint NOT NULL,
  lease_ms bigint, -- null: the worker's; 0: learned
  expires_at_ms bigint, cancel_requested_at_ms bigint,
  created_at_ms bigint NOT NULL, started_at_ms bigint, finished_at_ms bigint, last_beat_at_ms bigint,
  beats bigint NOT NULL DEFAULT 0, -- of the running attempt
  progress double precision, exit_code integer,
  awaited boolean NOT NULL DEFAULT false, has_input boolean NOT NULL DEFAULT false,
  state text NOT NULL, queue text NOT NULL, holder text,
  task text, key text, argv text NOT NULL, cwd text NOT NULL, settings text, env text,
  message text, cause text, error text, output text, reason text,
  -- One expression for all: each costs every write.
  CHECK (CASE
    WHEN state = 'running' THEN token > 0 AND holder IS NOT NULL AND expires_at_ms IS NOT NULL AND finished_at_ms IS NULL
    WHEN state IN ('completed', 'failed', 'cancelled') THEN finished_at_ms IS NOT NULL AND holder IS NULL
      AND expires_at_ms IS NULL AND cancel_requested_at_ms IS NULL
    ELSE state IN ('pending', 'scheduled', 'blocked') AND finished_at_ms IS NULL AND holder IS NULL
      AND expires_at_ms IS NULL AND cancel_requested_at_ms IS NULL END),
  CHECK (token >= 0 AND failures >= 0 AND retries >= 0)
) WITH (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX jobs_ready ON lease.jobs (queue, priority DESC, run_at_ms, id) WHERE state = 'pending';
CREATE INDEX jobs_ready_task ON lease.jobs (task, queue, priority DESC, run_at_ms, id)
  WHERE state = 'pending' AND task IS NOT NULL;
CREATE INDEX jobs_due ON lease.jobs (run_at_ms) WHERE state = 'scheduled';
CREATE INDEX jobs_running ON lease.jobs (holder) WHERE state = 'running';
CREATE INDEX jobs_blocked ON lease.jobs (queue) WHERE state = 'blocked';
CREATE INDEX jobs_finished ON lease.jobs (finished_at_ms) WHERE finished_at_ms IS NOT NULL;
CREATE INDEX jobs_task ON lease.jobs (task, id) WHERE task IS NOT NULL;
CREATE INDEX jobs_key ON lease.jobs (key, id) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX jobs_live_key ON lease.jobs (key) WHERE key IS NOT NULL AND finished_at_ms IS NULL;
CREATE TABLE lease.inputs (job_id bigint PRIMARY KEY, data bytea NOT NULL);
CREATE TABLE lease.attempts (
  job_id bigint NOT NULL, attempt integer NOT NULL CHECK (attempt > 0),
  request bigint, -- which acquire it answered, so that one whose answer was lost can be told again
  lease_ms bigint NOT NULL, started_at_ms bigint NOT NULL, ended_at_ms bigint, beats bigint NOT NULL DEFAULT 0,
  pid bigint, pid_started bigint, exit_code integer, worker text NOT NULL, host text NOT NULL, boot_id text,
  cause text, signal text, error text, last_line text,
  PRIMARY KEY (job_id, attempt),
  CHECK ((ended_at_ms IS NULL) = (cause IS NULL))
) WITH (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE TABLE lease.checkpoints (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job_id bigint NOT NULL, at_ms bigint NOT NULL,
  token integer NOT NULL, task text, kind text NOT NULL CHECK (kind IN ('error', 'progress')), text text NOT NULL
);
CREATE INDEX checkpoints_job ON lease.checkpoints (job_id, kind, id);
CREATE INDEX checkpoints_task ON lease.checkpoints (task, id) WHERE task IS NOT NULL;
CREATE TABLE lease.workers (
  id text PRIMARY KEY, name text,
  host text NOT NULL, boot_id text NOT NULL, pid bigint NOT NULL, pid_started bigint NOT NULL,
  version text NOT NULL, queues text, slots integer NOT NULL,
  started_at_ms bigint NOT NULL, seen_at_ms bigint NOT NULL, stopped_at_ms bigint,
  ended text CHECK (ended IN ('clean', 'dead')), draining integer NOT NULL DEFAULT 0,
  completed bigint NOT NULL DEFAULT 0, failed bigint NOT NULL DEFAULT 0,
  CHECK ((stopped_at_ms IS NULL) = (ended IS NULL))
) WITH (fillfactor = 50);
CREATE INDEX workers_live ON lease.workers (host) WHERE stopped_at_ms IS NULL;
CREATE TABLE lease.logs (
  job_id bigint NOT NULL, attempt integer NOT NULL, start bigint NOT NULL, bytes bigint NOT NULL, data bytea NOT NULL,
  PRIMARY KEY (job_id, attempt, start)
);
ALTER TABLE lease.logs ALTER COLUMN data SET STORAGE EXTERNAL; -- it comes compressed
CREATE TABLE lease.dependencies (
  job_id bigint NOT NULL, parent_id bigint NOT NULL, kind text NOT NULL CHECK (kind IN ('success', 'any')),
  PRIMARY KEY (job_id, parent_id)
);
CREATE INDEX dependencies_parent ON lease.dependencies (parent_id);
CREATE TABLE lease.queues (name text PRIMARY KEY, paused_at_ms bigint);
CREATE TABLE lease.learned (subject text PRIMARY KEY, runs bigint NOT NULL, gaps text NOT NULL, lease_ms bigint);
CREATE TABLE lease.meta (name text PRIMARY KEY, value text NOT NULL);
`;

/** Without it nobody could say why a job waits that its queue's workers don't take. */
const VERSION_2 = "ALTER TABLE lease.workers ADD COLUMN task text;";

/**
 * Jobs without a command wait for a worker with a handler. They have a place of their own in the index, so that one
 * that runs commands alone does not step over them, however many wait.
 */
const VERSION_3 = `
DROP INDEX lease.jobs_ready;
DROP INDEX lease.jobs_ready_task;
CREATE INDEX jobs_ready ON lease.jobs (queue, (CASE WHEN argv = '[]' THEN 1 ELSE 0 END), priority DESC, run_at_ms, id)
  WHERE state = 'pending';
CREATE INDEX jobs_ready_task ON lease.jobs (task, queue, (CASE WHEN argv = '[]' THEN 1 ELSE 0 END), priority DESC,
  run_at_ms, id) WHERE state = 'pending' AND task IS NOT NULL;
ALTER TABLE lease.workers ADD COLUMN commands_only integer NOT NULL DEFAULT 0;
`;

/** Which tally a job in `row` belongs to besides that of all: of the ended by their retries, of others whether they ran. */
const retriesOf = (row: string) =>
  `CASE WHEN ${row}finished_at_ms IS NULL THEN least(${row}token, 1) ELSE greatest(${row}token - 1, 0) END`;
const TALLIED = "NOT IN ('pending', 'running')";
export const talliesOf = (
  from: string,
) => `SELECT queue, 'all' AS state, 0 AS retries, count(*) AS count FROM ${from} GROUP BY queue
    UNION ALL SELECT queue, state, ${retriesOf("")} AS retries, count(*) FROM ${from} WHERE state ${TALLIED}
      GROUP BY 1, 2, 3`;

/**
 * Counts of every state, without a row that all writers would wait for: each statement adds what it has changed to
 * `deltas`, and whoever keeps house folds these into `tallies`, `history` and `totals`. Kept are all jobs of a queue, and of
 * them those that are neither pending nor running; running ones are as few as slots, and the rest is pending.
 *
 * Triggers count, so that it is right whoever writes. The statements for many jobs at a time (settle, promote) count by
 * themselves, a row for all instead of one for each, and say so by raising `counted`.
 */
const VERSION_4 = `
ALTER TABLE lease.jobs ADD COLUMN counted integer NOT NULL DEFAULT 0;
CREATE TABLE lease.tallies (
  queue text NOT NULL, state text NOT NULL, retries integer NOT NULL, count bigint NOT NULL,
  PRIMARY KEY (queue, state, retries)
) WITH (fillfactor = 50);
CREATE TABLE lease.deltas (
  kind text NOT NULL CHECK (kind IN ('tally', 'wait', 'end')), queue text NOT NULL,
  state text, -- of a tally; in which an end left the job
  retries integer NOT NULL DEFAULT 0, cause text, class integer, recovered boolean NOT NULL DEFAULT false,
  at_ms bigint, -- the minute, where it belongs to the history
  count bigint NOT NULL, sum_ms bigint NOT NULL DEFAULT 0, max_ms bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE TABLE lease.history (
  span_ms bigint NOT NULL, at_ms bigint NOT NULL, queue text NOT NULL,
  completed bigint NOT NULL, failed bigint NOT NULL, cancelled bigint NOT NULL, retried bigint NOT NULL,
  recovered bigint NOT NULL, ended bigint NOT NULL, run_ms bigint NOT NULL, run_max_ms bigint NOT NULL,
  first_ended bigint NOT NULL, wait_ms bigint NOT NULL, wait_max_ms bigint NOT NULL,
  PRIMARY KEY (span_ms, at_ms, queue)
) WITH (fillfactor = 50);
CREATE TABLE lease.totals (
  queue text NOT NULL, name text NOT NULL, label text NOT NULL, count bigint NOT NULL, sum_ms bigint NOT NULL,
  PRIMARY KEY (queue, name, label)
) WITH (fillfactor = 50);
INSERT INTO lease.tallies (queue, state, retries, count) ${talliesOf("lease.jobs")};
CREATE FUNCTION lease.count_added() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO lease.deltas (kind, queue, state, retries, count)
    SELECT 'tally', queue, state, retries, count FROM (${talliesOf("added")}) AS kept;
  RETURN NULL;
END $$;
CREATE FUNCTION lease.count_gone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO lease.deltas (kind, queue, state, retries, count)
    SELECT 'tally', queue, state, retries, -count FROM (${talliesOf("gone")}) AS kept;
  RETURN NULL;
END $$;
CREATE FUNCTION lease.count_changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF old.state ${TALLIED} THEN
    INSERT INTO lease.deltas (kind, queue, state, retries, count)
      VALUES ('tally', old.queue, old.state, ${retriesOf("old.")}, -1);
  END IF;
  IF new.state ${TALLIED} THEN
    INSERT INTO lease.deltas (kind, queue, state, retries, count, at_ms)
      VALUES ('tally', new.queue, new.state, ${retriesOf("new.")}, 1,
        CASE WHEN new.state = 'cancelled' AND old.state <> 'cancelled' THEN new.finished_at_ms / 60000 * 60000 END);
  END IF;
  IF old.queue <> new.queue THEN
    INSERT INTO lease.deltas (kind, queue, state, count) VALUES ('tally', old.queue, 'all', -1), ('tally', new.queue, 'all', 1);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_added AFTER INSERT ON lease.jobs REFERENCING NEW TABLE AS added FOR EACH STATEMENT
  EXECUTE FUNCTION lease.count_added();
CREATE TRIGGER jobs_gone AFTER DELETE ON lease.jobs REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
  EXECUTE FUNCTION lease.count_gone();
CREATE TRIGGER jobs_changed AFTER UPDATE OF state, queue ON lease.jobs FOR EACH ROW
  WHEN (new.counted = old.counted AND (old.state ${TALLIED} OR new.state ${TALLIED} OR old.queue <> new.queue))
  EXECUTE FUNCTION lease.count_changed();
`;

/** What an attempt was held together by, and what it took. */
const VERSION_5 = `
ALTER TABLE lease.attempts ADD COLUMN fence text;
ALTER TABLE lease.attempts ADD COLUMN cpu_ms bigint;
ALTER TABLE lease.attempts ADD COLUMN memory_bytes bigint;
`;

/**
 * What a cancel says of the time that it leaves, what became of extensions, jobs that wait for a failure, and parents
 * of so many children that these are freed in several commits.
 */
const VERSION_6 = `
ALTER TABLE lease.jobs ADD COLUMN cancel_grace_ms bigint, -- null: not said; negative: never
  ADD COLUMN cancel_told_at_ms bigint; -- when the job itself heard of it
ALTER TABLE lease.jobs ADD COLUMN extensions bigint NOT NULL DEFAULT 0; -- of the running attempt
ALTER TABLE lease.attempts ADD COLUMN self_beats bigint NOT NULL DEFAULT 0, -- by the job itself
  ADD COLUMN extensions bigint NOT NULL DEFAULT 0,
  ADD COLUMN extension_failures bigint NOT NULL DEFAULT 0, ADD COLUMN extension_refusals bigint NOT NULL DEFAULT 0;
ALTER TABLE lease.dependencies DROP CONSTRAINT dependencies_kind_check;
ALTER TABLE lease.dependencies ADD CONSTRAINT dependencies_kind_check CHECK (kind IN ('success', 'any', 'failure'));
DROP INDEX lease.dependencies_parent;
CREATE INDEX dependencies_parent ON lease.dependencies (parent_id, job_id);
CREATE TABLE lease.freeing (parent_id bigint PRIMARY KEY, behind_id bigint NOT NULL);
`;

/**
 * By which the variables of a job come in, within the transaction that enqueues it: as parameters a server that logs
 * statements would write them down.
 */
const VERSION_7 = "CREATE UNLOGGED TABLE lease.incoming_env (job_id bigint PRIMARY KEY, env text NOT NULL);";

/**
 * Limits and resources: see the SQLite schema. A lease that knows nothing of them, and had the store open before, can't
 * grant a job that is bounded: the trigger leaves the row as it is.
 */
const VERSION_8 = `
ALTER TABLE lease.jobs ADD COLUMN gate text NOT NULL DEFAULT '', ADD COLUMN held text;
ALTER TABLE lease.workers ADD COLUMN have text;
DROP INDEX lease.jobs_ready, lease.jobs_ready_task;
CREATE INDEX jobs_ready ON lease.jobs (queue, (CASE WHEN argv = '[]' THEN 1 ELSE 0 END), gate, priority DESC, run_at_ms,
  id) WHERE state = 'pending';
CREATE INDEX jobs_ready_task ON lease.jobs (task, queue, (CASE WHEN argv = '[]' THEN 1 ELSE 0 END), gate, priority DESC,
  run_at_ms, id) WHERE state = 'pending' AND task IS NOT NULL;
CREATE INDEX jobs_gates ON lease.jobs (gate) WHERE state = 'pending' AND gate <> '';
CREATE FUNCTION lease.leave() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER jobs_bounded BEFORE UPDATE OF state ON lease.jobs FOR EACH ROW
  WHEN (new.state = 'running' AND new.gate <> '' AND new.held IS NULL) EXECUTE FUNCTION lease.leave();
CREATE TABLE lease.limits (
  name text PRIMARY KEY, most bigint CHECK (most >= 0), rate_count bigint CHECK (rate_count > 0),
  rate_ms bigint CHECK (rate_ms > 0), CHECK ((rate_count IS NULL) = (rate_ms IS NULL))
);
CREATE TABLE lease.starts (
  name text NOT NULL, at_ms bigint NOT NULL, job_id bigint NOT NULL, attempt integer NOT NULL,
  PRIMARY KEY (name, at_ms, job_id, attempt)
);
`;

/** Schedules, and which of their times have become jobs. */
const VERSION_9 = `
CREATE TABLE lease.schedules (
  name text PRIMARY KEY, cron text, every_ms bigint CHECK (every_ms > 0), zone text,
  overlap text NOT NULL CHECK (overlap IN ('skip', 'queue', 'replace')),
  catch_up text NOT NULL CHECK (catch_up IN ('none', 'one', 'all')), jitter_ms bigint NOT NULL DEFAULT 0,
  job text NOT NULL, set_at_ms bigint NOT NULL, paused integer NOT NULL DEFAULT 0,
  next_at_ms bigint, last_at_ms bigint, last_job bigint,
  CHECK ((cron IS NULL) <> (every_ms IS NULL))
);
CREATE TABLE lease.fired (
  schedule text NOT NULL, at_ms bigint NOT NULL, job_id bigint, PRIMARY KEY (schedule, at_ms)
);
`;

/**
 * Those who enqueue count by themselves: to have a statement's rows for a trigger at its end costs more than a twentieth of
 * it. The trigger is for what is added in other ways, one by one.
 */
const VERSION_10 = `
DROP TRIGGER jobs_added ON lease.jobs;
CREATE OR REPLACE FUNCTION lease.count_added() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO lease.deltas (kind, queue, state, count) VALUES ('tally', new.queue, 'all', 1);
  IF new.state ${TALLIED} THEN
    INSERT INTO lease.deltas (kind, queue, state, retries, count)
      VALUES ('tally', new.queue, new.state, ${retriesOf("new.")}, 1);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_added AFTER INSERT ON lease.jobs FOR EACH ROW WHEN (new.counted = 0)
  EXECUTE FUNCTION lease.count_added();
`;

/**
 * Less to write for each job. Attempts are closed within their page (HOT), where there is room for both versions. The index
 * of ids has room for the versions that a job leaves on its way, and need not be split or searched for dead ones. A bounded
 * job that is granted without a word about it is refused by the row's own check: a trigger that looks before each update
 * locks the row once more, and writes that down.
 */
const VERSION_11 = `
ALTER TABLE lease.attempts SET (fillfactor = 50);
ALTER INDEX lease.jobs_pkey SET (fillfactor = 45);
DROP TRIGGER jobs_bounded ON lease.jobs;
DROP FUNCTION lease.leave();
ALTER TABLE lease.jobs DROP CONSTRAINT jobs_check, DROP CONSTRAINT jobs_check1,
  ADD CONSTRAINT jobs_check CHECK (token >= 0 AND failures >= 0 AND retries >= 0 AND CASE
    WHEN state = 'running' THEN token > 0 AND holder IS NOT NULL AND expires_at_ms IS NOT NULL AND finished_at_ms IS NULL
      AND (gate = '' OR held IS NOT NULL)
    WHEN state IN ('completed', 'failed', 'cancelled') THEN finished_at_ms IS NOT NULL AND holder IS NULL
      AND expires_at_ms IS NULL AND cancel_requested_at_ms IS NULL
    ELSE state IN ('pending', 'scheduled', 'blocked') AND finished_at_ms IS NULL AND holder IS NULL
      AND expires_at_ms IS NULL AND cancel_requested_at_ms IS NULL END) NOT VALID; -- all but one were held to it before
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
  VERSION_10,
  VERSION_11,
];

/** What the steps make, and what is made beside them. */
export function namesOf(): Names {
  const tables = MIGRATIONS.flatMap((step) =>
    [...step.matchAll(/CREATE (?:UNLOGGED )?TABLE lease\.(\w+)/g)].map(([, name = ""]) => name),
  );
  return { tables, functions: ["now_ms", "enqueue"] };
}

export interface Versions {
  /** Of the tables. */
  version: number;
  /** Which lease wrote the functions that others may call; null: none did. */
  functions: string | null;
}

/** Null: there is none. Without parameters, which would cost a round trip more. */
export async function versionsOf(db: Connection): Promise<Versions | null> {
  const rows = await db.query("SELECT name, value FROM lease.meta WHERE name IN ('version', 'functions')");
  const values = new Map(rows.map(({ name, value }) => [name, value]));
  const version = values.get("version");
  if (version === undefined) return null;
  return { version: Number(version), functions: (values.get("functions") as string | undefined) ?? null };
}

/** Whether this lease has newer ones. */
export function hasNewerFunctions({ functions }: Versions): boolean {
  if (functions === null) return true;
  const [ours, theirs] = [VERSION, functions].map((version) => version.split(".").map(Number));
  const at = ours?.findIndex((part, index) => part !== theirs?.[index]) ?? -1;
  return at >= 0 && (ours?.[at] ?? 0) > (theirs?.[at] ?? 0);
}

/** Brings the schema of a store to this version, under a lock. */
export async function migrate(session: Session, { schema, location }: Target, place: Place): Promise<void> {
  const name = `"${schema.replaceAll('"', '""')}"`;
  await session.transaction(async (db) => {
    // Whoever comes second finds the work done.
    await db.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`lease ${schema}`]);
    const [meta] = await db.query("SELECT 1 AS found WHERE to_regclass($1) IS NOT NULL", [`${name}.meta`]);
    const version = (meta === undefined ? null : await versionsOf(db))?.version ?? 0;
    if (version > MIGRATIONS.length) {
      const found = `has schema ${version} and this lease knows ${MIGRATIONS.length}`;
      throw new LeaseError("store_newer", `store ${location} ${found}: use a newer lease`);
    }
    if (version === 0) await refuseForeign(db, schema, location);
    // Whoever made it for us need not have let us make others.
    if (version === 0 && !place.found) await db.query(`CREATE SCHEMA IF NOT EXISTS ${name}`);
    for (const step of MIGRATIONS.slice(version)) await db.script(step);
    const { enqueueFunction } = await import("./sql/enqueue.ts");
    await db.script(enqueueFunction(schema));
    await db.query(SQL.setMeta, ["version", String(MIGRATIONS.length)]);
    await db.query(SQL.setMeta, ["functions", VERSION]);
  });
}

/** A schema with tables in it and no mark of ours is somebody else's. */
async function refuseForeign(db: Connection, schema: string, location: string): Promise<void> {
  const [table] = await db.query("SELECT 1 AS found FROM pg_tables WHERE schemaname = $1 LIMIT 1", [schema]);
  if (table === undefined) return;
  const message = `schema ${schema} of ${location} belongs to another program: name another with ?schema=`;
  throw new LeaseError("store_not_database", message);
}

const CLAIM_META = "INSERT INTO lease.meta (name, value) VALUES ($1, 'null') ON CONFLICT DO NOTHING";

/** A small fact about the store, which nobody else changes until the transaction ends; null as from `fromJson`. */
export async function lockMeta<S extends GenericSchema>(db: Connection, name: string, schema: Made<S>) {
  await db.query(CLAIM_META, [name]);
  const [row] = await db.query(`${SQL.getMeta} FOR UPDATE`, [name]);
  return fromJson(schema, row?.["value"]);
}
