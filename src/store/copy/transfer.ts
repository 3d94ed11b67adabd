/**
 * What a store holds, as plain rows that another store takes as they are: for `lease copy`, from any engine to any.
 * Rows of a kind come in the order of their key, the same in every engine, so that two stores can be compared.
 */

import { LeaseError, errorText } from "../../core/errors.ts";

export const KINDS = [
  "jobs",
  "inputs",
  "attempts",
  "checkpoints",
  "logs",
  "dependencies",
  "queues",
  "learned",
] as const;
export type Kind = (typeof KINDS)[number];

type CellType = "int" | "real" | "text" | "bytes";
export type Cell = string | number | null | Uint8Array;
/** In the order of the kind's columns. */
export type Row = readonly Cell[];

export interface Shape {
  columns: Readonly<Record<string, CellType>>;
  /** The first columns of which are the key. */
  key: number;
}

export const SHAPES: Readonly<Record<Kind, Shape>> = {
  jobs: {
    key: 1,
    columns: {
      id: "int",
      state: "text",
      queue: "text",
      priority: "int",
      run_at_ms: "int",
      token: "int",
      failures: "int",
      retries: "int",
      lease_ms: "int",
      holder: "text",
      expires_at_ms: "int",
      cancel_requested_at_ms: "int",
      created_at_ms: "int",
      started_at_ms: "int",
      finished_at_ms: "int",
      last_beat_at_ms: "int",
      task: "text",
      key: "text",
      argv: "text",
      cwd: "text",
      settings: "text",
      env: "text",
      progress: "real",
      message: "text",
      cause: "text",
      exit_code: "int",
      error: "text",
      output: "text",
      reason: "text",
    },
  },
  inputs: { key: 1, columns: { job_id: "int", data: "bytes" } },
  attempts: {
    key: 2,
    columns: {
      job_id: "int",
      attempt: "int",
      worker: "text",
      host: "text",
      boot_id: "text",
      pid: "int",
      pid_started: "int",
      lease_ms: "int",
      started_at_ms: "int",
      ended_at_ms: "int",
      cause: "text",
      exit_code: "int",
      signal: "text",
      error: "text",
      last_line: "text",
      beats: "int",
    },
  },
  checkpoints: {
    key: 1,
    columns: { id: "int", job_id: "int", task: "text", kind: "text", token: "int", at_ms: "int", text: "text" },
  },
  logs: { key: 3, columns: { job_id: "int", attempt: "int", start: "int", bytes: "int", data: "bytes" } },
  dependencies: { key: 2, columns: { job_id: "int", parent_id: "int", kind: "text" } },
  queues: { key: 1, columns: { name: "text", paused_at_ms: "int" } },
  learned: { key: 1, columns: { subject: "text", runs: "int", gaps: "text", lease_ms: "int" } },
};

/** For a row that a store does not take: whose it is, and what to do. Only a damaged one is refused. */
export function refusedRow(kind: Kind, row: Row, location: string, error: unknown): LeaseError {
  const keys = Object.keys(SHAPES[kind].columns).slice(0, SHAPES[kind].key);
  const key = keys.map((name, index) => `${name} ${String(row[index])}`).join(", ");
  const whose = kind === "jobs" ? `job ${String(row[0])}` : `a row of ${kind} (${key})`;
  const [why] = errorText(error).split("\n");
  const advice = "it is damaged: `lease cancel` the job if it has not ended, `lease prune` it, and copy again";
  return new LeaseError("store_failed", `${whose} can't be copied to ${location} (${why}): ${advice}`, {
    cause: error,
  });
}

/** The ids that would be given out next: those of deleted jobs must not come back. */
export interface NextIds {
  jobs: number;
  checkpoints: number;
}

export interface Transfer {
  /** Up to `limit` rows behind a key, or from the first on. */
  read(kind: Kind, behind: Row | null, limit: number): Promise<Row[]>;
  write(kind: Kind, rows: readonly Row[]): Promise<void>;
  /** Deletes all of every kind. */
  clear(): Promise<void>;
  nextIds(): Promise<NextIds>;
  /** After the last row: what the engine keeps beside them is made to fit. */
  finish(next: NextIds): Promise<void>;
  /** Where an unfinished copy into this store comes from; null: there is none. */
  mark(): Promise<string | null>;
  setMark(from: string | null): Promise<void>;
}
