/**
 * Which trace a job belongs to, as the W3C's trace context spells it: TRACEPARENT (and TRACESTATE) in the job's own
 * environment, from whoever enqueued it.
 */

/** A span that others can refer to. */
export interface TraceContext {
  /** 32 digits. */
  trace_id: string;
  /** 16 digits. */
  span_id: string;
  sampled: boolean;
}

const TRACEPARENT = /^(?!ff)[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})$/;

/** Null: it is no context. */
export function readTraceparent(text: string | null | undefined): TraceContext | null {
  const [, trace_id, span_id, flags] = TRACEPARENT.exec(text ?? "") ?? [];
  if (trace_id === undefined || span_id === undefined) return null;
  return { trace_id, span_id, sampled: (Number.parseInt(flags ?? "", 16) & 1) === 1 };
}

export function traceparentOf({ trace_id, span_id, sampled }: TraceContext): string {
  return `00-${trace_id}-${span_id}-${sampled ? "01" : "00"}`;
}

type Variables = Readonly<Record<string, string | undefined>>;

/** Whoever enqueues as a part of a trace finds the job in it: the context goes with the job, unless it has its own. */
export function continueTrace(
  job: { env: Readonly<Record<string, string>> },
  { TRACEPARENT: context, TRACESTATE: state }: Variables,
): void {
  if (context === undefined || readTraceparent(context) === null || job.env["TRACEPARENT"] !== undefined) return;
  const more = state === undefined || state === "" ? {} : { TRACESTATE: state };
  job.env = { TRACEPARENT: context, ...more, ...job.env };
}

/** Somebody wants spans, as the variables of OpenTelemetry say it. */
export function wantsTraces(env: Variables): boolean {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: all = "", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: traces = "" } = env;
  if (all === "" && traces === "") return false;
  return env["OTEL_SDK_DISABLED"]?.toLowerCase() !== "true" && env["OTEL_TRACES_EXPORTER"] !== "none";
}
