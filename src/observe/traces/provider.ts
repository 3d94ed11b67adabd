/** OpenTelemetry's SDK as its variables ask for it, with ids that can be given, and an exporter that never delays us. */

import type { Span, SpanOptions, Context, Tracer } from "@opentelemetry/api";
import { OTLPTraceExporter as JsonExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as ProtobufExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { detectResources, envDetector, resourceFromAttributes } from "@opentelemetry/resources";
import { AlwaysOffSampler, AlwaysOnSampler, BatchSpanProcessor, ParentBasedSampler } from "@opentelemetry/sdk-trace";
import { RandomIdGenerator, TraceIdRatioBasedSampler, TracerProvider } from "@opentelemetry/sdk-trace";
import type { IdGenerator, ReadableSpan, Sampler, SpanExporter } from "@opentelemetry/sdk-trace";
import { isSettledWithin } from "../../core/clock.ts";
import { errorText, LeaseError } from "../../core/errors.ts";
import { systemClock } from "../../platform/clock.ts";
import { host } from "../../platform/machine.ts";
import { withoutPassword } from "../../view/text.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** Shorter than the SDK's first pause before it tries again: what is sent last is sent once. */
const LAST_TRY_MS = 750;
/** For what was on its way before, too. */
const END_WITHIN_MS = 1_000;

/** Ids that somebody else can work out as well; random ones where none was given. */
class GivenIds implements IdGenerator {
  readonly #random = new RandomIdGenerator();
  trace_id: string | null = null;
  span_id: string | null = null;

  generateTraceId(): string {
    return this.trace_id ?? this.#random.generateTraceId();
  }

  generateSpanId(): string {
    return this.span_id ?? this.#random.generateSpanId();
  }
}

export class Provider {
  readonly #ids = new GivenIds();
  readonly #exporter: QuietExporter;
  readonly #provider: TracerProvider;
  readonly #tracer: Tracer;

  constructor(env: Env, version: string, trouble: (text: string) => void) {
    this.#exporter = new QuietExporter(env, trouble);
    const own = { "service.name": "lease", "service.version": version, "host.name": host };
    this.#provider = new TracerProvider({
      resource: resourceFromAttributes(own).merge(detectResources({ detectors: [envDetector] })),
      sampler: samplerOf(env),
      idGenerator: this.#ids,
      spanProcessors: [new BatchSpanProcessor({ exporter: this.#exporter, ...batching(env) })],
    });
    this.#tracer = this.#provider.getTracer("lease", version);
  }

  start(name: string, options: SpanOptions, parent: Context, ids: { trace_id?: string; span_id?: string } = {}): Span {
    this.#ids.trace_id = ids.trace_id ?? null;
    this.#ids.span_id = ids.span_id ?? null;
    return this.#tracer.startSpan(name, options, parent);
  }

  async end(): Promise<void> {
    this.#exporter.last = true;
    const ended = this.#provider.shutdown().catch(() => {});
    if (!(await isSettledWithin(systemClock, END_WITHIN_MS, ended))) this.#exporter.complain("it does not answer");
  }
}

/** Says once that spans can't be sent; they are lost then, and nothing else is. */
class QuietExporter implements SpanExporter {
  /** What comes now is the last: it is not worth waiting for. */
  last = false;
  readonly #steady: SpanExporter;
  readonly #last: SpanExporter;
  readonly #url: string;
  readonly #trouble: (text: string) => void;
  #told = false;

  constructor(env: Env, trouble: (text: string) => void) {
    const url = endpointOf(env);
    const protocol = env["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] || env["OTEL_EXPORTER_OTLP_PROTOCOL"];
    const Exporter = protocol === "http/json" ? JsonExporter : ProtobufExporter;
    if (protocol === "grpc") {
      throw new LeaseError("usage", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not spoken here: say http/protobuf");
    }
    this.#steady = new Exporter();
    const timeout_ms = Number(env["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"] || env["OTEL_EXPORTER_OTLP_TIMEOUT"]);
    this.#last = new Exporter({ timeoutMillis: timeout_ms > 0 ? Math.min(timeout_ms, LAST_TRY_MS) : LAST_TRY_MS });
    this.#url = withoutPassword(url);
    this.#trouble = trouble;
  }

  export(spans: ReadableSpan[], done: Parameters<SpanExporter["export"]>[1]): void {
    (this.last ? this.#last : this.#steady).export(spans, (result) => {
      if (result.error !== undefined) this.complain(errorText(result.error) || "it refused them");
      done(result);
    });
  }

  complain(why: string): void {
    if (!this.#told) this.#trouble(`traces can't be sent to ${this.#url}: ${withoutPassword(why)}`);
    this.#told = true;
  }

  async shutdown(): Promise<void> {
    await Promise.all([this.#steady.shutdown(), this.#last.shutdown()]);
  }
}

function endpointOf(env: Env): string {
  const named = env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] || env["OTEL_EXPORTER_OTLP_ENDPOINT"] || "";
  if (/^https?:$/.test(URL.parse(named)?.protocol ?? "")) return named;
  throw new LeaseError("usage", `OTEL_EXPORTER_OTLP_ENDPOINT ${withoutPassword(named)} is no http:// address`);
}

/** Parents decide unless told otherwise: who enqueues says whether the whole job is traced. */
function samplerOf(env: Env): Sampler {
  const name = env["OTEL_TRACES_SAMPLER"] || "parentbased_always_on";
  const root = rootSampler(name.replace(/^parentbased_/, ""), env["OTEL_TRACES_SAMPLER_ARG"]);
  if (root === null) {
    const known = "always_on, always_off or traceidratio, with or without parentbased_ before it";
    throw new LeaseError("usage", `OTEL_TRACES_SAMPLER ${name} is not known: it is ${known}`);
  }
  return name.startsWith("parentbased_") ? new ParentBasedSampler({ root }) : root;
}

function rootSampler(name: string, ratio: string | undefined): Sampler | null {
  if (name === "always_on") return new AlwaysOnSampler();
  if (name === "always_off") return new AlwaysOffSampler();
  return name === "traceidratio" ? new TraceIdRatioBasedSampler(Number(ratio || 1)) : null;
}

function batching(env: Env) {
  const named = {
    scheduledDelayMillis: "OTEL_BSP_SCHEDULE_DELAY",
    exportTimeoutMillis: "OTEL_BSP_EXPORT_TIMEOUT",
    maxQueueSize: "OTEL_BSP_MAX_QUEUE_SIZE",
    maxExportBatchSize: "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
  };
  const given = Object.entries(named).map(([option, variable]) => [option, Number(env[variable] || NaN)] as const);
  return Object.fromEntries(given.filter(([, value]) => value > 0));
}
