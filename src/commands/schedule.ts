/** `lease schedule`: a named plan that becomes a job at each of its times; alone it lists them. */

import { checkName, checkNewJob } from "../core/check_job.ts";
import { LeaseError } from "../core/errors.ts";
import { CATCH_UPS, jobAt, OVERLAPS, type Schedule } from "../core/schedule.ts";
import { DURATION, textValue } from "../core/values.ts";
import { systemRandom } from "../platform/clock.ts";
import { newSchedule } from "../recovery/new_schedule.ts";
import { firstTime, timesAhead, timesOf } from "../recovery/schedule_times.ts";
import type { Store } from "../store/store.ts";
import { command } from "../cli/command.ts";
import { flagName, JSON_FLAG, section, SHARED_FLAGS, valueFlag, type FlagDef, type FlagsDef } from "../cli/flags.ts";
import { screenOf, withStore } from "../cli/io.ts";
import { JOB_FLAGS, JOB_LISTS } from "../cli/job_flags.ts";
import { newJob } from "../cli/new_job.ts";
import { jsonLine } from "../view/json.ts";
import { scheduleJson, schedulesText, scheduleText } from "../view/schedules.ts";
import { visible } from "../view/text.ts";

const SHOWN_AHEAD = 5;

/** Understood, to be refused with a reason, and not offered. */
const hidden = <F extends FlagDef>(flag: F) => ({ ...flag, hidden: true });
const REFUSED_FLAGS = {
  at: hidden(JOB_FLAGS.at),
  after: hidden(JOB_FLAGS.after),
  after_any: hidden(JOB_FLAGS.after_any),
  after_failed: hidden(JOB_FLAGS.after_failed),
  after_task: hidden(JOB_FLAGS.after_task),
  if_exists: hidden(JOB_FLAGS.if_exists),
};

const ACTIONS = ["remove", "pause", "resume", "now"] as const;

const OWN_FLAGS = {
  ...section("When", {
    cron: valueFlag(textValue("'M H D M W'"), "At these times: minute, hour, day of the month, month, day of the week"),
    every: valueFlag(DURATION, "Every so often, from now on"),
    tz: valueFlag(textValue("ZONE"), "Time zone of --cron, such as Europe/Berlin", { fallback: "this machine's" }),
    jitter: valueFlag(DURATION, "Start up to so much later, by chance"),
    overlap: {
      type: "enum",
      options: OVERLAPS,
      description: "While the job before is not over: leave this one out, line it up, or take its place",
      fallback: "skip",
    },
    catch_up: {
      type: "enum",
      options: CATCH_UPS,
      description: "Times that were missed: none of them, the last one, or all (up to 100)",
      fallback: "one",
    },
  }),
  ...section("What to do with one that is there", {
    remove: { type: "boolean", description: "Make no more jobs; those that were made stay" },
    pause: { type: "boolean", description: "Make none for now" },
    resume: { type: "boolean", description: "Go on with the next time that comes" },
    now: { type: "boolean", description: "Make one job now, beside its times, and print its id" },
  }),
  json: JSON_FLAG,
} as const satisfies FlagsDef;

export default command({
  meta: { name: "schedule", description: "Make a job at each of these times" },
  args: { ...OWN_FLAGS, ...JOB_FLAGS, ...REFUSED_FLAGS },
  repeat: JOB_LISTS,
  // What a job gets that says nothing.
  settings_of: "enqueue",
  rest: "words",
  operands: "[NAME [-- COMMAND [ARG…]]]",
  operand_values: { completer: "schedules" },
  examples: [
    ["lease schedule nightly --cron '0 3 * * *' -- ./backup.sh", "every night at three, local time"],
    ["lease schedule poll --every 10m --jitter 30s -q net -- ./poll.sh", "with any flag of enqueue"],
    ["lease schedule", "all of them: next, last, and what became of that"],
    ["lease schedule nightly", "its next five times"],
    ["lease schedule nightly --pause", "and --resume, --now, --remove"],
  ],
  notes: [
    "Workers and watchdogs fire what is due, without a daemon: each time becomes exactly one job, however many look. " +
      "Setting a name again replaces it. A time that daylight saving skips comes when the clock has jumped, one that " +
      "comes twice is taken once. What is up to two minutes late is on time; --catch-up is about what was missed for longer.",
    "A job sees LEASE_SCHEDULE and LEASE_SCHEDULED_AT, the time that it was made for.",
  ],
  exit_codes: [
    ["0", "done"],
    ["1", "there is no such schedule"],
    ["125", "the store could not be used"],
  ],
  run: async ({ args, lists, rest, before_dashes, given, io }) => {
    const { name, words } = namedIn(rest, before_dashes);
    const action = oneAction(ACTIONS.filter((flag) => args[flag]));
    const says_when = args.cron !== undefined || args.every !== undefined;
    if (name !== undefined) checkName("schedule", name);
    else if (says_when || action !== null || words.length > 0)
      throw new LeaseError("usage", "which schedule? Name it first");
    if (name !== undefined && says_when) {
      if (action !== null) throw new LeaseError("usage", `--${action} is for one that is there: leave out the rest`);
      // Its jobs are no part of what was going on when it was set.
      const { TRACEPARENT: _context, ...env } = io.env;
      const asked = await newJob(args, lists, words, { ...io, env });
      const job = given.has("if_exists") ? asked : { ...asked, if_exists: "skip" as const };
      const settings = newSchedule(name, args, job, (option) => `--${flagName(option)}`);
      checkNewJob(job);
      await timesOf({ ...settings, set_at_ms: 0 });
      return withStore(args, io, { create: true }, async ({ store }) => {
        await store.setSchedule(settings, await firstTime(settings, await store.now()));
        return show(store, name, args.json, (text) => io.stdout(text), screenOf(args.color, io, await store.now()));
      });
    }
    if (words.length > 0) throw new LeaseError("usage", `when? ${WHEN}`);
    refuseUnheard([...given.keys()], action);
    return withStore(args, io, { create: false }, async ({ store }) => {
      const print = (text: string) => io.stdout(text);
      const screen = screenOf(args.color, io, await store.now());
      if (name !== undefined && action !== null) return act(store, name, action, print);
      if (name !== undefined) return show(store, name, args.json, print, screen);
      const all = await store.schedules();
      if (args.json) for (const one of all) print(jsonLine(scheduleJson(one, await aheadOf(one, screen.now_ms))));
      else print(schedulesText(all, screen));
      return 0;
    });
  },
});

type Action = (typeof ACTIONS)[number];

const WHEN = "Say it with --cron '0 3 * * *' or --every 10m";

/** What stands behind `--` is the command alone: the first word of that is no name. */
function namedIn(words: readonly string[], before_dashes: number | null) {
  const [name, extra] = before_dashes === null ? words : words.slice(0, before_dashes);
  if (before_dashes !== null && extra !== undefined)
    throw new LeaseError("usage", `schedule takes one name, and got ${extra} as well; the command goes behind --`);
  return name === undefined ? { name, words } : { name, words: words.slice(1) };
}

function oneAction([action, other]: readonly Action[]): Action | null {
  if (other === undefined) return action ?? null;
  throw new LeaseError("usage", `--${action} and --${other} can't both be: give one of them`);
}

/** Nothing that is said is passed over: without a time nothing is set, and an action takes nothing else. */
function refuseUnheard(given: readonly string[], action: Action | null): void {
  const heard = new Set<string>([...Object.keys(SHARED_FLAGS), "json", action ?? ""]);
  const key = given.find((name) => !heard.has(name));
  if (key === undefined) return;
  const flag = key === "shell" ? "-c" : `--${flagName(key)}`;
  if (action !== null) throw new LeaseError("usage", `${flag} does not go with --${action}: leave out one of them`);
  throw new LeaseError("usage", `${flag} needs a time as well: a schedule is set as a whole. ${WHEN}`);
}

async function find(store: Store, name: string): Promise<Schedule> {
  const found = (await store.schedules()).find((schedule) => schedule.name === name);
  if (found === undefined) throw new LeaseError("nothing_matched", `there is no schedule ${visible(name)}`);
  return found;
}

async function aheadOf(schedule: Schedule, now_ms: number): Promise<number[]> {
  if (schedule.paused || schedule.next_at_ms === null) return [];
  return timesAhead(await timesOf(schedule), Math.max(now_ms, schedule.next_at_ms - 1), SHOWN_AHEAD);
}

async function show(
  store: Store,
  name: string,
  json: boolean,
  print: (text: string) => void,
  screen: Parameters<typeof scheduleText>[2],
): Promise<number> {
  const schedule = await find(store, name);
  const ahead = await aheadOf(schedule, screen.now_ms);
  print(json ? jsonLine(scheduleJson(schedule, ahead)) : scheduleText(schedule, ahead, screen));
  return 0;
}

async function act(store: Store, name: string, action: Action, print: (text: string) => void) {
  const schedule = await find(store, name);
  const now_ms = await store.now();
  if (action === "remove") await store.dropSchedule(name);
  else if (action === "pause") await store.pauseSchedule(name, true, null);
  else if (action === "resume") await store.pauseSchedule(name, false, (await timesOf(schedule))(now_ms));
  else {
    const [queued] = await store.enqueue([jobAt(schedule, now_ms, systemRandom())]);
    print(`${queued?.id}\n`);
    return 0;
  }
  print(`${visible(name)} ${action}d\n`);
  return 0;
}
