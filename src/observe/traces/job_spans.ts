/**
 * What the spans of jobs are called and say, by OpenTelemetry's conventions for messaging, and by which ids they are
 * found. Nothing of a job's environment, input or output, and of its command only the program's name.
 *
 *     enqueue QUEUE ─┬─ wait QUEUE       from the enqueue, or the end of the attempt before, to the start
 *                    └─ process QUEUE    one per attempt, linked to the one before; the parent of what the program adds
 *
 * A job whose enqueuer did not trace has its enqueue told by whoever runs it first. Ids of such a root and of attempts
 * follow from store, job and token: any worker or sweep knows them, also after the holder has died.
 */

import { ROOT_CONTEXT, SpanKind, trace, TraceFlags } from "@opentelemetry/api";
import type { Attributes, Context, Link, Span } from "@opentelemetry/api";
import { createHash } from "node:crypto";
import { basename } from "node:path";
import type { Job, NewJob } from "../../core/job.ts";
import { readTraceparent, type TraceContext } from "../../core/trace_context.ts";
import type { AttemptEnd } from "../../core/transition.ts";
import { withoutPassword } from "../../view/text.ts";

type Described = Pick<NewJob, "task" | "key" | "argv" | "input">;

const SYSTEM = { "messaging.system": "lease" };

function digits(...parts: readonly (string | number)[]): string {
  return createHash("sha256").update(parts.join("/")).digest("hex");
}

/** Where the trace of a job begins that brings none. */
export function derivedRoot(store_id: string, job: number): Pick<TraceContext, "trace_id" | "span_id"> {
  const text = digits(store_id, job);
  return { trace_id: text.slice(0, 32), span_id: text.slice(32, 48) };
}

export function attemptSpanId(store_id: string, job: number, token: number): string {
  return digits(store_id, job, token).slice(0, 16);
}

/** The span that a job goes on from, which is that of its enqueue where that was traced. */
export function broughtContext({ env }: Pick<Job, "env">): TraceContext | null {
  return readTraceparent(env["TRACEPARENT"]);
}

export function contextOf(span: TraceContext | null): Context {
  return span === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, { ...spanContext(span), isRemote: true });
}

export function contextOfSpan(span: Span): TraceContext {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return { trace_id: traceId, span_id: spanId, sampled: (traceFlags & TraceFlags.SAMPLED) !== 0 };
}

export function linkTo(span: TraceContext, relation: string): Link {
  return { context: spanContext(span), attributes: { "lease.link": relation } };
}

function spanContext({ trace_id, span_id, sampled }: TraceContext) {
  return { traceId: trace_id, spanId: span_id, traceFlags: sampled ? TraceFlags.SAMPLED : TraceFlags.NONE };
}

/** Of one job, or (null) of many. */
export function enqueueSpan(queue: string, job: Described | null) {
  return {
    name: `enqueue ${queue}`,
    kind: SpanKind.PRODUCER,
    attributes: {
      ...SYSTEM,
      ...operation("enqueue", "send"),
      "messaging.destination.name": queue,
      ...(job === null ? {} : described(job)),
    },
  };
}

export function waitSpan({ queue, id }: Job) {
  const about = { "messaging.destination.name": queue, "messaging.message.id": String(id) };
  return {
    name: `wait ${queue}`,
    kind: SpanKind.INTERNAL,
    attributes: { ...SYSTEM, "messaging.operation.name": "wait", ...about },
  };
}

export function attemptSpan(job: Job) {
  const attributes = {
    ...SYSTEM,
    ...operation("process", "process"),
    "messaging.destination.name": job.queue,
    "messaging.message.id": String(job.id),
    ...(job.state.name === "running" ? { "messaging.client.id": job.state.holder } : {}),
    ...described(job),
    "lease.attempt": job.token,
    "lease.token": job.token,
    "lease.priority": job.priority,
  };
  return { name: `process ${job.queue}`, kind: SpanKind.CONSUMER, attributes };
}

function operation(name: string, type: string): Attributes {
  return { "messaging.operation.name": name, "messaging.operation.type": type };
}

/** The words of a command may hold what is nobody's business. */
function described({ task, key, argv, input }: Described): Attributes {
  const [program] = argv;
  return {
    ...(task === null ? {} : { "messaging.message.conversation_id": task }),
    ...(key === null ? {} : { "lease.key": key }),
    ...(program === undefined ? {} : { "process.executable.name": basename(program) }),
    ...(input === null ? {} : { "messaging.message.body.size": input.length }),
  };
}

/** How an attempt ended, and (null: it did not fail) as what it failed. */
export function endOf(ended: AttemptEnd, state: string): { attributes: Attributes; error: string | null } {
  const { cause, exit_code, signal } = ended;
  const failed = !FINE.has(cause);
  const attributes = {
    "lease.cause": cause,
    "lease.state": state,
    "lease.beats": ended.beats,
    ...(exit_code === null ? {} : { "process.exit.code": exit_code }),
    ...(signal === null ? {} : { "lease.signal": signal }),
    ...(failed ? { "error.type": cause } : {}),
  };
  return { attributes, error: failed ? errorOf(ended) : null };
}

const FINE: ReadonlySet<string> = new Set(["success", "returned", "cancelled"]);

/** What a program printed is not told, though the reason for people may quote it; what a handler threw is. */
function errorOf({ cause, exit_code, signal, error }: AttemptEnd): string {
  if (cause === "exit") return `exit code ${exit_code}`;
  if (cause === "signal") return `signal ${signal}`;
  return cause === "error" ? withoutPasswords(error ?? cause) : cause;
}

function withoutPasswords(text: string): string {
  return text.replaceAll(/[a-z][a-z\d+.-]*:\/\/\S+/gi, withoutPassword);
}
