/** A job's settings as a person reads them, only where they differ from what everybody gets. */

import { DEFAULT_SETTINGS, type JobSettings } from "../core/job.ts";
import { JOB_FIELD_NAMES, jobField } from "../core/job_fields.ts";

export function changedSettings(settings: JobSettings): string[] {
  return JOB_FIELD_NAMES.flatMap((field) => {
    const { setting } = jobField(field);
    if (setting === undefined || same(settings[setting.name], DEFAULT_SETTINGS[setting.name])) return [];
    return [setting.wording(settings)];
  });
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
