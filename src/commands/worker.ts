/** `lease worker`: runs jobs until it is stopped, or until there is nothing left. */

import { statSync } from "node:fs";
import { calibrate, DEFAULT_KILL_GRACE_MS } from "../core/calibration.ts";
import { every } from "../core/clock.ts";
import { formatDuration } from "../core/duration.ts";
import { LeaseError } from "../core/errors.ts";
import { UNLEARNED_LEASE_MS } from "../core/learning.ts";
import { BEATS, DEFAULT_QUEUE } from "../core/job.ts";
import { checkName } from "../core/check_job.ts";
import { MOST_SLOTS, scalingOf } from "../core/scaling.ts";
import { ADDRESS, COUNT, DURATION, FOLDER, GRACE, integer, LEASE, NAME, QUEUE, TASK } from "../core/values.ts";
import { HAVE, haveOf } from "../core/plan_values.ts";
import { systemClock, systemRandom } from "../platform/clock.ts";
import { checkLogFolder } from "../runner/log/file.ts";
import { WorkerPool } from "../worker/pool.ts";
import { whatIsLeft } from "../worker/until_empty.ts";
import type { EventFields, Report } from "../core/report.ts";
import type { Store } from "../store/store.ts";
import { observed, type Observed } from "../observe/observed.ts";
import { visible } from "../view/text.ts";
import { VERSION } from "../platform/build_info.ts";
import { command } from "../cli/command.ts";
import { isTerminal, wantsColor, withStore, type Io } from "../cli/io.ts";
import { flagName, LOG_FORMAT_FLAG, section, valueFlag, type COLOR_CHOICES } from "../cli/flags.ts";
import { findHandler } from "../cli/handler.ts";
import { roleLog } from "../cli/role_log.ts";
import { ServiceNotice } from "../cli/service_notice.ts";
import { ShownOutput } from "../cli/shown_output.ts";
import { WorkerDisplay } from "../cli/worker_display.ts";
import { ansi, plain } from "../view/style.ts";
import { onSignals, signalCode } from "../cli/signals.ts";

const SLOTS = integer({ min: 1, max: MOST_SLOTS });
const SHORTEST_POLL_MS = 10;

export default command({
  meta: { name: "worker", description: "Run queued jobs" },
  args: {
    queue: valueFlag(QUEUE, "Queue to serve; several in order of preference, '*' for all", {
      alias: "q",
      fallback: DEFAULT_QUEUE,
    }),
    task: valueFlag(TASK, "Only jobs with this label", { alias: "t" }),
    slots: valueFlag(SLOTS, "Jobs to run at a time", { alias: "j", fallback: "1" }),
    have: valueFlag(HAVE, "What this machine has for jobs that --need it: gpu=0,1 (ids), mem=32G, license=3"),
    ...section("Slots that follow the work, instead of -j", {
      min: valueFlag(SLOTS, "Fewest slots, when their number follows the work"),
      max: valueFlag(SLOTS, "Most slots"),
      scale_up_at: valueFlag(COUNT, "Waiting jobs that add a slot", { fallback: "5" }),
      scale_down_after: valueFlag(DURATION, "Idle time that removes one", { fallback: "5m" }),
    }),
    name: valueFlag(NAME, "Name to show in lists"),
    log_dir: valueFlag(FOLDER, "Also keep whole logs there as plain files"),
    log_format: LOG_FORMAT_FLAG,
    metrics: valueFlag(ADDRESS, "Tell Prometheus at this address how it goes"),
    aging: valueFlag(DURATION, "Raise the priority of a job by one for each such time that it waits"),
    ...section("What it shows", {
      tag: { type: "boolean", description: "Print what jobs print, as it comes, each line behind the job's id" },
      group: { type: "boolean", description: "Print what jobs print, all of a job when it has ended" },
      quiet: { type: "boolean", description: "Only warnings and errors; nothing is drawn" },
    }),
    preempt: { type: "boolean", description: "Return a running job when one more urgent by 100 or more waits" },
    poll: valueFlag(DURATION, "Look for jobs at least this often", { fallback: "1s" }),
    sweep: {
      type: "boolean",
      default: true,
      description: "Recover what dead workers left behind",
      negativeDescription: "Leave recovery to a watchdog",
    },
    ...section("When it ends", {
      once: { type: "boolean", description: "End after one job" },
      until_empty: { type: "boolean", description: "End when nothing is left to do" },
      max_jobs: valueFlag(COUNT, "End after so many jobs"),
      drain: valueFlag(DURATION, "On TERM, INT or HUP, time for running jobs to end before they are returned", {
        fallback: "30s",
      }),
      grace: valueFlag(GRACE, "Between TERM and KILL when a job is stopped; never: a cancel sends nothing", {
        fallback: "10s",
      }),
    }),
    ...section("Leases, for jobs that set nothing themselves", {
      lease: valueFlag(LEASE, "Silence that counts as hung; auto learns it from earlier runs", { fallback: "5m" }),
      interval: valueFlag(DURATION, "At most one extension per", { fallback: "extension / 10" }),
      extension: valueFlag(DURATION, "What a beat adds", { fallback: "the lease" }),
      beat: { type: "enum", options: BEATS, description: "What proves work", fallback: "output" },
    }),
  },
  repeat: ["queue", "have"],
  rivals: [["slots"], ["min", "max", "scale_up_at", "scale_down_after"]],
  rest: "handler",
  examples: [
    ["lease worker -j 4", "runs queued commands, four at a time"],
    ["lease worker -q mail -- ./send.sh", "runs ./send.sh with the words of each job, like xargs"],
    ["lease worker -j 4 --have gpu=0,1 --have mem=32G", "also takes jobs that --need some of it"],
    ["lease worker --until-empty", "in CI: exit code 1 when a job failed"],
  ],
  notes: [
    {
      title: "Signals",
      rows: [
        [
          "TERM, INT, HUP",
          "take no more jobs, let the running ones end (--drain), then return them; again: don't wait",
        ],
        ["QUIT", "kill and return the running jobs at once"],
        ["TSTP (Ctrl-Z)", "refused: jobs would run on without their worker"],
      ],
    },
    "What --have says is what the machine has: workers on one host that use the same store share it, and an id is " +
      "never given to two jobs at once. Give each of them the same --have.",
  ],
  exit_codes: [
    ["0", "stopped, or nothing left to do"],
    ["1", "with --once, --until-empty or --max-jobs: a job it ran failed"],
    ["128+n", "with one of these: signal n ended it while there was work left"],
    ["125", "the store could not be used"],
  ],
  run: async ({ args, lists, rest, io }) => {
    const { grace = DEFAULT_KILL_GRACE_MS, drain: drain_ms = 30_000 } = args;
    const learn = args.lease === "auto";
    const [times, scaling, have] = [timesOf(args), scalingOf(args, spelt), haveOf(lists.have, "--have")];
    const max_jobs = args.once ? 1 : (args.max_jobs ?? null);
    const queues = queuesOf(lists.queue);
    if (args.log_dir !== undefined) checkLogDir(args.log_dir);
    const ends = args.once || args.until_empty || max_jobs !== null;
    const handler = findHandler(rest, io.env);
    return withStore(args, io, { create: true }, async ({ store, store_url }) => {
      const served = { store, queues, task: args.task ?? null, commands_only: rest.length === 0 };
      const { display, output, drawn } = shownTo(io, args, { ...served, max_jobs });
      const { report, name } = withName(await roleLog("worker", args, io, display.above));
      const watched = await observed({ store, report, version: VERSION, metrics: args.metrics ?? null, env: io.env });
      const pool = new WorkerPool({
        ...served,
        store: watched.store,
        store_url,
        clock: systemClock,
        random: systemRandom,
        report: watched.report,
        version: VERSION,
        name: args.name ?? null,
        slots: args.slots ?? 1,
        have,
        scaling,
        times,
        learn,
        beat: args.beat ?? "output",
        tells_beats: args.verbose || watched.tells_beats,
        handler,
        kill_grace_ms: grace,
        poll_ms: Math.max(SHORTEST_POLL_MS, args.poll ?? 1_000),
        sweep: args.sweep,
        log_dir: args.log_dir ?? null,
        adopts: true,
        preempt: args.preempt,
        until_empty: args.until_empty || args.once,
        max_jobs,
        ...(output === null ? {} : { onPrinted: output.printed, onSettled: (over) => output.ended(over) }),
      });
      name(pool.worker_id);
      const notice = await ServiceNotice.open(queues);
      const signals = endOnSignals(pool, drain_ms, { report, notice });
      const stopAging = keepAging(store, args.aging);
      await runWatched(pool, { display, output, report, notice }, watched).finally(signals.release).finally(stopAging);
      // Whoever waits for the queue to be empty must not go on as if it were.
      const ended_by = ends ? signals.first() : null;
      if (ended_by !== null && (await whatIsLeft(store, served, null)) !== "nothing") return signalCode(ended_by);
      const { completed, failed, other } = pool.statistics();
      const idle = ends && completed + failed + other === 0;
      const hint = idle ? await nothingDone(store, served.queues, drawn && ended_by === null) : null;
      if (hint !== null) tellHint(hint, drawn ? io : null, report);
      return ends && failed > 0 ? 1 : 0;
    });
  },
});

interface Shown {
  display: WorkerDisplay;
  output: ShownOutput | null;
  report: Report;
  notice: ServiceNotice | null;
}

async function runWatched(pool: WorkerPool, shown: Shown, watched: Observed): Promise<void> {
  const { display, output, report, notice } = shown;
  watched.begin(pool);
  try {
    await pool.start();
    notice?.ready(pool);
    display.start(pool, report);
    await pool.finished;
    await output?.flushed();
  } finally {
    notice?.end();
    await display.stop();
    await watched.end();
  }
}

/** Null: all. */
function queuesOf(given: readonly string[]): string[] | null {
  const queues = given.flatMap((names) => names.split(","));
  for (const queue of queues) checkName("queue", queue);
  return queues.includes("*") ? null : queues.length === 0 ? [DEFAULT_QUEUE] : queues;
}

/** One that is none at all is a slip; what else may be wrong with it may be over when a job comes. */
function checkLogDir(folder: string): void {
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() === false)
    throw new LeaseError("usage", `--log-dir ${folder} is not a folder: name one, or a new name`);
  checkLogFolder(folder);
}

const OFTEN_MS = 1_000;

/** Waiting jobs rise while this worker runs; a store in trouble is the pool's to report. */
function keepAging(store: Store, aging_ms: number | undefined): () => void {
  if (aging_ms === undefined) return () => {};
  if (aging_ms < OFTEN_MS) throw new LeaseError("usage", "--aging must be at least 1s");
  const age = () => void store.age(aging_ms).catch(() => {});
  age();
  return every(systemClock, Math.max(OFTEN_MS, aging_ms / 4), age);
}

function timesOf(
  args: Readonly<Record<"interval" | "extension", number | undefined>> & { lease: number | "auto" | undefined },
) {
  const lease_ms = args.lease === "auto" ? UNLEARNED_LEASE_MS : args.lease;
  return calibrate({ lease_ms, interval_ms: args.interval, extension_ms: args.extension });
}

/** As a log in which every line has the worker's name, once it is known. */
function withName(log: Report): { report: Report; name: (worker: string) => void } {
  let who: Pick<EventFields, "worker"> = {};
  return {
    report: (level, message, about) => log(level, message, { ...who, ...about }),
    name: (worker) => (who = { worker }),
  };
}

function tellHint(hint: string, io: Io | null, report: Report): void {
  if (io === null) report("info", hint);
  else io.stderr(`lease: ${visible(hint)}\n`);
}

const spelt = (option: string) => (option === "slots" ? "-j" : `--${flagName(option)}`);

interface ShowFlags {
  color: (typeof COLOR_CHOICES)[number];
  log_format: "pretty" | "json";
  quiet: boolean;
  until_empty: boolean;
  tag: boolean;
  group: boolean;
}

/** What of it is shown, by what is wanted and what there is to show it on. */
function shownTo(io: Io, args: ShowFlags, served: Served) {
  const is_tty = isTerminal(2);
  const color = wantsColor(args.color, { env: io.env, is_tty });
  const drawn = args.log_format !== "json" && !args.quiet;
  const live = drawn && is_tty && io.env["TERM"] !== "dumb";
  const { until_empty, tag, group } = args;
  const display = new WorkerDisplay({ ...served, color, until_empty, live, silent: !drawn, stderr: io.stderr });
  const above = isTerminal(1) ? display.above : null;
  const paint = wantsColor(args.color, io) ? ansi : plain;
  const output = tag || group ? new ShownOutput({ store: served.store, tag, group, paint, above }) : null;
  return { display, output, drawn };
}

interface Served {
  store: Store;
  queues: readonly string[] | null;
  task: string | null;
  commands_only: boolean;
  max_jobs: number | null;
}

/** Perhaps only because the work is elsewhere; a person is told in any case. */
async function nothingDone(store: Store, queues: readonly string[] | null, drawn: boolean): Promise<string | null> {
  return (await otherQueues(store, queues)) ?? (drawn && isTerminal(2) ? "there was nothing to run" : null);
}

async function otherQueues(store: Store, queues: readonly string[] | null): Promise<string | null> {
  if (queues === null) return null;
  const waiting = (await store.counts()).filter(({ queue, state }) => state === "pending" && !queues.includes(queue));
  if (waiting.length === 0) return null;
  const names = waiting.map(({ queue, count }) => `${queue} (${count})`).join(", ");
  return `nothing to do in queue ${queues.join(", ")}; jobs wait in ${names}: serve it with -q`;
}

const NO_STOP =
  "not stopped: jobs would run on without their worker; to hold them back, lease pause the queue, to end, press Ctrl-C";

/** HUP is what a worker hears when the terminal or the ssh session that it was started in is closed. */
function endOnSignals(pool: WorkerPool, drain_ms: number, { report, notice }: Pick<Shown, "report" | "notice">) {
  let first: NodeJS.Signals | null = null;
  const drain = (signal: NodeJS.Signals, asked: boolean) => {
    const { processing, draining } = pool.statistics().slots;
    const running = processing + draining;
    const jobs = running === 1 ? "1 job" : `${running} jobs`;
    const again = `${signal === "SIGINT" ? "Ctrl-C" : "the same signal"} again stops ${running === 1 ? "it" : "them"}`;
    const draining_text = `draining: ${jobs} may run on for ${formatDuration(drain_ms)}; ${again}`;
    if (running > 0) report("info", asked ? `stopping ${jobs}, back to the queue` : draining_text);
    pool.stop(asked ? 0 : drain_ms);
  };
  const end = (signal: NodeJS.Signals) => {
    const asked = first !== null;
    first ??= signal;
    if (signal === "SIGQUIT") pool.abort();
    else drain(signal, asked);
    notice?.stopping(pool);
  };
  const ending = onSignals(["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"], end);
  const stopping = onSignals(["SIGTSTP"], () => report("warn", NO_STOP));
  const release = () => {
    ending();
    stopping();
  };
  return { release, first: () => first };
}
