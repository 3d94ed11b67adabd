/** The rows of a PostgreSQL store, for `lease copy`. */

import type { Kind, NextIds, Transfer, TransferCell, TransferRow } from "../copy/transfer.ts";
import { KINDS, SHAPES, refusedRow } from "../copy/transfer.ts";
import { writeEnvs } from "./enqueue.ts";
import { isRefusedValue } from "./failure.ts";
import { NO_TEMPLATE, writeTemplate } from "./schedules.ts";
import type { Connection, Session } from "./session/session.ts";
import { foldDeltas } from "./history.ts";
import { talliesOf } from "./schema.ts";
import { SQL } from "./statements.ts";

const MARK = "copy";
const ONCE = { once: true };

const TYPES = { int: "bigint", real: "double precision", text: "text", bytes: "bytea" } as const;

/** Of a running attempt they are with the job. */
const WITH_JOB: ReadonlySet<string> = new Set(["beats", "extensions"]);
const withJob = (name: string) => `greatest(${name}, coalesce((SELECT jobs.${name} FROM lease.jobs
  WHERE jobs.id = attempts.job_id AND jobs.token = attempts.attempt AND jobs.expires_at_ms IS NOT NULL), 0)) AS ${name}`;

function selectSql(kind: Kind, behind: boolean): string {
  const { names, types, key } = SHAPES[kind];
  const columns = names.map((name) => (kind === "attempts" && WITH_JOB.has(name) ? withJob(name) : name));
  // Texts are ordered by their bytes, as in every engine.
  const keys = names.slice(0, key).map((name, index) => (types[index] === "text" ? `${name} COLLATE "C"` : name));
  const params = types.slice(0, key).map((type, index) => `$${index + 1}::${TYPES[type]}`);
  const where = behind ? `WHERE (${keys.join(", ")}) > (${params.join(", ")})` : "";
  const limit = behind ? key + 1 : 1;
  return `SELECT ${columns.join(", ")} FROM lease.${kind} ${where} ORDER BY ${keys.join(", ")} LIMIT $${limit}`;
}

function insertSql(kind: Kind): string {
  const { names, types } = SHAPES[kind];
  const lists = types.map((type, index) => `$${index + 1}::${TYPES[type]}[]`);
  const given = kind === "jobs" || kind === "checkpoints" ? "OVERRIDING SYSTEM VALUE" : "";
  const rows = `unnest(${lists.join(", ")})`;
  if (kind !== "jobs") return `INSERT INTO lease.${kind} (${names.join(", ")}) ${given} SELECT * FROM ${rows}`;
  // Counted here, once for all of them: see schema.ts.
  return `WITH added AS (INSERT INTO lease.jobs (${names.join(", ")}, counted) ${given} SELECT *, 1 FROM ${rows}
      RETURNING queue, state, token, finished_at_ms)
    INSERT INTO lease.deltas (kind, queue, state, retries, count)
      SELECT 'tally', queue, state, retries, count FROM (${talliesOf("added")}) AS kept`;
}

const NEXT = (table: string) =>
  `(SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END FROM lease.${table}_id_seq) AS ${table}`;
const SET_NEXT = (table: string) =>
  `SELECT setval(pg_get_serial_sequence('lease.${table}', 'id'), greatest($1::bigint, (
    SELECT coalesce(max(id), 0) + 1 FROM lease.${table})), FALSE)`;
const FLAGS = [
  "UPDATE lease.jobs SET has_input = TRUE WHERE id IN (SELECT job_id FROM lease.inputs)",
  "UPDATE lease.jobs SET awaited = TRUE WHERE id IN (SELECT parent_id FROM lease.dependencies)",
];

/** What the rows themselves are counted in, see schema.ts. */
const COUNTED = ["tallies", "deltas"];

/**
 * A lost answer can't be told from a lost request here; whoever copies begins again. What has variables in it is written
 * apart: they never go as parameters.
 */
async function insertRows(session: Session, kind: Kind, rows: readonly TransferRow[]): Promise<void> {
  const { names } = SHAPES[kind];
  const apart = APART[kind];
  const at = apart === undefined ? -1 : names.indexOf(apart.name);
  const columns = names.map((_, index) => rows.map((row) => (index === at ? (apart?.meanwhile ?? null) : row[index])));
  const insert = (db: Connection) => db.query(insertSql(kind), columns);
  if (apart === undefined) return void (await session.run(insert, ONCE));
  await session.transaction(async (db) => {
    await insert(db);
    await apart.write(
      db,
      rows.map((row) => [row[0] as number | string, row[at] as string | null]),
    );
  }, ONCE);
}

interface Apart {
  name: string;
  /** What stands there until then. */
  meanwhile: string | null;
  write: (db: Connection, texts: (readonly [key: number | string, text: string | null])[]) => Promise<void>;
}

const APART: Partial<Record<Kind, Apart>> = {
  jobs: { name: "env", meanwhile: null, write: (db, envs) => writeEnvs(db, envs as [number, string | null][]) },
  schedules: {
    name: "job",
    meanwhile: NO_TEMPLATE,
    async write(db, templates) {
      for (const [name, text] of templates) await writeTemplate(db, String(name), String(text));
    },
  },
};

export function postgresTransfer(session: Session): Transfer {
  const sql = (text: string, params: readonly TransferCell[] = []) => session.run((db) => db.query(text, params));
  const insert = (kind: Kind, rows: readonly TransferRow[]) => insertRows(session, kind, rows);
  return {
    async read(kind, behind, limit) {
      // Rows that are still to be added up are no rows of it yet.
      if (kind === "history" && behind === null) await session.transaction(foldDeltas);
      const { names, key } = SHAPES[kind];
      const rows = await sql(selectSql(kind, behind !== null), [...(behind?.slice(0, key) ?? []), limit]);
      return rows.map((row) => names.map((name) => row[name] as TransferCell));
    },
    async write(kind, rows) {
      try {
        await insert(kind, rows);
      } catch (error) {
        if (!isRefusedValue(error)) throw error;
        // Which of them it was is found by trying them one by one.
        for (const row of rows) {
          await insert(kind, [row]).catch((reason: unknown) => {
            throw isRefusedValue(reason) ? refusedRow(kind, row, session.location, (reason as Error).cause) : reason;
          });
        }
        throw error;
      }
    },
    // Not by TRUNCATE, for which a role that may write everything needs one more right.
    clear: () =>
      session.transaction(async (db) => {
        for (const kind of [...KINDS, ...COUNTED]) await db.query(`DELETE FROM lease.${kind}`);
      }),
    async nextIds() {
      const [row] = await sql(`SELECT ${NEXT("jobs")}, ${NEXT("checkpoints")}`);
      return row as unknown as NextIds;
    },
    finish: (next) =>
      session.transaction(async (db) => {
        for (const [table, id] of Object.entries(next)) await db.query(SET_NEXT(table), [id]);
        for (const text of FLAGS) await db.query(text);
      }),
    async mark() {
      const [row] = await sql(SQL.getMeta, [MARK]);
      return (row?.["value"] ?? null) as string | null;
    },
    async setMark(from) {
      if (from === null) await sql("DELETE FROM lease.meta WHERE name = $1", [MARK]);
      else await sql(SQL.setMeta, [MARK, from]);
    },
  };
}
