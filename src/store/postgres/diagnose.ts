/** The health of a PostgreSQL store: the server, the schema, what vacuum is kept from, room for connections. */

import { formatDuration } from "../../core/duration.ts";
import { assert } from "../../core/errors.ts";
import type { DiagnoseOptions, Finding } from "../queries.ts";
import { LOOKED_AT, damageFinding, finding, talliesFinding, worstFirst } from "../shared/findings.ts";
import { TALLIES } from "./read.ts";
import { MIGRATIONS } from "./schema.ts";
import type { Connection } from "./session/session.ts";
import { SELECT_WITHOUT_INPUT } from "./statements.ts";

const OLD_SNAPSHOT_MS = 5 * 60_000;
const MANY_DEAD = 100_000;
const FEW_CONNECTIONS = 10;

const FACTS = `SELECT current_setting('server_version') AS version,
  (SELECT value FROM lease.meta WHERE name = 'version') AS schema,
  current_setting('synchronous_commit') AS synchronous_commit, current_setting('fsync') AS fsync,
  current_setting('autovacuum') AS autovacuum,
  (SELECT CASE WHEN ssl THEN 'encrypted, ' || version ELSE 'not encrypted' END FROM pg_stat_ssl
    WHERE pid = pg_backend_pid()) AS connection, pg_is_in_recovery() AS standby,
  current_setting('max_connections')::int - (SELECT count(*) FROM pg_stat_activity)::int AS connections_left,
  (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)) * 1000, 0)::bigint FROM pg_stat_activity
    WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND datname = current_database()) AS oldest_ms,
  (SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = $1) AS bytes,
  (SELECT n_dead_tup FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'jobs') AS dead,
  (SELECT n_live_tup FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'jobs') AS live,
  (SELECT count(*) FROM lease.attempts AS a WHERE ended_at_ms IS NULL AND NOT EXISTS (
    SELECT 1 FROM lease.jobs WHERE jobs.id = a.job_id AND state = 'running' AND token = a.attempt)) AS strays`;

/** Each from the index of its state; those that have ended have one for all states. */
const some = (from: string, which: string) => `(${from} WHERE ${which} LIMIT $1)`;
const LOOKED = [
  ...["running", "pending", "scheduled", "blocked"].map((state) => some(SELECT_WITHOUT_INPUT, `state = '${state}'`)),
  `(SELECT * FROM ${some(SELECT_WITHOUT_INPUT, "finished_at_ms IS NOT NULL ORDER BY finished_at_ms DESC")} AS newest
    WHERE state = 'failed')`,
].join(" UNION ALL ");

/** Both ways: what is counted wrong, and what is counted and not there. */
const TALLY_ERRORS = `WITH real AS (
    SELECT queue, 'all' AS state, 0 AS retries, count(*) AS count FROM lease.jobs GROUP BY queue
    UNION ALL SELECT queue, state,
        CASE WHEN finished_at_ms IS NULL THEN least(token, 1) ELSE greatest(token - 1, 0) END AS retries, count(*)
      FROM lease.jobs WHERE state NOT IN ('pending', 'running') GROUP BY 1, 2, 3
  ), kept AS (
    SELECT queue, state, retries, sum(count)::bigint AS count FROM (${TALLIES}) AS tallies GROUP BY 1, 2, 3
    HAVING sum(count) <> 0
  ) SELECT count(*) AS wrong FROM real FULL JOIN kept USING (queue, state, retries) WHERE real.count IS DISTINCT FROM kept.count`;

const ADVICE = {
  role: "nothing can be written here: name the primary",
  fsync: "a crash of the server can lose or damage everything: switch fsync on",
  commit: "a crash of the server can lose jobs that were acknowledged: set synchronous_commit to on",
  autovacuum: "old versions of jobs pile up and every claim gets slower: switch autovacuum on",
  bloat: "vacuum does not keep up: look for old transactions, and at autovacuum_vacuum_cost_limit",
  oldest: "it keeps vacuum from its work: find it in pg_stat_activity by backend_xmin, and end it",
  connections: "a worker needs up to three: raise max_connections, or put pgbouncer (session pooling) before it",
  strays: "somebody changed the tables by hand: `lease copy --to NEW` makes a store without them",
};

interface Facts extends Record<"version" | "schema" | "synchronous_commit" | "fsync" | "autovacuum", string> {
  standby: boolean;
  connection: string | null;
  connections_left: number;
  oldest_ms: number;
  bytes: number;
  dead: number | null;
  live: number | null;
  strays: number;
}

/** Up to here they are counted in a moment. */
const FEW_JOBS = 200_000;

export async function diagnose(
  db: Connection,
  schema: string,
  { full = false, step }: DiagnoseOptions = {},
): Promise<Finding[]> {
  step?.("the server");
  const [facts] = await db.query<Facts>(FACTS, [schema]);
  assert(facts !== undefined, "the facts are one row");
  const { standby, autovacuum, oldest_ms, connections_left: left, strays, bytes } = facts;
  const [dead, live] = [facts.dead ?? 0, facts.live ?? 0];
  const few_dead = dead < MANY_DEAD || dead < live;
  return worstFirst([
    finding("postgresql", facts.version),
    finding("connection", facts.connection ?? "not known"),
    finding("schema", `${facts.schema} of ${MIGRATIONS.length}`),
    finding("role", standby ? "standby" : "primary", standby ? ADVICE.role : null, "error"),
    durability(facts),
    finding("autovacuum", autovacuum, autovacuum === "on" ? null : ADVICE.autovacuum, "error"),
    finding("bloat", `${dead} dead of ${dead + live} job versions`, few_dead ? null : ADVICE.bloat),
    finding("oldest transaction", formatDuration(oldest_ms), oldest_ms < OLD_SNAPSHOT_MS ? null : ADVICE.oldest),
    finding("connections", `${left} left`, left >= FEW_CONNECTIONS ? null : ADVICE.connections),
    strays === 0
      ? finding("integrity", "ok")
      : finding("integrity", `${strays} attempts without an end`, ADVICE.strays),
    ...(full || live + dead <= FEW_JOBS ? [await tallies(db, step)] : [finding("counts", UNCOUNTED)]),
    damageFinding(await db.query(LOOKED, [LOOKED_AT])),
    finding("size", `${Math.round(bytes / 2 ** 20)} MiB`),
  ]);
}

const UNCOUNTED = "taken as they are; `lease doctor --full` counts all jobs";

async function tallies(db: Connection, step: DiagnoseOptions["step"]): Promise<Finding> {
  step?.("counts");
  return talliesFinding((await db.query(TALLY_ERRORS))[0]?.["wrong"] as number);
}

function durability({ fsync, synchronous_commit }: Facts): Finding {
  if (fsync === "off") return finding("durability", "fsync is off", ADVICE.fsync, "error");
  const advice = synchronous_commit === "off" ? ADVICE.commit : null;
  return finding("durability", `synchronous_commit ${synchronous_commit}`, advice);
}
