/** The rows of a PostgreSQL store, for `lease copy`. */

import type { Kind, NextIds, Transfer, TransferCell, TransferRow } from "../copy/transfer.ts";
import { KINDS, SHAPES, refusedRow } from "../copy/transfer.ts";
import { isRefusedValue } from "./failure.ts";
import { toList } from "./session/arrays.ts";
import type { Session } from "./session/session.ts";
import { SQL } from "./statements.ts";

const MARK = "copy";

const TYPES = { int: "bigint", real: "double precision", text: "text", bytes: "bytea" } as const;

/** The beats of a running attempt are with the job. */
const RUNNING_BEATS = `greatest(beats, coalesce((SELECT jobs.beats FROM lease.jobs
  WHERE jobs.id = attempts.job_id AND jobs.token = attempts.attempt AND jobs.expires_at_ms IS NOT NULL), 0)) AS beats`;

/** Texts are ordered by their bytes, as in every engine. */
function ordered(kind: Kind): string[] {
  const { columns, key } = SHAPES[kind];
  const keys = Object.entries(columns).slice(0, key);
  return keys.map(([name, type]) => (type === "text" ? `${name} COLLATE "C"` : name));
}

function selectSql(kind: Kind, behind: boolean): string {
  const { columns, key } = SHAPES[kind];
  const names = Object.keys(columns).map((name) => (kind === "attempts" && name === "beats" ? RUNNING_BEATS : name));
  const keys = ordered(kind);
  const params = Object.values(columns)
    .slice(0, key)
    .map((type, index) => `$${index + 1}::${TYPES[type]}`);
  const where = behind ? `WHERE (${keys.join(", ")}) > (${params.join(", ")})` : "";
  const limit = behind ? key + 1 : 1;
  return `SELECT ${names.join(", ")} FROM lease.${kind} ${where} ORDER BY ${keys.join(", ")} LIMIT $${limit}`;
}

function insertSql(kind: Kind): string {
  const { columns } = SHAPES[kind];
  const lists = Object.values(columns).map((type, index) => `$${index + 1}::${TYPES[type]}[]`);
  const given = kind === "jobs" || kind === "checkpoints" ? "OVERRIDING SYSTEM VALUE" : "";
  return `INSERT INTO lease.${kind} (${Object.keys(columns).join(", ")}) ${given} SELECT * FROM unnest(${lists.join(", ")})`;
}

function listsOf(kind: Kind, rows: readonly TransferRow[]): string[] {
  return Object.keys(SHAPES[kind].columns).map((_, index) => toList(rows.map((row) => row[index])));
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

export class PostgresTransfer implements Transfer {
  readonly #session: Session;

  constructor(session: Session) {
    this.#session = session;
  }

  async read(kind: Kind, behind: TransferRow | null, limit: number): Promise<TransferRow[]> {
    const names = Object.keys(SHAPES[kind].columns);
    const key = behind?.slice(0, SHAPES[kind].key) ?? [];
    const rows = await this.#sql(selectSql(kind, behind !== null), [...key, limit]);
    return rows.map((row) => names.map((name) => row[name] as TransferCell));
  }

  async write(kind: Kind, rows: readonly TransferRow[]): Promise<void> {
    // A lost answer can't be told from a lost request here; whoever copies begins again.
    const insert = (some: readonly TransferRow[]) =>
      this.#session.run((db) => db.query(insertSql(kind), listsOf(kind, some)), { once: true });
    try {
      await insert(rows);
    } catch (error) {
      if (!isRefusedValue(error)) throw error;
      // Which of them it was is found by trying them one by one.
      for (const row of rows) {
        await insert([row]).catch((reason: unknown) => {
          throw isRefusedValue(reason)
            ? refusedRow(kind, row, this.#session.location, (reason as Error).cause)
            : reason;
        });
      }
      throw error;
    }
  }

  async clear(): Promise<void> {
    await this.#sql(`TRUNCATE ${KINDS.map((kind) => `lease.${kind}`).join(", ")}`, []);
  }

  async nextIds(): Promise<NextIds> {
    const [row] = await this.#sql(`SELECT ${NEXT("jobs")}, ${NEXT("checkpoints")}`, []);
    return row as unknown as NextIds;
  }

  async finish(next: NextIds): Promise<void> {
    await this.#session.transaction(async (db) => {
      for (const [table, id] of Object.entries(next)) await db.query(SET_NEXT(table), [id]);
      for (const text of FLAGS) await db.query(text);
    });
  }

  async mark(): Promise<string | null> {
    const [row] = await this.#sql(SQL.getMeta, [MARK]);
    return (row?.["value"] ?? null) as string | null;
  }

  async setMark(from: string | null): Promise<void> {
    if (from === null) await this.#sql("DELETE FROM lease.meta WHERE name = $1", [MARK]);
    else await this.#sql(SQL.setMeta, [MARK, from]);
  }

  #sql(text: string, params: readonly TransferCell[]) {
    return this.#session.run((db) => db.query(text, params));
  }
}
