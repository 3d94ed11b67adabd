/**
 * The span of an enqueue. One job alone, or all jobs of somebody who is in a trace already, go on from it. Many jobs that
 * nobody's trace holds together have a trace each, and the span of their enqueue is linked to those.
 */

import { context, SpanStatusCode, trace, type Span } from "@opentelemetry/api";
import { LeaseError } from "../../core/errors.ts";
import type { NewJob } from "../../core/job.ts";
import { traceparentOf } from "../../core/trace_context.ts";
import type { BulkEnqueued } from "../../store/queries.ts";
import type { Enqueued } from "../../store/store.ts";
import { broughtContext, contextOf, contextOfSpan, derivedRoot, enqueueSpan, linkTo } from "./job_spans.ts";
import type { Provider } from "./provider.ts";

/** A span holds no more. */
const MOST_LINKS = 128;

/** `storeId`: of a store that may be given many jobs at a time. */
export async function tracedEnqueue(
  provider: Provider,
  jobs: readonly NewJob[],
  enqueue: (jobs: readonly NewJob[]) => Promise<Enqueued[]>,
  storeId: (() => Promise<string>) | null,
): Promise<Enqueued[]> {
  const [first] = jobs;
  if (first === undefined) return enqueue(jobs);
  const enqueuing = new EnqueueSpan(provider, first, jobs.length === 1);
  return enqueuing.around(async () => {
    const queued = await enqueue(jobs.map((job) => enqueuing.taken(job)));
    await enqueuing.became(
      queued.map(({ id }) => [id, id]),
      queued.filter(({ created }) => created).length,
      storeId,
    );
    return queued;
  });
}

export async function tracedEnqueueAll(
  provider: Provider,
  batches: AsyncIterable<readonly NewJob[]>,
  enqueueAll: (batches: AsyncIterable<readonly NewJob[]>) => Promise<BulkEnqueued>,
  storeId: () => Promise<string>,
): Promise<BulkEnqueued> {
  const iterator = batches[Symbol.asyncIterator]();
  const head = await iterator.next();
  const first = head.done === true ? undefined : head.value[0];
  async function* rest(taken: (job: NewJob) => NewJob) {
    for (let next = head; next.done !== true; next = await iterator.next()) yield next.value.map(taken);
  }
  if (first === undefined) return enqueueAll(rest((job) => job));
  const enqueuing = new EnqueueSpan(provider, first, false);
  return enqueuing.around(async () => {
    const queued = await enqueueAll(rest((job) => enqueuing.taken(job)));
    await enqueuing.became(queued.ranges, queued.created, storeId);
    return queued;
  });
}

class EnqueueSpan {
  readonly #span: Span;
  readonly #alone: boolean;
  readonly #goes_on: boolean;
  readonly #traceparent: string;
  readonly #queue: string;
  #count = 0;

  constructor(provider: Provider, first: NewJob, alone: boolean) {
    // What goes on in this program is nearer than what started it.
    const active = context.active();
    const around = trace.getSpanContext(active) === undefined ? contextOf(broughtContext(first)) : active;
    this.#alone = alone;
    this.#goes_on = alone || trace.getSpanContext(around) !== undefined;
    this.#queue = first.queue;
    const { name, ...options } = enqueueSpan(first.queue, alone ? first : null);
    this.#span = provider.start(name, options, around);
    this.#traceparent = traceparentOf(contextOfSpan(this.#span));
  }

  /** A job as it is to be stored; one that brings a trace of its own stays in that. */
  taken(job: NewJob): NewJob {
    this.#count += 1;
    if (job.queue !== this.#queue) this.#span.updateName("enqueue");
    return this.#goes_on ? { ...job, env: { ...job.env, TRACEPARENT: this.#traceparent } } : job;
  }

  async became(ranges: BulkEnqueued["ranges"], created: number, storeId: (() => Promise<string>) | null) {
    const [[id = 0] = []] = ranges;
    if (this.#alone) {
      this.#span.setAttributes({ "messaging.message.id": String(id), "lease.created": created === 1 });
      return;
    }
    this.#span.setAttributes({ "messaging.batch.message_count": this.#count, "lease.created": created });
    if (this.#goes_on || storeId === null) return;
    const store_id = await storeId();
    for (const job of idsIn(ranges))
      this.#span.addLink(linkTo({ ...derivedRoot(store_id, job), sampled: true }, "job"));
  }

  async around<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      const code = error instanceof LeaseError ? error.code : "unexpected";
      this.#span.setAttribute("error.type", code).setStatus({ code: SpanStatusCode.ERROR, message: code });
      throw error;
    } finally {
      this.#span.end();
    }
  }
}

function* idsIn(ranges: BulkEnqueued["ranges"]): Generator<number> {
  let left = MOST_LINKS;
  for (const [from, to] of ranges) for (let id = from; id <= to && left > 0; id++, left--) yield id;
}
