/** What a PostgreSQL store's history shows against the promises: see shared/audit.ts. */

import type { Audited } from "../queries.ts";
import { findBreaches } from "../shared/audit.ts";
import type { Session } from "./session/session.ts";

export function auditHistory(session: Session): Promise<Audited[]> {
  return findBreaches((sql, params = []) => session.run((db) => db.query(sql, params)));
}
