/**
 * What differs between Bun and Deno, and nothing else. Code imports `#platform`; package.json picks the file by the
 * runtime's condition, so no code asks which runtime it is on.
 */

export type SqlValue = string | number | null | Uint8Array;
export type SqlRow = Record<string, SqlValue>;

export interface SqlStatement {
  run(...params: SqlValue[]): { changes: number; last_id: number };
  get(...params: SqlValue[]): SqlRow | null;
  all(...params: SqlValue[]): SqlRow[];
}

/** A SQLite connection. Calls are synchronous and throw the engine's own errors. */
export interface SqlDatabase {
  exec(sql: string): void;
  prepare(sql: string): SqlStatement;
  close(): void;
}

export interface Platform {
  readonly runtime: string;
  openSqlite(path: string): SqlDatabase;
}
