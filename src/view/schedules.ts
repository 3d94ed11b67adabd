/** Schedules: when they come next, and what became of the last time. */

import { formatDuration } from "../core/duration.ts";
import type { StateName } from "../core/job.ts";
import type { Schedule } from "../core/schedule.ts";
import { askedOf, shownFacts } from "./job.ts";
import { paintState, type Screen } from "./style.ts";
import { renderList, renderPairs, type Column } from "./table.ts";
import { commandText, visible } from "./text.ts";
import { readable, relative, rfc3339 } from "./time.ts";

function whenText({ cron, every_ms, zone }: Pick<Schedule, "cron" | "every_ms" | "zone">): string {
  return every_ms === null ? `${cron} ${zone ?? "UTC"}` : `every ${formatDuration(every_ms)}`;
}

export function schedulesText(schedules: readonly Schedule[], screen: Screen): string {
  const { paint, now_ms } = screen;
  const next = ({ paused, next_at_ms }: Schedule) => {
    if (paused) return { text: "paused", style: paint.yellow };
    return next_at_ms === null ? "never again" : relative(next_at_ms, now_ms);
  };
  const last = ({ last_at_ms }: Schedule) => (last_at_ms === null ? null : relative(last_at_ms, now_ms));
  const result = ({ last_job, last_state }: Schedule) => {
    if (last_job === null) return null;
    const state = last_state ?? "deleted";
    return { text: `${state} (${last_job})`, style: paintState(paint, state as StateName) };
  };
  const columns: Column<Schedule>[] = [
    { title: "SCHEDULE", cell: ({ name }) => name, shrink_to: 10 },
    { title: "WHEN", cell: whenText, shrink_to: 10 },
    { title: "NEXT", cell: next },
    { title: "LAST", cell: last },
    { title: "RESULT", cell: result },
    { title: "COMMAND", cell: ({ job }) => commandText(job), shrink_to: 10 },
  ];
  return renderList(
    columns,
    schedules,
    screen,
    "no schedules yet; set one with: lease schedule NAME --every 1h -- COMMAND",
  );
}

/** All about one; `ahead` are its next times. */
export function scheduleText(schedule: Schedule, ahead: readonly number[], screen: Screen): string {
  const { name, overlap, catch_up, jitter_ms, last_at_ms, last_job, last_state, paused, job } = schedule;
  const at = (ms: number) => `${readable(ms)} (${relative(ms, screen.now_ms)})`;
  const delay = job.delay_ms > 0 ? `, then a delay of ${formatDuration(job.delay_ms)}` : "";
  const rows: [string, string][] = [
    ["when", whenText(schedule) + (jitter_ms > 0 ? `, up to ${formatDuration(jitter_ms)} later` : "") + delay],
    ["command", commandText(job)],
    ...shownFacts(askedOf(job, false)),
    ["overlap", overlap],
    ["catch-up", catch_up],
    ...ahead.map((ms, index): [string, string] => [index === 0 ? "next" : "", at(ms)]),
  ];
  if (last_at_ms !== null) rows.push(["last", at(last_at_ms)]);
  if (last_job !== null) rows.push(["its job", `${last_job} (${last_state ?? "deleted"})`]);
  const head = `${screen.paint.bold(`Schedule ${visible(name)}`)}${paused ? `  ${screen.paint.yellow("paused")}` : ""}`;
  return `${head}\n${renderPairs(rows, screen)}\n`;
}

export function scheduleJson(schedule: Schedule, ahead: readonly number[]) {
  const { name, cron, every_ms, zone, overlap, catch_up, jitter_ms, paused, last_job, last_state, job } = schedule;
  const time = (ms: number | null) => (ms === null ? null : rfc3339(ms));
  return {
    name,
    cron,
    every: every_ms === null ? null : formatDuration(every_ms),
    tz: zone,
    overlap,
    catch_up,
    jitter: jitter_ms === 0 ? null : formatDuration(jitter_ms),
    paused,
    next_at: time(schedule.next_at_ms),
    next: ahead.map(rfc3339),
    last_at: time(schedule.last_at_ms),
    last_job,
    last_state,
    queue: job.queue,
    task: job.task,
    key: job.key,
    priority: job.priority,
    argv: job.argv,
  };
}
