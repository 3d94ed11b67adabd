/**
 * What an acquire writes down of each grant, and what it answers about the job, in few columns: to write, to send and to
 * read one takes as long as many of the steps that grant a job. What all have in common is left out, and what is rarely
 * said stands together as JSON.
 */

import { DEFAULT_SETTINGS } from "../../../core/job.ts";
import type { SqlRow, SqlValue } from "../../../platform/platform.ts";
import { SHAPES } from "../../copy/transfer.ts";
import { withNul } from "./cells.ts";

/** Of every grant; so are its holder and its first beat. */
const FRESH = {
  state: "running",
  cancel_requested_at_ms: null,
  finished_at_ms: null,
  progress: null,
  message: null,
  reason: null,
  cancel_grace_ms: null,
  cancel_told_at_ms: null,
};

const OFTEN = ["id", "queue", "task", "argv", "cwd", "run_at_ms", "created_at_ms", "started_at_ms", "expires_at_ms"];
const NO_COMMAND = "[]";

const left_out = new Set(["holder", "last_beat_at_ms", ...OFTEN, ...Object.keys(FRESH)]);
const RARE = SHAPES.jobs.names.filter((column) => !left_out.has(column));

/** Where nothing is said of them. */
const USUAL: Readonly<SqlRow> = {
  ...Object.fromEntries(RARE.map((column) => [column, null])),
  priority: 0,
  token: 1,
  failures: 0,
  retries: DEFAULT_SETTINGS.retries,
  gate: "",
};

const isUsual = Object.entries(USUAL).map(([column, usual]) => {
  if (usual === null) return `granted.${column} IS NULL`;
  return `granted.${column} = ${typeof usual === "number" ? usual : "''"}`;
});

export const GRANT_COLUMNS = [
  ...OFTEN.map((column) => (column === "argv" ? `nullif(granted.argv, '${NO_COMMAND}') AS argv` : `granted.${column}`)),
  `CASE WHEN ${isUsual.join(" AND ")} THEN NULL
    ELSE json_build_object(${RARE.map((column) => `'${column}', granted.${column}`).join(", ")}) END AS more`,
].join(", ");

/** The attempts of what was granted. */
export const OPEN_ATTEMPTS = `INSERT INTO lease.attempts (job_id, attempt, worker, host, started_at_ms, lease_ms, request)
    SELECT id, token, $1, $2, started_at_ms, expires_at_ms - started_at_ms, $5::bigint FROM granted`;

/**
 * An acquire that takes it well when an attempt is there already that it grants only now, as may be in a damaged store. To
 * look for these takes longer, so that most find out by failing; not within a transaction, which would not survive it.
 */
export const reopening = (acquire: string): string =>
  acquire.replace(
    OPEN_ATTEMPTS,
    () => `${OPEN_ATTEMPTS}
    ON CONFLICT (job_id, attempt) DO UPDATE SET worker = excluded.worker, host = excluded.host, request = excluded.request,
      started_at_ms = excluded.started_at_ms, lease_ms = excluded.lease_ms, ended_at_ms = NULL, cause = NULL`,
  );

/** The jobs of an answer, as whole rows. */
export function grantedOf(rows: readonly SqlRow[], holder: string): SqlRow[] {
  const granted = rows.filter(({ id }) => id !== null);
  for (const row of granted) {
    row["argv"] ??= NO_COMMAND;
    Object.assign(row, FRESH, { holder, last_beat_at_ms: row["started_at_ms"] }, rareOf(row["more"]));
  }
  return granted;
}

function rareOf(more: unknown): Readonly<SqlRow> {
  if (more === null) return USUAL;
  const said: SqlRow = {};
  for (const [column, value] of Object.entries(more as SqlRow)) said[column] = asStored(value);
  return said;
}

const asStored = (value: SqlValue): SqlValue => (typeof value === "string" ? withNul(value) : value);
