/**
 * The spans of attempts that run here, and of those of dead workers that a sweep here has ended. Their times are the
 * store's, which need not be this machine's. Nothing that goes wrong here may touch a job.
 */

import { ROOT_CONTEXT, SpanStatusCode, type Span } from "@opentelemetry/api";
import type { Job } from "../../core/job.ts";
import type { EventFields } from "../../core/report.ts";
import { traceparentOf, type TraceContext } from "../../core/trace_context.ts";
import type { AttemptEnd } from "../../core/transition.ts";
import { systemClock } from "../../platform/clock.ts";
import type { Grant, RecoverRequest, SettleAnswer, SettleRequest, Store } from "../../store/store.ts";
import { attemptSpan, attemptSpanId, broughtContext, contextOf, contextOfSpan, derivedRoot } from "./job_spans.ts";
import { endOf, enqueueSpan, linkTo, waitSpan } from "./job_spans.ts";
import type { Provider } from "./provider.ts";

/** Of a job that prints a lot not every beat is an event: a span holds only so many. */
const BEAT_EVERY_MS = 1_000;

interface OpenAttempt {
  span: Span;
  started_at_ms: number;
  granted_ms: number;
  beats: number;
  told_beat_ms: number;
}

type StoreReader = Pick<Store, "storeId" | "attempts" | "jobs" | "now">;

export class AttemptSpans {
  readonly #provider: Provider;
  readonly #store: StoreReader;
  readonly #open = new Map<string, OpenAttempt>();
  /** What has to be read before it can be told. */
  readonly #unread = new Set<Promise<void>>();
  #store_id: string | null = null;

  constructor(provider: Provider, store: StoreReader) {
    this.#provider = provider;
    this.#store = store;
  }

  /** The grant as it goes on, with the context of its attempt in what the job brings along. */
  async begin(grant: Grant): Promise<Grant> {
    try {
      const { job } = grant;
      const store_id = (this.#store_id ??= await this.#store.storeId());
      const parent = this.#parentOf(job, store_id, job.token === 1);
      const span = this.#start(job, parent, store_id);
      const granted_ms = systemClock.mono_ms();
      const started_at_ms = job.started_at_ms ?? systemClock.wall_ms();
      this.#open.set(keyOf(job), { span, started_at_ms, granted_ms, beats: 0, told_beat_ms: -Infinity });
      this.#later(this.#tellWait(job, parent));
      return { ...grant, job: { ...job, env: { ...job.env, TRACEPARENT: traceparentOf(contextOfSpan(span)) } } };
    } catch {
      return grant;
    }
  }

  /** Where a message about an attempt belongs; null: it is none of those that run here. */
  note(about: EventFields): TraceContext | null {
    const { job, token, event } = about;
    const attempt = this.#open.get(keyOf({ id: job, token }));
    if (attempt === undefined) return null;
    if (event === "ended") this.#open.delete(keyOf({ id: job, token }));
    else this.#addEvent(attempt, about);
    return contextOfSpan(attempt.span);
  }

  settled(requests: readonly SettleRequest[], answers: readonly SettleAnswer[]): void {
    for (const [at, { id, token, change, ended_at_ms }] of requests.entries()) {
      const status = answers[at]?.status;
      const attempt = this.#open.get(keyOf({ id, token }));
      if (attempt === undefined || status === "cancelling") continue;
      if (status === "applied") endSpan(attempt.span, change.ended, change.state.name, ended_at_ms ?? timeOf(attempt));
      // Whoever took the lease away tells of the attempt.
      else this.#open.delete(keyOf({ id, token }));
    }
  }

  recovered(requests: readonly RecoverRequest[]): void {
    if (requests.length > 0) this.#later(this.#tellRecovered(requests));
  }

  /** Resolves when what was left to read is told. */
  async read(): Promise<void> {
    await Promise.all(this.#unread);
  }

  #later(told: Promise<void>): void {
    const quiet = told.catch(() => {}).finally(() => this.#unread.delete(quiet));
    this.#unread.add(quiet);
  }

  /** What wait and attempts are children of; `tells` makes a span of an enqueue that nobody has told of. */
  #parentOf(job: Job, store_id: string, tells: boolean): TraceContext {
    const brought = broughtContext(job);
    if (brought !== null) return brought;
    const { name, ...options } = enqueueSpan(job.queue, job);
    const attributes = { ...options.attributes, "messaging.message.id": String(job.id) };
    const root = { ...options, attributes, startTime: job.created_at_ms };
    const span = this.#provider.start(name, root, ROOT_CONTEXT, derivedRoot(store_id, job.id));
    if (tells) span.end(job.created_at_ms);
    return contextOfSpan(span);
  }

  #start(job: Job, parent: TraceContext, store_id: string): Span {
    const { name, ...options } = attemptSpan(job);
    const before = { ...parent, span_id: attemptSpanId(store_id, job.id, job.token - 1) };
    const links = job.token > 1 ? [linkTo(before, "previous attempt")] : [];
    const startTime = job.started_at_ms ?? systemClock.wall_ms();
    const span_id = attemptSpanId(store_id, job.id, job.token);
    return this.#provider.start(name, { ...options, links, startTime }, contextOf(parent), { span_id });
  }

  async #tellWait(job: Job, parent: TraceContext): Promise<void> {
    const { token, created_at_ms, run_at_ms, failures } = job;
    const before = token === 1 ? null : (await this.#store.attempts(job.id)).find((one) => one.token === token - 1);
    const free_at_ms = before?.ended_at_ms ?? created_at_ms;
    // One that a person has run again had ended: it did not wait meanwhile.
    const since_ms = token > 1 && failures === 0 ? Math.max(free_at_ms, run_at_ms) : free_at_ms;
    const { name, ...options } = waitSpan(job);
    const span = this.#provider.start(name, { ...options, startTime: since_ms }, contextOf(parent));
    if (run_at_ms > since_ms) span.addEvent("due", {}, run_at_ms);
    span.end(Math.max(since_ms, job.started_at_ms ?? since_ms));
  }

  async #tellRecovered(requests: readonly RecoverRequest[]): Promise<void> {
    const [store_id, now_ms, jobs] = await Promise.all([
      this.#store.storeId(),
      this.#store.now(),
      this.#store.jobs(requests.map(({ id }) => id)),
    ]);
    for (const [at, { change }] of requests.entries()) {
      const job = jobs[at];
      if (!job) continue;
      // As it was when it was lost: it may have been granted again.
      const lost: Job = { ...job, ...change.before };
      this.#open.delete(keyOf(lost));
      const span = this.#start(lost, this.#parentOf(lost, store_id, false), store_id);
      endSpan(span, change.ended, change.state.name, now_ms);
    }
  }

  #addEvent(attempt: OpenAttempt, about: EventFields): void {
    const { event } = about;
    const at_ms = timeOf(attempt);
    if (event === "started") attempt.span.addEvent("started", { "process.pid": Number(about["pid"] ?? 0) }, at_ms);
    else if (event === "beat") {
      attempt.beats += 1;
      if (at_ms - attempt.told_beat_ms < BEAT_EVERY_MS) return;
      attempt.told_beat_ms = at_ms;
      const gap_ms = Number(about["gap_ms"] ?? 0);
      attempt.span.addEvent("beat", { "lease.beats": attempt.beats, "lease.gap_ms": gap_ms }, at_ms);
    } else if (event !== undefined && EVENTS.has(event)) attempt.span.addEvent(event, {}, at_ms);
  }
}

const EVENTS: ReadonlySet<string> = new Set(["extended", "extension_failed", "lost", "stale"]);

function endSpan(span: Span, ended: AttemptEnd, state: string, at_ms: number): void {
  const { attributes, error } = endOf(ended, state);
  span.setAttributes(attributes);
  if (error !== null) span.setStatus({ code: SpanStatusCode.ERROR, message: error });
  span.end(at_ms);
}

/** Now, by the store's clock. */
function timeOf({ started_at_ms, granted_ms }: OpenAttempt): number {
  return started_at_ms + (systemClock.mono_ms() - granted_ms);
}

function keyOf({ id, token }: { id: number | undefined; token: number | undefined }): string {
  return `${id}/${token}`;
}
