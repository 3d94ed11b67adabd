/**
 * The SQL by which a DBA makes a place for a store: one role that owns and migrates it, one that uses it and may do
 * nothing else, and what a role needs that only adds jobs. Can be run again after any change.
 */

import type { LibpqVariables } from "./password.ts";
import { literal } from "./trust.ts";
import { parseTarget } from "./url.ts";

const USUAL_OWNER = "lease_owner";

export function grantsSql(url: string, env: LibpqVariables): string {
  const { database, schema, user, owner: named, hosts } = parseTarget(url, env);
  const owner = named ?? USUAL_OWNER;
  const where = hosts.map(({ host, port }) => (host.startsWith("/") ? "" : `${host}:${port}`)).join(",");
  const at = (role: string, more: string) => {
    const query = [`schema=${schema}`, ...(more === "" ? [] : [more])].join("&");
    return `postgres://${encodeURIComponent(role)}@${where}/${encodeURIComponent(database)}?${query}`;
  };
  const [Owner, User, Schema] = [owner, user, schema].map(identifier);
  const each = (kind: string, rights: string) => [
    `GRANT ${rights} ON ALL ${kind} IN SCHEMA ${Schema} TO ${User};`,
    `ALTER DEFAULT PRIVILEGES FOR ROLE ${Owner} IN SCHEMA ${Schema} GRANT ${rights} ON ${kind} TO ${User};`,
  ];
  return `${[
    `-- To be run in database ${database} by a superuser, or by who may create roles and owns it.`,
    `-- ${owner} owns the store and migrates it, ${user} runs everything else.`,
    ...[owner, user].flatMap(createRole),
    `CREATE SCHEMA IF NOT EXISTS ${Schema} AUTHORIZATION ${Owner};`,
    `GRANT CONNECT ON DATABASE ${identifier(database)} TO ${Owner}, ${User};`,
    `GRANT USAGE ON SCHEMA ${Schema} TO ${User};`,
    ...each("TABLES", "SELECT, INSERT, UPDATE, DELETE"),
    ...each("SEQUENCES", "SELECT, UPDATE, USAGE"),
    ...each("FUNCTIONS", "EXECUTE"),
    "",
    "-- Give both a password (\\password in psql), or another way in by pg_hba.conf.",
    `-- Then make the store, and do the same after each upgrade of lease:`,
    `--   lease watchdog --once --store '${at(owner, "")}'`,
    "-- and use it:",
    `--   lease worker --store '${at(user, `owner=${owner}`)}'`,
    '-- A role that only adds jobs, by SELECT enqueue(\'{"argv": ["echo", "hi"]}\'), needs no more than:',
    `--   GRANT USAGE ON SCHEMA ${Schema} TO somebody;`,
    `--   GRANT EXECUTE ON FUNCTION ${Schema}.enqueue(jsonb) TO somebody;`,
  ].join("\n")}\n`;
}

/** Nothing, where it is there already. */
function createRole(name: string): string[] {
  const missing = `NOT EXISTS (SELECT FROM pg_roles WHERE rolname = ${literal(name)})`;
  return [`DO $$ BEGIN IF ${missing} THEN CREATE ROLE ${identifier(name)} LOGIN; END IF; END $$;`];
}

function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
