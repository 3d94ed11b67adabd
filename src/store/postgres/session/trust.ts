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
  /** It belongs to us, or to a role of ours. */
  mine: boolean;
  synchronous_commit: string;
  /** The first that is not to be trusted. */
  stranger: { part: string; why: string; fix: string } | null;
}

interface Part {
  kind: "connection" | "schema" | "table" | "function";
  name: string;
  owner: string;
  /** `{owner=arwd/owner,=r/owner}`: PUBLIC has no name. */
  rights: string | null;
}

/** Without parameters, which would cost a round trip more, and by indexes: every command begins with it. */
function look({ schema }: Target, { tables, functions }: Names): string {
  const list = (names: readonly string[]) =>
    `(VALUES ${names.map((name) => `(${literal(name)}::name)`).join(", ")}) AS ours (name)`;
  const space = `(SELECT oid FROM pg_namespace WHERE nspname = ${literal(schema)})`;
  return `SELECT 'connection' AS kind, current_setting('synchronous_commit') AS name, current_user::text AS owner, NULL AS rights
    UNION ALL SELECT 'schema', nspname, pg_get_userbyid(nspowner), nspacl::text FROM pg_namespace WHERE nspname = ${literal(schema)}
    UNION ALL SELECT 'table', relname, pg_get_userbyid(relowner), concat_ws(',', relacl::text, (
        SELECT string_agg(attacl::text, ',') FROM pg_attribute WHERE attrelid = pg_class.oid AND attacl IS NOT NULL))
      FROM ${list(tables)} JOIN pg_class ON relname = ours.name AND relnamespace = ${space}
    UNION ALL SELECT 'function', proname, pg_get_userbyid(proowner),
        CASE WHEN prosecdef THEN coalesce(proacl, acldefault('f', proowner))::text END
      FROM ${list(functions)} JOIN pg_proc ON proname = ours.name AND pronamespace = ${space}`;
}

/** What a store consists of. */
export interface Names {
  tables: readonly string[];
  functions: readonly string[];
}

/** By which PUBLIC could write. */
const WRITES = { connection: /$^/, schema: /C/, table: /[awdDt]/, function: /X/ };

function publicMayWrite({ kind, rights }: Part): boolean {
  const given = rights?.matchAll(/(?:^|[{,])"?=([a-zA-Z*]*)\//g) ?? [];
  return [...given].some(([, letters = ""]) => WRITES[kind].test(letters));
}

/** Beside ourselves; whoever owns the database has a role of which nobody is a member by name. */
const ROLES = `WITH RECURSIVE ours (oid) AS (
    SELECT current_user::regrole::oid
    UNION SELECT roleid FROM pg_auth_members JOIN ours ON member = ours.oid
  ) SELECT pg_get_userbyid(oid) AS name FROM ours
  UNION ALL SELECT 'pg_database_owner' FROM pg_database
    WHERE datname = current_database() AND datdba IN (SELECT oid FROM ours)`;

export async function lookAround(db: Connection, target: Target, names: Names): Promise<Place> {
  const [connection, ...parts] = await db.query<Part>(look(target, names));
  const ours = new Set([connection?.owner]);
  if (parts.some(({ owner }) => !ours.has(owner))) {
    for (const { name } of await db.query<{ name: string }>(ROLES)) ours.add(name);
  }
  const schema = parts.find(({ kind }) => kind === "schema");
  const trusted = new Set([...ours, target.owner]);
  const stranger = parts.find((part) => publicMayWrite(part) || !trusted.has(part.owner));
  return {
    found: schema !== undefined,
    mine: ours.has(schema?.owner),
    synchronous_commit: connection?.name ?? "",
    stranger: stranger === undefined ? null : aboutStranger(stranger),
  };
}

function aboutStranger(part: Part): NonNullable<Place["stranger"]> {
  const { kind, name, owner } = part;
  const named = `${kind} ${name}`;
  if (publicMayWrite(part)) {
    const why = kind === "function" ? "can be called by PUBLIC" : "can be written by PUBLIC";
    return { part: named, why, fix: "revoke that" };
  }
  const fix = `name it in the URL if it is to be trusted (owner=${encodeURIComponent(owner)})`;
  return { part: named, why: `belongs to role ${owner}`, fix };
}

export function refuseUntrusted({ stranger }: Place, { location }: Target): void {
  if (stranger === null) return;
  const { part, why, fix } = stranger;
  const message = `${part} of store ${location} ${why}, and a store decides what gets executed: ${fix}, or pass --trust-store`;
  throw new LeaseError("store_untrusted", message);
}

/** As SQL has it. */
export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
