/** A collector of traces on this machine: OTLP over HTTP as OpenTelemetry's SDKs speak it, kept as plain objects. */

interface Value {
  stringValue?: string;
  intValue?: string | number;
  boolValue?: boolean;
  doubleValue?: number;
}

interface Pair {
  key: string;
  value: Value;
}

interface SentSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: Pair[];
  events: { name: string; timeUnixNano: string; attributes: Pair[] }[];
  links: { traceId: string; spanId: string; attributes: Pair[] }[];
  status: { code?: number; message?: string };
}

interface SentTraces {
  resourceSpans: { resource: { attributes: Pair[] }; scopeSpans: { spans: SentSpan[] }[] }[];
}

type Facts = Record<string, string | number | boolean>;

export interface Span {
  name: string;
  kind: "internal" | "server" | "client" | "producer" | "consumer";
  trace_id: string;
  span_id: string;
  parent_id: string | null;
  start_ms: number;
  end_ms: number;
  about: Facts;
  resource: Facts;
  events: { name: string; at_ms: number; about: Facts }[];
  links: { trace_id: string; span_id: string; about: Facts }[];
  /** Null: it did not fail. */
  error: string | null;
}

const KINDS = ["internal", "internal", "server", "client", "producer", "consumer"] as const;
const FAILED = 2;

export class Collector implements AsyncDisposable {
  readonly spans: Span[] = [];
  readonly requests: { path: string; type: string; headers: Headers; body: Uint8Array }[] = [];
  readonly #server: Bun.Server<undefined>;

  /** `answer`: what it does with each, instead of taking it. */
  constructor(answer?: () => Response | Promise<Response>) {
    this.#server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      idleTimeout: 0,
      fetch: async (request) => {
        const body = new Uint8Array(await request.arrayBuffer());
        const type = request.headers.get("content-type") ?? "";
        this.requests.push({ path: new URL(request.url).pathname, type, headers: request.headers, body });
        if (answer !== undefined) return answer();
        if (type === "application/json") this.spans.push(...spansOf(new TextDecoder().decode(body)));
        return new Response("{}", { headers: { "content-type": type } });
      },
    });
  }

  /** What a program needs to know to send them here, in JSON. */
  get env(): Record<string, string> {
    return { OTEL_EXPORTER_OTLP_ENDPOINT: this.url, OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" };
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  /** Of one trace, or all, by what they are called and when they began. */
  named(name: string, trace_id?: string): Span[] {
    return this.spans
      .filter((span) => span.name === name && (trace_id === undefined || span.trace_id === trace_id))
      .toSorted((a, b) => a.start_ms - b.start_ms);
  }

  /** Everything that ever came, as text. */
  get text(): string {
    return this.requests.map(({ body }) => new TextDecoder().decode(body)).join("\n");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop(true);
  }
}

function spansOf(text: string): Span[] {
  const { resourceSpans } = JSON.parse(text) as SentTraces;
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) => spans.map((span) => spanOf(span, facts(resource.attributes)))),
  );
}

function spanOf(sent: SentSpan, resource: Facts): Span {
  return {
    name: sent.name,
    kind: KINDS[sent.kind] ?? "internal",
    trace_id: sent.traceId,
    span_id: sent.spanId,
    parent_id: sent.parentSpanId ?? null,
    start_ms: moment(sent.startTimeUnixNano),
    end_ms: moment(sent.endTimeUnixNano),
    about: facts(sent.attributes),
    resource,
    events: sent.events.map(({ name, timeUnixNano, attributes }) => ({
      name,
      at_ms: moment(timeUnixNano),
      about: facts(attributes),
    })),
    links: sent.links.map((link) => ({
      trace_id: link.traceId,
      span_id: link.spanId,
      about: facts(link.attributes),
    })),
    error: sent.status.code === FAILED ? (sent.status.message ?? "") : null,
  };
}

/** In milliseconds, as exact as the SDK's sums of fractions are. */
function moment(nanoseconds: string): number {
  return Math.round(Number(nanoseconds) / 1e3) / 1e3;
}

function facts(pairs: readonly Pair[]): Facts {
  return Object.fromEntries(
    pairs.map(({ key, value: { stringValue, intValue, boolValue, doubleValue } }) => [
      key,
      stringValue ?? boolValue ?? Number(intValue ?? doubleValue),
    ]),
  );
}
