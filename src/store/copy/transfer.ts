/**
 * What a store holds, as plain rows that another store takes as they are: for `lease copy`, from any engine to any.
 * Rows of a kind come in the order of their key, the same in every engine, so that two stores can be compared.
 */

import { CHECKPOINT_LIMIT_BYTES, NAME_LIMIT } from "../../core/check_job.ts";
import { LeaseError, errorText } from "../../core/errors.ts";
import { INPUT_LIMIT_BYTES } from "../../core/job.ts";

export const KINDS = [
  "jobs",
  "inputs",
  "attempts",
  "checkpoints",
  "logs",
  "dependencies",
  "freeing",
  "queues",
  "learned",
  "history",
  "totals",
  "limits",
  "starts",
  "schedules",
  "fired",
] as const;
export type Kind = (typeof KINDS)[number];

type CellType = "int" | "real" | "text" | "bytes";
export type TransferCell = string | number | null | Uint8Array;
/** In the order of the kind's columns. */
export type TransferRow = readonly TransferCell[];

interface Shape {
  /** Of the columns, in their order; the first `key` of them are the key. */
  names: readonly string[];
  types: readonly CellType[];
  key: number;
}

/** `name` is a text, `name:type` another. */
function shape(key: number, columns: string): Shape {
  const pairs = columns.split(/\s+/).map((column) => column.split(":"));
  return { key, names: pairs.map(([name = ""]) => name), types: pairs.map(([, type = "text"]) => type as CellType) };
}

export const SHAPES: Readonly<Record<Kind, Shape>> = {
  jobs: shape(
    1,
    `id:int state queue priority:int run_at_ms:int token:int failures:int retries:int lease_ms:int holder
    expires_at_ms:int cancel_requested_at_ms:int created_at_ms:int started_at_ms:int finished_at_ms:int
    last_beat_at_ms:int task key argv cwd settings env progress:real message cause exit_code:int error output reason
    cancel_grace_ms:int cancel_told_at_ms:int gate held`,
  ),
  inputs: shape(1, "job_id:int data:bytes"),
  attempts: shape(
    2,
    `job_id:int attempt:int worker host boot_id pid:int pid_started:int lease_ms:int started_at_ms:int ended_at_ms:int
    cause exit_code:int signal error last_line beats:int fence cpu_ms:int memory_bytes:int self_beats:int extensions:int
    extension_failures:int extension_refusals:int`,
  ),
  checkpoints: shape(1, "id:int job_id:int task kind token:int at_ms:int text"),
  logs: shape(3, "job_id:int attempt:int start:int bytes:int data:bytes"),
  dependencies: shape(2, "job_id:int parent_id:int kind"),
  freeing: shape(1, "parent_id:int behind_id:int"),
  queues: shape(1, "name paused_at_ms:int"),
  learned: shape(1, "subject runs:int gaps lease_ms:int"),
  history: shape(
    3,
    `span_ms:int at_ms:int queue completed:int failed:int cancelled:int retried:int recovered:int ended:int run_ms:int
    run_max_ms:int first_ended:int wait_ms:int wait_max_ms:int`,
  ),
  totals: shape(3, "queue name label count:int sum_ms:int"),
  limits: shape(1, "name most:int rate_count:int rate_ms:int"),
  starts: shape(4, "name at_ms:int job_id:int attempt:int"),
  schedules: shape(
    1,
    `name cron every_ms:int zone overlap catch_up jitter_ms:int job set_at_ms:int paused:int next_at_ms:int last_at_ms:int
    last_job:int`,
  ),
  fired: shape(2, "schedule at_ms:int job_id:int"),
};

/** For a row that a store does not take: whose it is, and what to do. Only a damaged one is refused. */
export function refusedRow(kind: Kind, row: TransferRow, location: string, error: unknown): LeaseError {
  const keys = SHAPES[kind].names.slice(0, SHAPES[kind].key);
  const key = keys.map((name, index) => `${name} ${String(row[index])}`).join(", ");
  const whose = kind === "jobs" ? `job ${String(row[0])}` : `a row of ${kind} (${key})`;
  const [why] = errorText(error).split("\n");
  const advice = "it is damaged: `lease cancel` the job if it has not ended, `lease prune` it, and copy again";
  const message = `${whose} can't be copied to ${location} (${why}): ${advice}`;
  return new LeaseError("store_failed", message, { cause: error });
}

const column = (kind: Kind, row: TransferRow, name: string) => row[SHAPES[kind].names.indexOf(name)] ?? null;

/**
 * What no enqueue would take, no copy takes either: a store from elsewhere may hold anything. A text of JSON has at most
 * six bytes for each that it stands for.
 */
const LIMITS: Partial<Record<Kind, readonly (readonly [name: string, limit_bytes: number])[]>> = {
  jobs: [
    ["queue", NAME_LIMIT * 4],
    ["task", NAME_LIMIT * 4],
    ["key", NAME_LIMIT * 4],
    ["argv", 6 * INPUT_LIMIT_BYTES],
    ["env", 6 * INPUT_LIMIT_BYTES],
    ["message", 4 * CHECKPOINT_LIMIT_BYTES],
  ],
  inputs: [["data", INPUT_LIMIT_BYTES]],
  checkpoints: [["text", 16 * CHECKPOINT_LIMIT_BYTES]],
};

export function refuseOverLimit(kind: Kind, rows: readonly TransferRow[], location: string): void {
  for (const [name, limit_bytes] of LIMITS[kind] ?? []) {
    for (const row of rows) {
      const cell = column(kind, row, name);
      const size = typeof cell === "string" || cell instanceof Uint8Array ? cell.length : 0;
      if (size > limit_bytes) throw refusedRow(kind, row, location, new Error(`its ${name} is too long`));
    }
  }
}

/** The ids that would be given out next: those of deleted jobs must not come back. */
export interface NextIds {
  jobs: number;
  checkpoints: number;
}

export interface Transfer {
  /** Up to `limit` rows behind a key, or from the first on. */
  read(kind: Kind, behind: TransferRow | null, limit: number): Promise<TransferRow[]>;
  write(kind: Kind, rows: readonly TransferRow[]): Promise<void>;
  /** Deletes all of every kind. */
  clear(): Promise<void>;
  nextIds(): Promise<NextIds>;
  /** After the last row: what the engine keeps beside them is made to fit. */
  finish(next: NextIds): Promise<void>;
  /** Where an unfinished copy into this store comes from; null: there is none. */
  mark(): Promise<string | null>;
  setMark(from: string | null): Promise<void>;
}
