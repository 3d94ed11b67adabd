/** Traces of a program that uses the library: what it enqueues, and handlers that run inside it. */

import { afterEach, beforeEach, expect, test } from "bun:test";
import { context, trace, type Context, type ContextManager } from "@opentelemetry/api";
import { AsyncLocalStorage } from "node:async_hooks";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { open, type OpenOptions } from "../../src/index.ts";
import { readTraceparent } from "../../src/core/trace_context.ts";
import { Collector, type Span } from "../support/collector.ts";

const QUIET: OpenOptions = { report: () => {} };
let collector: Collector;
let folder: string;

beforeEach(() => {
  collector = new Collector();
  folder = mkdtempSync(join(tmpdir(), "lease-traces-"));
  Object.assign(process.env, collector.env);
});

afterEach(async () => {
  for (const name of Object.keys(collector.env)) delete process.env[name];
  rmSync(folder, { recursive: true });
  await collector[Symbol.asyncDispose]();
});

const first = (name: string) => collector.named(name)[0] as Span;

test("a handler's job is a trace, and the handler can hand its context on", async () => {
  const seen: (string | null)[] = [];
  {
    await using queue = await open(":memory:", QUIET);
    const { id } = await queue.enqueue({ queue: "mail", input: { to: "a" } });
    queue.worker({ queue: "mail", until_empty: true }, (_job, { lease, beat }) => {
      seen.push(lease.traceparent);
      beat();
    });
    await queue.wait(id);
  }
  const [enqueue, attempt] = [first("enqueue mail"), first("process mail")];
  expect(attempt).toMatchObject({ trace_id: enqueue.trace_id, parent_id: enqueue.span_id, kind: "consumer" });
  expect(seen).toEqual([`00-${attempt.trace_id}-${attempt.span_id}-01`]);
  expect(attempt.events.map(({ name }) => name)).toEqual(["started", "beat"]);
});

test("what a handler throws is the error of the span, without passwords", async () => {
  {
    await using queue = await open(":memory:", QUIET);
    const { id } = await queue.enqueue({ input: 1, retries: 0 });
    queue.worker({ until_empty: true }, () => {
      throw new Error("no answer from postgres://me:canary@h/db");
    });
    await queue.wait(id);
  }
  const attempt = first("process default");
  expect(attempt.error).toBe("no answer from postgres://me:…@h/db");
  expect(attempt.about).toMatchObject({ "error.type": "error", "lease.state": "failed" });
  expect(collector.text).not.toContain("canary");
});

/** What the SDK of a program registers, so that its own spans find their parent. */
class Contexts implements ContextManager {
  readonly #storage = new AsyncLocalStorage<Context>();
  readonly #root = context.active();
  active = (): Context => this.#storage.getStore() ?? this.#root;
  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    within: Context,
    call: F,
    self?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return this.#storage.run(within, () => call.call(self as never, ...args));
  }
  bind = <T>(_context: Context, target: T): T => target;
  enable = (): this => this;
  disable = (): this => this;
}

test("spans of the program itself are around the enqueue, and inside of the attempt", async () => {
  context.setGlobalContextManager(new Contexts());
  try {
    const own = { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331", traceFlags: 1 };
    const seen: (string | undefined)[] = [];
    {
      await using queue = await open(":memory:", QUIET);
      const request = trace.setSpanContext(context.active(), own);
      const [{ id } = { id: 0 }] = await context.with(request, () => queue.enqueue([{ input: 1 }, { input: 2 }]));
      queue.worker({ until_empty: true }, async () => {
        await Promise.resolve();
        seen.push(trace.getSpanContext(context.active())?.spanId);
      });
      await queue.wait([id, id + 1]);
    }
    expect(first("enqueue default")).toMatchObject({ trace_id: own.traceId, parent_id: own.spanId });
    const attempts = collector.named("process default");
    expect(attempts.map(({ trace_id }) => trace_id)).toEqual([own.traceId, own.traceId]);
    expect(seen.toSorted()).toEqual(attempts.map(({ span_id }) => span_id).toSorted());
  } finally {
    context.disable();
  }
});

test("a handler in a thread of its own has the context as well", async () => {
  const module = join(folder, "handler.mjs");
  writeFileSync(module, "export default (_job, { lease }) => lease.traceparent;\n");
  await using queue = await open(join(folder, "jobs.db"), QUIET);
  const { id } = await queue.enqueue({ input: 1 });
  queue.worker({ until_empty: true, isolate: true }, pathToFileURL(module));
  const { output } = await queue.wait(id);
  await queue.close();
  expect(readTraceparent(output)).toMatchObject({ span_id: first("process default").span_id });
});

test("without an endpoint a program hands on the trace that it was started in", async () => {
  for (const name of Object.keys(collector.env)) delete process.env[name];
  process.env["TRACEPARENT"] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  try {
    await using queue = await open(":memory:", QUIET);
    const { id } = await queue.enqueue({ input: 1 });
    queue.worker({ until_empty: true }, (_job, { lease }) => lease.traceparent);
    expect((await queue.wait(id)).output).toBe(process.env["TRACEPARENT"]);
    expect(collector.requests).toEqual([]);
  } finally {
    delete process.env["TRACEPARENT"];
  }
});
