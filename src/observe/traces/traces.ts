/** Traces, where they are on: what is enqueued, granted, settled and recovered goes by here on its way to the store. */

import { context, trace } from "@opentelemetry/api";
import { isSettledWithin } from "../../core/clock.ts";
import { LeaseError } from "../../core/errors.ts";
import type { Report } from "../../core/report.ts";
import { readTraceparent } from "../../core/trace_context.ts";
import { systemClock } from "../../platform/clock.ts";
import type { Producer, Store } from "../../store/store.ts";
import type { Traces } from "../traced.ts";
import { AttemptSpans } from "./attempt_spans.ts";
import { tracedEnqueue, tracedEnqueueAll } from "./enqueue_spans.ts";
import { contextOf } from "./job_spans.ts";
import { Provider } from "./provider.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** For what is still to be read from a store that may not answer. */
const READ_WITHIN_MS = 250;

/** Null: it can't be done as the variables say, which `trouble` is told. */
export function startTracing(env: Env, version: string, trouble: (text: string) => void): Traces | null {
  try {
    return new JobTraces(new Provider(env, version, trouble));
  } catch (error) {
    if (!(error instanceof LeaseError)) throw error;
    trouble(`nothing is traced: ${error.message}`);
    return null;
  }
}

class JobTraces implements Traces {
  readonly on = true;
  readonly #provider: Provider;
  #attempts: AttemptSpans | null = null;

  constructor(provider: Provider) {
    this.#provider = provider;
  }

  producer<P extends Pick<Producer, "enqueue">>(producer: P): P {
    const enqueue: P["enqueue"] = (jobs, options) =>
      tracedEnqueue(this.#provider, jobs, (taken) => producer.enqueue(taken, options), null);
    return { ...producer, enqueue };
  }

  store(store: Store): Store {
    const provider = this.#provider;
    const attempts = (this.#attempts = new AttemptSpans(provider, store));
    const storeId = () => store.storeId();
    return {
      ...store,
      async enqueue(jobs, options) {
        const queued = await tracedEnqueue(provider, jobs, (taken) => store.enqueue(taken, options), storeId);
        if (options?.acquire === undefined) return queued;
        const granted = queued.map(async (one) =>
          one.grant ? { ...one, grant: await attempts.begin(one.grant) } : one,
        );
        return Promise.all(granted);
      },
      enqueueAll: (batches, options) =>
        tracedEnqueueAll(provider, batches, (taken) => store.enqueueAll(taken, options), storeId),
      async acquire(request) {
        const grants = await store.acquire(request);
        return Promise.all(grants.map((grant) => attempts.begin(grant)));
      },
      async settle(requests, options) {
        const answers = await store.settle(requests, options);
        attempts.settled(requests, answers);
        return answers;
      },
      async recover(requests) {
        const answers = await store.recover(requests);
        attempts.recovered(requests.filter((_, at) => answers[at] === "recovered"));
        return answers;
      },
    };
  }

  report(report: Report): Report {
    return (level, message, about) => {
      const at = about === undefined ? null : (this.#attempts?.note(about) ?? null);
      if (at === null) report(level, message, about);
      else report(level, message, { ...about, trace_id: at.trace_id, span_id: at.span_id });
    };
  }

  within<T>(traceparent: string | null, call: () => T): T {
    const span = trace.getSpan(contextOf(readTraceparent(traceparent)));
    return span === undefined ? call() : context.with(trace.setSpan(context.active(), span), call);
  }

  async end(): Promise<void> {
    if (this.#attempts !== null) await isSettledWithin(systemClock, READ_WITHIN_MS, this.#attempts.read());
    await this.#provider.end();
  }
}
