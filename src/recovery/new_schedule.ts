/** A schedule as it is asked for: what says when, put together and checked. */

import { PARENT_FIELDS } from "../core/changes.ts";
import { LeaseError } from "../core/errors.ts";
import type { NewJob } from "../core/job.ts";
import type { ScheduleSettings } from "../core/schedule.ts";

const SHORTEST_EVERY_MS = 1_000;

export interface ScheduleTimes extends Partial<Pick<ScheduleSettings, "overlap" | "catch_up">> {
  cron: string | undefined;
  every: number | undefined;
  tz: string | undefined;
  jitter: number | undefined;
}

/** What of it makes sense for one job only. */
function onceOnly(job: NewJob): string | undefined {
  if (job.run_at_ms !== null) return "at";
  return PARENT_FIELDS.find((name) => job[name].length > 0);
}

/** `spell` is how an error calls one of them. */
export function newSchedule(
  name: string,
  times: { [K in keyof ScheduleTimes]?: ScheduleTimes[K] | undefined },
  job: NewJob,
  spell: (option: string) => string,
): ScheduleSettings {
  const { cron, every, tz, jitter = 0, overlap = "skip", catch_up = "one" } = times;
  if (cron !== undefined && every !== undefined)
    throw new LeaseError("usage", `${spell("cron")} and ${spell("every")} both say when: give one of them`);
  if (every !== undefined && every < SHORTEST_EVERY_MS)
    throw new LeaseError("usage", `${spell("every")} is shorter than a second: give a longer one`);
  if (tz !== undefined && cron === undefined)
    throw new LeaseError("usage", `${spell("tz")} is the zone of ${spell("cron")}: give that as well`);
  const once = onceOnly(job);
  if (once !== undefined) throw new LeaseError("usage", `${spell(once)} is for one job, and a schedule makes many`);
  if (job.if_exists !== "skip")
    throw new LeaseError("usage", `${spell("if_exists")} is for one job: say it with ${spell("overlap")}`);
  // The one before, which is being stopped, would answer for it, and this time would be nobody's.
  if (overlap === "replace" && job.key !== null) {
    const instead = `leave it out with ${spell("overlap")} replace`;
    throw new LeaseError("usage", `${spell("key")} keeps its place until the one before has ended: ${instead}`);
  }
  const zone = cron === undefined ? null : (tz ?? Intl.DateTimeFormat().resolvedOptions().timeZone);
  const when = { cron: cron ?? null, every_ms: every ?? null, zone };
  return { name, ...when, overlap, catch_up, jitter_ms: jitter, job };
}
