/** What a SQLite store's history shows against the promises: see shared/audit.ts. */

import type { Audited } from "../queries.ts";
import { findBreaches } from "../shared/audit.ts";
import { explain } from "./failure.ts";
import type { Database } from "./open.ts";

const inThisEngine = (sql: string) => sql.replaceAll("lease.", "").replaceAll("$", "?");

export async function auditHistory(db: Database, location: string): Promise<Audited[]> {
  try {
    return await findBreaches(async (sql, params = []) => db.sql(inThisEngine(sql)).all(...params));
  } catch (error) {
    throw explain(error, location);
  }
}
