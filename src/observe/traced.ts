/**
 * Spans of jobs for whoever collects them: a trace per job, from its enqueue over its waits and attempts to what its
 * program adds. On where the variables of OpenTelemetry name an endpoint; its SDK is loaded only then.
 */

import { wantsTraces } from "../core/trace_context.ts";
import type { Report } from "../core/report.ts";
import type { Producer, Store } from "../store/store.ts";

export interface Traces {
  /** False: nobody wants any, and everything below is what it was given. */
  readonly on: boolean;
  /** The same, with a span for what is enqueued, whose context goes with the job. */
  producer<P extends Pick<Producer, "enqueue">>(producer: P): P;
  /** The same, with spans of attempts and waits as well; a granted job hands the context of its attempt to its program. */
  store(store: Store): Store;
  /** The same, with what happens to an attempt as events of its span; each message about one names its trace. */
  report(report: Report): Report;
  /** Calls within the context of an attempt, for handlers that make spans of their own. */
  within<T>(traceparent: string | null, call: () => T): T;
  /** Sends what there is; a collector that does not answer keeps nobody for long. */
  end(): Promise<void>;
}

const NONE: Traces = {
  on: false,
  producer: (producer) => producer,
  store: (store) => store,
  report: (report) => report,
  within: (_traceparent, call) => call(),
  end: async () => {},
};

type Env = Readonly<Record<string, string | undefined>>;

/** `trouble` hears why spans can't be sent, once. */
export async function openTraces(env: Env, version: string, trouble: (text: string) => void): Promise<Traces> {
  if (!wantsTraces(env)) return NONE;
  const { startTracing } = await import("./traces/traces.ts");
  return startTracing(env, version, trouble) ?? NONE;
}
