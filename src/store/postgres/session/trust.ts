/**
 * Whom the schema of a store belongs to. A store decides what gets executed, so everything in its schema must belong to
 * the role that asks, to a role that it is a member of, or to the one that `owner=` in the URL names, and PUBLIC may
 * write none of it. A superuser counts as a member of nothing but what it was made a member of.
 */

import { LeaseError } from "../../../core/errors.ts";
import type { Connection } from "./session.ts";
import type { Target } from "./url.ts";

/** What is true of the place before anything is known about the store in it. */
export interface Place {
  /** The schema is there. */
  found: boolean;
  /** Has tables in it. */
  used: boolean;
  synchronous_commit: string;
  /** Something in it that is not to be trusted; null: there is none. */
  part: string | null;
  owner: string | null;
  /** PUBLIC may write it. */
  open: boolean | null;
}

const PUBLIC_MAY = (acl: string, ...rights: string[]) =>
  `EXISTS (SELECT FROM aclexplode(${acl}) WHERE grantee = 0 AND privilege_type IN (${rights.map(literal).join(", ")}))`;

const WRITES = ["INSERT", "UPDATE", "DELETE", "TRUNCATE", "TRIGGER"];

/** The role of whoever owns the database, of which nobody is a member by name. */
const DATABASE_OWNER = "'pg_database_owner'::regrole";

/** Without parameters, which would cost a round trip more. */
const look = ({ schema, owner }: Target) => `WITH RECURSIVE ours (oid) AS (
    SELECT oid FROM pg_roles WHERE rolname = current_user
    UNION SELECT roleid FROM pg_auth_members JOIN ours ON member = ours.oid
  ), trusted (oid) AS (
    SELECT oid FROM ours
    UNION ALL SELECT oid FROM pg_roles WHERE rolname = ${literal(owner ?? "")}
    UNION ALL SELECT ${DATABASE_OWNER} FROM pg_database WHERE datname = current_database() AND datdba IN (SELECT oid FROM ours)
  ), space AS MATERIALIZED (SELECT oid, nspowner, nspacl FROM pg_namespace WHERE nspname = ${literal(schema)}
  ), parts (rank, part, owner, open) AS (
    SELECT 1, 'schema ' || ${literal(schema)}, nspowner, ${PUBLIC_MAY("nspacl", "CREATE")} FROM space
    UNION ALL SELECT 2, 'table ' || relname, relowner, ${PUBLIC_MAY("relacl", ...WRITES)} OR EXISTS (
        SELECT FROM pg_attribute WHERE attrelid = pg_class.oid AND ${PUBLIC_MAY("attacl", ...WRITES)})
      FROM pg_class, space WHERE relnamespace = space.oid AND relkind IN ('r', 'p', 'v', 'm', 'f')
    UNION ALL SELECT 3, 'function ' || proname, proowner,
        prosecdef AND ${PUBLIC_MAY("coalesce(proacl, acldefault('f', proowner))", "EXECUTE")}
      FROM pg_proc, space WHERE pronamespace = space.oid
  ), worst AS (
    SELECT part, owner, open FROM parts WHERE open OR owner NOT IN (SELECT oid FROM trusted) ORDER BY rank, part LIMIT 1
  ) SELECT current_setting('synchronous_commit') AS synchronous_commit, EXISTS (SELECT FROM space) AS found,
      EXISTS (SELECT FROM parts WHERE rank = 2) AS used, part, pg_get_userbyid(owner) AS owner, open
    FROM (SELECT) AS once LEFT JOIN worst ON TRUE`;

export async function lookAround(db: Connection, target: Target): Promise<Place> {
  const [place] = await db.query<Place>(look(target));
  return place as Place;
}

export function refuseUntrusted({ part, owner, open }: Place, { location }: Target): void {
  if (part === null) return;
  const why = open === true ? "can be written by PUBLIC" : `belongs to role ${owner}`;
  const fix = open === true ? "revoke that" : `name it in the URL if it is to be trusted (owner=${owner})`;
  const message = `${part} of store ${location} ${why}, and a store decides what gets executed: ${fix}, or pass --trust-store`;
  throw new LeaseError("store_untrusted", message);
}

/** As SQL has it. */
export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
