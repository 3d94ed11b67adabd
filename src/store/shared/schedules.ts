/** Schedules as they are stored, the same for every engine. */

import * as v from "valibot";
import type { StateName } from "../../core/job.ts";
import { draftJob } from "../../core/draft.ts";
import { once } from "../../core/once.ts";
import { CATCH_UPS, OVERLAPS, readTemplate, type Schedule } from "../../core/schedule.ts";
import type { SqlRow } from "../../platform/platform.ts";
import { resourcesSchema } from "./bounds.ts";
import {
  RowTable,
  given,
  int,
  intOrNull,
  numberIn,
  orNull,
  parsed,
  string,
  stringOrNull,
  time,
  timeOrNull,
  variables,
  wordOf,
} from "./cells.ts";
import { LONGEST_LEASE_MS } from "./columns.ts";
import { DAMAGED } from "./rows.ts";
import { SETTINGS } from "./settings.ts";

const span = numberIn(0, LONGEST_LEASE_MS);
const ids = once(() => v.array(int.schema()));
const texts = once(() => v.array(v.string()));
const textOrNull = once(() => v.nullable(v.string()));

/** What its jobs are made from, as far as a job would be refused that is otherwise; the rest is for enqueue to check. */
const TEMPLATE = once(() =>
  v.looseObject({
    argv: v.array(given()),
    queue: v.string(),
    task: textOrNull(),
    key: textOrNull(),
    priority: int.schema(),
    input: v.nullable(v.pipe(v.string(), v.base64())),
    cwd: given(),
    env: variables(),
    settings: v.looseObject({
      ...SETTINGS().entries,
      retries: span.schema(),
      lease_ms: v.nullable(v.union([span.schema(), v.literal("auto")])),
    }),
    limits: v.optional(texts()),
    needs: v.optional(resourcesSchema()),
    if_exists: v.picklist(["skip", "fail", "replace"]),
    run_at_ms: timeOrNull.schema(),
    delay_ms: span.schema(),
    after: ids(),
    after_any: ids(),
    after_failed: ids(),
    after_task: texts(),
  }),
);

const SCHEDULE = new RowTable({
  name: string,
  cron: stringOrNull,
  every_ms: orNull(numberIn(1_000, LONGEST_LEASE_MS)),
  zone: stringOrNull,
  overlap: wordOf(OVERLAPS, "skip"),
  catch_up: wordOf(CATCH_UPS, "one"),
  jitter_ms: span,
  job: parsed<unknown>(TEMPLATE, null),
  set_at_ms: time,
  paused: int,
  next_at_ms: timeOrNull,
  last_at_ms: timeOrNull,
  last_job: intOrNull,
  last_state: stringOrNull,
});

/** One that can't be read is never fired: it is paused, and says instead of its times what is wrong. */
export function toSchedule(row: SqlRow): Schedule {
  const { values, damage } = SCHEDULE.read(row);
  const { paused, job: _job, ...rest } = values;
  const draft = draftJob("/");
  if (damage === null) {
    const template = readTemplate(String(row["job"]));
    const settings = { ...draft.settings, ...template.settings };
    return { ...rest, paused: paused !== 0, job: { ...draft, ...template, settings } };
  }
  return { ...rest, cron: DAMAGED + damage, every_ms: null, paused: true, job: draft, damaged: damage };
}

const LIVE: ReadonlySet<StateName | null> = new Set(["blocked", "scheduled", "pending", "running"]);

export function isOver(state: StateName | null): boolean {
  return !LIVE.has(state);
}

export function replacedReason(name: string): string {
  return `replaced by the next job of schedule ${name}`;
}
