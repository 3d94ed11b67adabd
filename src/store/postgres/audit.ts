/** What a PostgreSQL store's history shows against the promises: see shared/audit.ts. */

import type { Audited } from "../queries.ts";
import { findBreaches } from "../shared/audit.ts";
import type { JobPromise } from "../shared/promises.ts";
import type { Session } from "./session/session.ts";

/** What only this engine writes down twice: with the job, and as a row that stands for it. */
const MARKS: readonly JobPromise[] = [
  {
    name: "inputs",
    promise: "what a job was given to read is there",
    find: `SELECT jobs.id AS job, jobs.has_input FROM lease.jobs AS jobs
      LEFT JOIN lease.inputs AS input ON input.job_id = jobs.id
      WHERE jobs.id BETWEEN $1 AND $2 AND jobs.has_input <> (input.job_id IS NOT NULL)`,
    says: ({ has_input }) => (has_input ? "its input is gone" : "it has an input, and will not be given it"),
  },
  {
    name: "awaited",
    promise: "a job knows that others wait for it",
    find: `SELECT jobs.id AS job, min(d.job_id) AS child FROM lease.jobs AS jobs
      JOIN lease.dependencies AS d ON d.parent_id = jobs.id
      WHERE jobs.id BETWEEN $1 AND $2 AND NOT jobs.awaited GROUP BY jobs.id`,
    says: ({ child }) => `job ${String(child)} waits for it, and its end will not be told`,
  },
];

export function auditHistory(session: Session): Promise<Audited[]> {
  return findBreaches((sql, params = []) => session.run((db) => db.query(sql, params)), MARKS);
}
