/** The health of a PostgreSQL store: the server, the schema, what vacuum is kept from, room for connections. */

import { formatDuration } from "../../core/duration.ts";
import type { SqlRow } from "../../platform/platform.ts";
import type { Finding } from "../queries.ts";
import { LOOKED_AT, damageFinding, finding, worstFirst } from "../shared/findings.ts";
import { MIGRATIONS } from "./schema.ts";
import type { Connection } from "./session/session.ts";
import { SELECT_WITHOUT_INPUT } from "./statements.ts";

const OLD_SNAPSHOT_MS = 5 * 60_000;
const MANY_DEAD = 100_000;
const FEW_CONNECTIONS = 10;

const FACTS = `SELECT current_setting('server_version') AS version,
  (SELECT value FROM lease.meta WHERE name = 'version') AS schema,
  current_setting('synchronous_commit') AS synchronous_commit, current_setting('fsync') AS fsync,
  current_setting('autovacuum') AS autovacuum, pg_is_in_recovery() AS standby,
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

export async function diagnose(db: Connection, schema: string): Promise<Finding[]> {
  const [row] = await db.query(FACTS, [schema]);
  const facts = row as SqlRow;
  return worstFirst([
    finding("postgresql", facts["version"] as string),
    finding("schema", `${facts["schema"]} of ${MIGRATIONS.length}`),
    standby(facts),
    durability(facts),
    autovacuum(facts),
    bloat(facts),
    snapshots(facts),
    connections(facts),
    strays(facts),
    damageFinding(await db.query(LOOKED, [LOOKED_AT])),
    finding("size", `${Math.round((facts["bytes"] as number) / 2 ** 20)} MiB`),
  ]);
}

function standby(facts: SqlRow): Finding {
  if ((facts["standby"] as unknown) !== true) return finding("role", "primary");
  return finding("role", "standby", "nothing can be written here: name the primary", "error");
}

function durability(facts: SqlRow): Finding {
  if (facts["fsync"] === "off") {
    const advice = "a crash of the server can lose or damage everything: switch fsync on";
    return finding("durability", "fsync is off", advice, "error");
  }
  if (facts["synchronous_commit"] !== "off")
    return finding("durability", `synchronous_commit ${facts["synchronous_commit"]}`);
  const advice = "a crash of the server can lose jobs that were acknowledged: set synchronous_commit to on";
  return finding("durability", "synchronous_commit off", advice);
}

function autovacuum(facts: SqlRow): Finding {
  if (facts["autovacuum"] === "on") return finding("autovacuum", "on");
  const advice = "old versions of jobs pile up and every claim gets slower: switch autovacuum on";
  return finding("autovacuum", "off", advice, "error");
}

function bloat(facts: SqlRow): Finding {
  const [dead, live] = [(facts["dead"] ?? 0) as number, (facts["live"] ?? 0) as number];
  const value = `${dead} dead of ${dead + live} job versions`;
  if (dead < MANY_DEAD || dead < live) return finding("bloat", value);
  const advice = "vacuum does not keep up: look for old transactions, and at autovacuum_vacuum_cost_limit";
  return finding("bloat", value, advice);
}

function snapshots(facts: SqlRow): Finding {
  const oldest_ms = facts["oldest_ms"] as number;
  const value = formatDuration(oldest_ms);
  if (oldest_ms < OLD_SNAPSHOT_MS) return finding("oldest transaction", value);
  const advice = "it keeps vacuum from its work: find it in pg_stat_activity by backend_xmin, and end it";
  return finding("oldest transaction", value, advice);
}

function connections(facts: SqlRow): Finding {
  const left = facts["connections_left"] as number;
  if (left >= FEW_CONNECTIONS) return finding("connections", `${left} left`);
  const advice = "a worker needs up to three: raise max_connections, or put pgbouncer (session pooling) before it";
  return finding("connections", `${left} left`, advice);
}

function strays(facts: SqlRow): Finding {
  if (facts["strays"] === 0) return finding("integrity", "ok");
  const advice = "somebody changed the tables by hand: `lease copy --to NEW` makes a store without them";
  return finding("integrity", `${facts["strays"]} attempts without an end`, advice);
}
