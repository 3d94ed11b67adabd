/** New jobs as the columns of the statement that inserts them. */

import type { NewJob } from "../../core/job.ts";
import { envColumn, leaseColumn, settingsColumn } from "../shared/columns.ts";
import { boolean, Columns, number, text } from "./session/columns.ts";

export const NEW_JOBS = new Columns<NewJob>({
  argv: text((job) => JSON.stringify(job.argv)),
  queue: text((job) => job.queue),
  priority: number((job) => job.priority),
  run_at_ms: number((job) => job.run_at_ms),
  delay_ms: number((job) => job.delay_ms),
  retries: number((job) => job.settings.retries),
  lease_ms: number((job) => leaseColumn(job.settings)),
  task: text((job) => job.task),
  key: text((job) => job.key),
  cwd: text((job) => job.cwd),
  settings: text((job) => settingsColumn(job.settings)),
  env: text((job) => envColumn(job.env)),
  blocked: boolean((job) => job.after.length + job.after_any.length > 0),
  has_input: boolean((job) => job.input !== null),
});
