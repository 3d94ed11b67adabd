/**
 * What can be asked, as JSON: the same names as everywhere (`inspect --json`), with what a page needs beside them. Each
 * answer is bounded, whatever the store holds.
 */

import { Hono } from "hono";
import { isFinished, type Job, type ShownState } from "../../core/job.ts";
import { failureGroups, type Failure, type FailureGroup } from "../../lookup/failures.ts";
import { jobPages, LogEnds } from "../../lookup/job_pages.ts";
import { findJobs, SEARCHED_JOBS } from "../../lookup/job_search.ts";
import { logPage, wholeLog } from "../../lookup/log_pages.ts";
import { overviewNow } from "../../lookup/overview.ts";
import { queuesAround } from "../../lookup/queues.ts";
import { around } from "../../lookup/why_waiting.ts";
import { leasesByEnd, withHeldJobs, workersNow } from "../../lookup/workers.ts";
import type { Glance } from "../../store/store.ts";
import { changedSettings } from "../../view/job.ts";
import { jobDetailJson, jobJson, overviewJson, queueJson, workerJson } from "../../view/json.ts";
import { limitJson } from "../../view/limits.ts";
import { runtimeOf } from "../../view/lists.ts";
import { QUEUE_STATES } from "../../view/queues.ts";
import { WITHOUT_PAST, type PastOfJobs } from "./job_past.ts";
import { isRange, pastOf, RANGES } from "./past.ts";
import { scheduleJson } from "../../view/schedules.ts";
import { rfc3339 } from "../../view/time.ts";
import { commandText, visible } from "../../view/text.ts";
import { refuse } from "./guard.ts";

export interface About {
  version: string;
  store: string;
  read_only: boolean;
}

const PAGE_JOBS = 50;
const MOST_JOBS = 500;
const RUNNING_SHOWN = 20;
const MOST_LEASES = 500;
const GROUP_JOBS = 20;
/** Of what a job wrote as its result; the whole of it is in `lease inspect`. */
const OUTPUT_CHARACTERS = 64 * 1024;

/** As it was typed: a line for a shell without the shell, on one line whatever it holds. */
function commandLine(job: Pick<Job, "argv" | "input">): string {
  const [shell, flag, line = "", ...rest] = job.argv;
  if (shell !== "sh" || flag !== "-c" || rest.length > 0) return commandText(job);
  return visible(line.trim().replaceAll(/\s*\n\s*/g, " ↵ "));
}

/** A job in a list, without what may be large. */
function rowJson(job: Job, reason: string | null, now_ms: number) {
  const { input: _input, output: _output, argv: _argv, ...rest } = jobJson(job, reason);
  return { ...rest, command: commandLine(job).slice(0, 1_000), runtime_ms: ended(job) ? runtimeOf(job, now_ms) : null };
}

/** A running job's run time is told by its page, from when it started: an answer that changes all the time is news. */
const ended = ({ state }: Job) => isFinished(state);

function failureJson({ job, last_line }: Failure, now_ms: number) {
  return { ...rowJson(job, null, now_ms), last_line };
}

async function rowsJson(store: Glance, jobs: readonly Job[], now_ms: number) {
  const facts = await around(store, jobs, now_ms);
  return jobs.map((job) => rowJson(job, facts.reason(job, now_ms), now_ms));
}

async function overview(store: Glance) {
  const now_ms = await store.now();
  const [facts, history, jobs] = await Promise.all([
    overviewNow(store, now_ms),
    pastOf(store, RANGES.hour, now_ms),
    longestRunning(store),
  ]);
  const told = overviewJson(facts, now_ms);
  return {
    ...told,
    workers: told.workers.filter(({ state }) => state !== "stopped"),
    failures: facts.failures.map((failure) => failureJson(failure, now_ms)),
    running: jobs.map((job) => rowJson(job, null, now_ms)),
    history,
  };
}

/** Out of the leases, which are asked for anyway, unless there are too many of them. */
async function longestRunning(store: Glance): Promise<Job[]> {
  const leases = await leasesByEnd(store, { most: MOST_LEASES });
  const started_ms = ({ started_at_ms }: Job) => started_at_ms ?? 0;
  if (leases.all) return leases.jobs.toSorted((a, b) => started_ms(a) - started_ms(b)).slice(0, RUNNING_SHOWN);
  const running: ShownState[] = ["running", "cancelling"];
  return store.list({ states: running, sort: "started", limit: RUNNING_SHOWN, newest_first: false });
}

async function queues(store: Glance) {
  const now_ms = await store.now();
  const [present, leases, oldest] = await Promise.all([
    workersNow(store),
    leasesByEnd(store, { most: MOST_LEASES }),
    store.oldestPending(),
  ]);
  const rows = await queuesAround(store, present, now_ms, leases);
  const since = new Map(oldest.map(({ queue, since_ms }) => [queue, rfc3339(since_ms)]));
  return rows.map((row) => ({ ...queueJson(row), oldest_pending_at: since.get(row.queue) ?? null }));
}

async function workers(store: Glance) {
  const now_ms = await store.now();
  const [all, leases] = await Promise.all([workersNow(store), leasesByEnd(store, { most: MOST_LEASES })]);
  const rows = await withHeldJobs(store, all.slice(0, MOST_JOBS), leases);
  const commands = new Map(leases.jobs.map((job) => [job.id, commandLine(job).slice(0, 200)]));
  return rows.map((row) => {
    const told = workerJson(row, now_ms);
    return { ...told, current: told.current.map((held) => ({ ...held, command: commands.get(held.job) ?? null })) };
  });
}

function groupJson({ error, failures, retrying, first_at_ms, last_at_ms }: FailureGroup, now_ms: number) {
  const jobs = failures.map(({ job }) => job);
  return {
    error,
    count: jobs.length,
    retrying,
    queues: [...new Set(jobs.map(({ queue }) => queue))],
    ids: jobs.filter(ended).map(({ id }) => id),
    jobs: failures.slice(0, GROUP_JOBS).map((failure) => failureJson(failure, now_ms)),
    first_at: rfc3339(first_at_ms),
    last_at: rfc3339(last_at_ms),
  };
}

/** `in_parts`: what was tried, and what was noted on the way, is left out (null) where `isPart` says so. */
async function detail(store: Glance, id: number, past: PastOfJobs, isPart: () => boolean) {
  const now_ms = await store.now();
  const [page] = await jobPages({ ...store, ...WITHOUT_PAST }, [id], now_ms, NO_LOG);
  if (page === null || page === undefined) return null;
  const { job } = page;
  const known = past.known(job, now_ms) ?? (isPart() ? null : await past.read(store, job, now_ms));
  const told = jobDetailJson(job, { ...page, ...known, reason: page.reason(now_ms), show_env: false });
  return {
    ...told,
    ...(known === null ? { history: null, checkpoints: null } : {}),
    output: told.output?.slice(0, OUTPUT_CHARACTERS) ?? null,
    command: commandText(job),
    damaged: job.damaged ?? null,
    // Their values may be secrets.
    env_names: Object.keys(job.env),
    settings_text: changedSettings(job.settings),
  };
}

/** The page reads the log itself. */
class NoLog extends LogEnds {
  override async lines(): Promise<string[]> {
    return [];
  }
}
const NO_LOG = new NoLog();

/** A whole number from 1 up, or null. */
function whole(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

function states(text: string): ShownState[] {
  const asked = text.split(",");
  return QUEUE_STATES.filter((state) => asked.includes(state));
}

export interface AnswerOptions {
  store: Glance;
  about: About;
  /** Reads what nobody else wants at the same time. */
  of_download: Pick<Glance, "logs">;
  past: PastOfJobs;
  /** Whether what is not needed at once has to wait. */
  isPart: () => boolean;
}

export function answers({ store, about, of_download, past, isPart }: AnswerOptions): Hono {
  const app = new Hono();
  app.get("/about", (c) => c.json(about));
  app.get("/overview", async (c) => c.json(await overview(store)));
  app.get("/queues", async (c) => c.json({ queues: await queues(store) }));
  app.get("/limits", async (c) => c.json({ limits: (await store.limits()).map(limitJson) }));
  app.get("/schedules", async (c) => {
    const all = await store.schedules();
    const told = all.slice(0, MOST_JOBS).map((one) => ({ ...scheduleJson(one, []), command: commandLine(one.job) }));
    return c.json({ schedules: told });
  });
  app.get("/history", async (c) => {
    const range = c.req.query("range") ?? "";
    if (!isRange(range)) return refuse(c, 400, `a range is one of ${Object.keys(RANGES).join(", ")}`);
    return c.json({ history: await pastOf(store, RANGES[range], await store.now()) });
  });
  app.get("/workers", async (c) => c.json({ workers: await workers(store) }));
  app.get("/failures", async (c) => {
    const now_ms = await store.now();
    return c.json({ groups: (await failureGroups(store)).map((group) => groupJson(group, now_ms)) });
  });
  app.get("/jobs", async (c) => {
    const { q = "", state = "", queue = "", task = "", before, limit } = c.req.query();
    const found = await findJobs(store, {
      text: q.trim().slice(0, 500),
      states: states(state),
      queue: queue === "" ? null : queue,
      task: task === "" ? null : task,
      behind_id: whole(before),
      limit: Math.min(whole(limit) ?? PAGE_JOBS, MOST_JOBS),
    });
    const jobs = await rowsJson(store, found.jobs, await store.now());
    return c.json({ jobs, before: found.behind_id, looked_at: SEARCHED_JOBS });
  });
  app.get("/jobs/:id", async (c) => {
    const id = whole(c.req.param("id"));
    const told = id === null ? null : await detail(store, id, past, isPart);
    if (told === null) return refuse(c, 404, `there is no job ${c.req.param("id")}`);
    if (told.history === null) c.header("lease-partial", "1");
    return c.json(told);
  });
  logAnswers(app, store, of_download);
  return app;
}

function logAnswers(app: Hono, store: Glance, of_download: Pick<Glance, "logs">): void {
  app.get("/jobs/:id/log", async (c) => {
    const [id, attempt] = [whole(c.req.param("id")), whole(c.req.query("attempt"))];
    if (id === null || attempt === null) return refuse(c, 404, "the log of which job and attempt?");
    const [from, before] = [whole(c.req.query("from")), whole(c.req.query("before"))];
    const place = { job: id, attempt, ...(from === null ? {} : { from }), ...(before === null ? {} : { before }) };
    const { entries, start, next } = await logPage(store, place);
    // Of an attempt that is over nothing comes behind the end.
    const over = c.req.query("over") !== undefined;
    if (over && from !== null && entries.length === 0) c.header("lease-final", "1");
    else if (before === null)
      c.header("lease-next", `/jobs/${id}/log?attempt=${attempt}&from=${next}${over ? "&over" : ""}`);
    const pieces = entries.map(({ stream, at_ms, bytes, start: at }) => {
      // Bytes and not text: a character may be in two pieces.
      return { stream, at: rfc3339(at_ms), start: at, data: Buffer.from(bytes).toString("base64") };
    });
    return c.json({ attempt, start, next, pieces });
  });
  app.get("/jobs/:id/log.txt", (c) => {
    const [id, attempt] = [whole(c.req.param("id")), whole(c.req.query("attempt"))];
    if (id === null || attempt === null) return refuse(c, 404, "the log of which job and attempt?");
    c.header("content-type", "text/plain; charset=utf-8");
    c.header("content-disposition", `attachment; filename="job-${id}-attempt-${attempt}.log"`);
    return c.body(streamOf(wholeLog(of_download, id, attempt)));
  });
}

/** Read only as fast as it is taken. */
function streamOf(pieces: AsyncGenerator<Uint8Array>): ReadableStream {
  return new ReadableStream({
    async pull(out) {
      const { value, done } = await pieces.next();
      if (done) out.close();
      else out.enqueue(value);
    },
    async cancel() {
      await pieces.return(undefined);
    },
  });
}
