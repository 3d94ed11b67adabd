/** Traces of the compiled lease and of lease on Deno, as a collector on this machine gets them, on both engines. */

import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Collector, type Span } from "../support/collector.ts";
import { newSchema, type Schema } from "../support/postgres.ts";
import { environment, LEASE, Place, ROOT, run, until, usePlaces } from "./lease.ts";

const newPlace = usePlaces();
const schemas: Schema[] = [];
afterAll(async () => {
  for (const schema of schemas) await schema.drop();
});

class PostgresPlace extends Place {
  readonly #url: string;

  constructor(folder: string, url: string) {
    super(folder);
    this.#url = url;
  }

  override get env(): Record<string, string> {
    return { ...super.env, LEASE_STORE: this.#url };
  }
}

const ENGINES = {
  SQLite: async () => newPlace(),
  PostgreSQL: async () => {
    const schema = await newSchema();
    schemas.push(schema);
    return new PostgresPlace(newPlace().folder, schema.url);
  },
};

const CALLER = { trace_id: "0af7651916cd43dd8448eb211c80319c", span_id: "b7ad6b7169203331" };
const TRACEPARENT = `00-${CALLER.trace_id}-${CALLER.span_id}-01`;
const PRINT = ["--", "sh", "-c", "echo $TRACEPARENT"];
const contextOf = ({ trace_id, span_id }: Span) => `00-${trace_id}-${span_id}-01`;

function only(spans: readonly Span[]): Span {
  expect(spans).toHaveLength(1);
  return spans[0] as Span;
}

describe.each(Object.entries(ENGINES))("with a store in %s", (_engine, newStore) => {
  test("a job is one trace: its enqueue, its waits, its attempts, and what its program adds", async () => {
    const place = await newStore();
    await using collector = new Collector();
    const { env } = collector;
    const line = ["-q", "mail", "-t", "letters", "--retries", "1", "--backoff", "fixed:1s"];
    const script = 'echo $TRACEPARENT > "$HOME/$LEASE_ATTEMPT"; test $LEASE_ATTEMPT = 2';
    const queued = await place.leaseWith({ env }, "enqueue", ...line, "--input", "hello", "--", "sh", "-c", script);
    expect(queued).toEqual({ code: 0, stdout: "1\n", stderr: "" });
    expect((await place.leaseWith({ env }, "worker", "-q", "mail", "--until-empty")).code).toBe(0);

    const enqueue = only(collector.named("enqueue mail"));
    expect(enqueue).toMatchObject({ kind: "producer", parent_id: null, error: null });
    const about = {
      "messaging.system": "lease",
      "messaging.destination.name": "mail",
      "messaging.message.id": "1",
      "messaging.message.conversation_id": "letters",
      "messaging.message.body.size": 5,
      "process.executable.name": "sh",
    };
    expect(enqueue.about).toMatchObject({ ...about, "messaging.operation.type": "send" });
    expect(enqueue.resource).toMatchObject({ "service.name": "lease", "service.version": expect.any(String) });

    const children = { trace_id: enqueue.trace_id, parent_id: enqueue.span_id };
    const [first, second] = collector.named("process mail") as [Span, Span];
    expect(first).toMatchObject({ ...children, kind: "consumer", error: "exit code 1" });
    expect(first.about).toMatchObject({ ...about, "lease.attempt": 1, "lease.cause": "exit", "error.type": "exit" });
    expect(second).toMatchObject({ ...children, kind: "consumer", error: null });
    expect(second.about).toMatchObject({ "lease.attempt": 2, "lease.cause": "success", "process.exit.code": 0 });
    expect(second.links).toMatchObject([{ trace_id: first.trace_id, span_id: first.span_id }]);
    for (const [name, attempt] of [["1", first] as const, ["2", second] as const]) {
      expect(readFileSync(join(place.folder, name), "utf8").trim()).toBe(contextOf(attempt));
      expect(attempt.events.map((event) => event.name)).toContain("started");
    }

    const [wait, pause] = collector.named("wait mail") as [Span, Span];
    expect([wait, pause]).toMatchObject([children, children]);
    expect(wait.end_ms).toBe(first.start_ms);
    expect(pause.end_ms).toBe(second.start_ms);
    expect(pause.start_ms).toBeGreaterThanOrEqual(first.start_ms);
    expect(pause.events.map((event) => event.name)).toEqual(["due"]);
    expect(collector.spans).toHaveLength(5);
  });

  test("beats and extensions are events of the attempt", async () => {
    const place = await newStore();
    await using collector = new Collector();
    const { env } = collector;
    const script = "for i in 1 2 3 4 5; do echo $i; sleep 0.15; done";
    await place.enqueue("--lease", "1s", "--interval", "100ms", "-c", script);
    await place.leaseWith({ env }, "worker", "--until-empty");
    const attempt = only(collector.named("process default"));
    const names = attempt.events.map((event) => event.name);
    expect(names.slice(0, 2)).toEqual(["started", "beat"]);
    expect(names.filter((name) => name === "extended").length).toBeGreaterThanOrEqual(3);
    for (const { at_ms } of attempt.events) {
      expect(at_ms).toBeGreaterThanOrEqual(attempt.start_ms);
      expect(at_ms).toBeLessThanOrEqual(attempt.end_ms + 1);
    }
    expect(attempt.about["lease.beats"]).toBe(5);
  });

  test("a job whose enqueuer did not trace has its enqueue told by whoever runs it first", async () => {
    const place = await newStore();
    await using collector = new Collector();
    const { env } = collector;
    await place.enqueue("--retries", "1", "--backoff", "none", "-c", "test $LEASE_ATTEMPT = 2");
    await place.leaseWith({ env }, "worker", "--until-empty");
    const enqueue = only(collector.named("enqueue default"));
    const created_at_ms = Date.parse((await place.inspect(1)).created_at);
    expect(enqueue).toMatchObject({ kind: "producer", parent_id: null, start_ms: created_at_ms });
    const attempts = collector.named("process default");
    expect(attempts.map(({ trace_id, parent_id }) => [trace_id, parent_id])).toEqual([
      [enqueue.trace_id, enqueue.span_id],
      [enqueue.trace_id, enqueue.span_id],
    ]);
  });

  test("of a worker that was killed, whoever recovers the job tells the attempt", async () => {
    const place = await newStore();
    await using collector = new Collector();
    const { env } = collector;
    await place.enqueue("-c", 'echo $TRACEPARENT > "$HOME/context"; mv "$HOME/context" "$HOME/told"; sleep 60');
    const worker = Bun.spawn([LEASE, "worker"], {
      cwd: place.folder,
      env: environment({ ...place.env, ...env }),
      stdio: ["ignore", "ignore", "ignore"],
    });
    const told = join(place.folder, "told");
    await until(() => existsSync(told));
    worker.kill("SIGKILL");
    await worker.exited;
    expect((await place.leaseWith({ env }, "watchdog", "--once")).stdout).toContain("1 recovered");
    const attempt = only(collector.named("process default"));
    expect(contextOf(attempt)).toBe(readFileSync(told, "utf8").trim());
    expect(attempt).toMatchObject({ error: "lost", about: { "lease.cause": "lost", "lease.state": "pending" } });
    await place.lease("cancel", "1");
  });

  test("lease run is traced as well, in the trace that it was started in", async () => {
    const place = await newStore();
    await using collector = new Collector();
    const { stdout } = await place.leaseWith({ env: { ...collector.env, TRACEPARENT } }, "run", ...PRINT);
    const enqueue = only(collector.named("enqueue default"));
    expect(enqueue).toMatchObject({ trace_id: CALLER.trace_id, parent_id: CALLER.span_id });
    const attempt = only(collector.named("process default"));
    expect(attempt).toMatchObject({ trace_id: CALLER.trace_id, parent_id: enqueue.span_id });
    expect(stdout.trim()).toBe(contextOf(attempt));
  });

  test("many jobs at once have a trace each, or go on in that of whoever enqueued them", async () => {
    const place = await newStore();
    await using collector = new Collector();
    const { env } = collector;
    const bulk = ["enqueue", "-q", "bulk", "--from", "-", "--lines", "--", "true"];
    expect((await place.leaseWith({ env, stdin: "a\nb\n" }, ...bulk)).stdout).toBe("1\n2\n");
    expect((await place.leaseWith({ env: { ...env, TRACEPARENT }, stdin: "c\nd\n" }, ...bulk)).stdout).toBe("3\n4\n");
    await place.leaseWith({ env }, "worker", "-q", "bulk", "--until-empty");
    const batches = collector.named("enqueue bulk").filter(({ about }) => "messaging.batch.message_count" in about);
    expect(batches.map(({ about }) => about["messaging.batch.message_count"])).toEqual([2, 2]);
    const traceOf = (id: number) =>
      only(collector.named("process bulk").filter(({ about }) => about["messaging.message.id"] === String(id)))
        .trace_id;
    expect(batches[0]?.links.map(({ trace_id }) => trace_id)).toEqual([traceOf(1), traceOf(2)]);
    expect(traceOf(1)).not.toBe(traceOf(2));
    expect([batches[1]?.parent_id, traceOf(3), traceOf(4)]).toEqual([CALLER.span_id, CALLER.trace_id, CALLER.trace_id]);
  });
});

test("nothing secret leaves: no variable, input, output, argument or password", async () => {
  const place = newPlace();
  await using collector = new Collector();
  const env = { ...collector.env, SECRET_A: "canary-a" };
  const words = ["--env", "SECRET_A", "--env", "B=canary-b", "--input", "canary-c", "--retries", "0"];
  const url = "postgres://u:canary-d@h/db";
  await place.leaseWith({ env }, "enqueue", ...words, "--", "sh", "-c", `echo canary-e; : ${url}; exit 1`);
  await place.leaseWith({ env }, "enqueue", ...words, "--lease", "1s", "-c", "echo canary-f; sleep 60");
  await place.leaseWith({ env }, "worker", "--until-empty");
  expect(collector.named("process default").map(({ error }) => error)).toEqual(["exit code 1", "silent"]);
  expect(collector.text).not.toContain("canary");
});

test("log lines as JSON name the trace", async () => {
  const place = newPlace();
  await using collector = new Collector();
  await place.enqueue("--", "true");
  const worker = ["worker", "--until-empty", "--log-format", "json"];
  const { stderr } = await place.leaseWith({ env: collector.env }, ...worker);
  const lines = stderr
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const { trace_id, span_id } = only(collector.named("process default"));
  const about = lines.filter(({ job }) => job === 1);
  expect(about.map(({ event }) => event)).toEqual(["acquired", "started", "ended"]);
  for (const line of about) expect(line).toMatchObject({ trace_id, span_id });
});

describe("what the variables of OpenTelemetry say", () => {
  test("protobuf is what is spoken unless told, with headers, and the service has its name", async () => {
    const place = newPlace();
    await using collector = new Collector();
    const env = {
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/mine`,
      OTEL_EXPORTER_OTLP_HEADERS: "x-api-key=k",
      OTEL_SERVICE_NAME: "shop",
    };
    expect(await place.leaseWith({ env }, "enqueue", "--", "true")).toEqual({ code: 0, stdout: "1\n", stderr: "" });
    const [sent] = collector.requests;
    expect(sent).toMatchObject({ path: "/mine", type: "application/x-protobuf" });
    expect(sent?.headers.get("x-api-key")).toBe("k");
    for (const word of ["enqueue default", "shop", "messaging.system"]) expect(collector.text).toContain(word);
  });

  test.each([{ OTEL_SDK_DISABLED: "true" }, { OTEL_TRACES_EXPORTER: "none" }, { OTEL_TRACES_SAMPLER: "always_off" }])(
    "%p: nothing is sent",
    async (off) => {
      const place = newPlace();
      await using collector = new Collector();
      const env = { ...collector.env, ...off };
      expect(await place.leaseWith({ env }, "run", "--", "true")).toEqual({ code: 0, stdout: "", stderr: "" });
      expect(collector.requests).toEqual([]);
    },
  );

  test("whoever enqueues decides whether a job is traced", async () => {
    const place = newPlace();
    await using collector = new Collector();
    const { env } = collector;
    const unsampled = `00-${CALLER.trace_id}-${CALLER.span_id}-00`;
    const { stdout } = await place.leaseWith({ env: { ...env, TRACEPARENT: unsampled } }, "run", ...PRINT);
    expect(stdout).toMatch(new RegExp(`^00-${CALLER.trace_id}-[\\da-f]{16}-00\n$`));
    expect(collector.spans).toEqual([]);
  });

  test.each([
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "nowhere" }, "OTEL_EXPORTER_OTLP_ENDPOINT nowhere is no http:// address"],
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" }, "say http/protobuf"],
    [{ OTEL_TRACES_SAMPLER: "sometimes" }, "OTEL_TRACES_SAMPLER sometimes is not known"],
  ])("%p is a line, and nothing else is different", async (odd, why) => {
    const place = newPlace();
    await using collector = new Collector();
    const { code, stdout, stderr } = await place.leaseWith(
      { env: { ...collector.env, ...odd } },
      "enqueue",
      "--",
      "true",
    );
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: "1\n", stderr: expect.stringContaining(why) });
    expect(stderr).toMatch(/^lease: nothing is traced: [^\n]+\n$/);
  });
});

describe("a collector in trouble", () => {
  // Nobody but lease itself cuts these waits short.
  const slow = {
    OTEL_EXPORTER_OTLP_TIMEOUT: "600000",
    OTEL_BSP_EXPORT_TIMEOUT: "600000",
    OTEL_BSP_SCHEDULE_DELAY: "1",
  };

  test("one that is not there costs a line without its password, and no job", async () => {
    const place = newPlace();
    const env = { ...slow, OTEL_EXPORTER_OTLP_ENDPOINT: "http://me:canary@127.0.0.1:1" };
    const line = /^lease: traces can't be sent to http:\/\/me:…@127\.0\.0\.1:1: [^\n]+\n$/;
    const queued = await place.leaseWith({ env }, "enqueue", "--", "echo", "hello");
    expect(queued).toEqual({ code: 0, stdout: "1\n", stderr: expect.stringMatching(line) });
    const { code, stderr } = await place.leaseWith({ env }, "worker", "--until-empty");
    expect([code, stderr.match(/traces can't be sent/g)?.length]).toEqual([0, 1]);
    expect(`${queued.stderr}${stderr}`).not.toContain("canary");
    expect((await place.inspect(1)).state).toBe("completed");
    const ran = await place.leaseWith({ env }, "run", "--", "echo", "hello");
    expect(ran).toEqual({ code: 0, stdout: "hello\n", stderr: expect.stringMatching(line) });
  });

  test("one that never answers keeps neither jobs nor the end of lease", async () => {
    const place = newPlace();
    await using collector = new Collector(() => new Promise<Response>(() => {}));
    const env = { ...collector.env, ...slow };
    for (let id = 1; id <= 20; id++) await place.enqueue("--", "true");
    const { code, stderr } = await place.leaseWith({ env }, "worker", "--until-empty");
    expect([code, stderr.match(/traces can't be sent/g)?.length]).toEqual([0, 1]);
    expect(
      (await place.lease("inspect", "jobs", "--status", "completed", "--json", "--limit", "100")).stdout
        .trim()
        .split("\n"),
    ).toHaveLength(20);
    const queued = await place.leaseWith({ env }, "enqueue", "--", "true");
    expect(queued).toMatchObject({ code: 0, stdout: "21\n" });
    expect(queued.stderr).toMatch(/^lease: traces can't be sent to [^\n]+\n$/);
  });

  test("one that refuses is said once, whatever the worker runs", async () => {
    const place = newPlace();
    await using collector = new Collector(() => new Response("no", { status: 403 }));
    const env = { ...collector.env, ...slow };
    for (let id = 1; id <= 5; id++) await place.enqueue("--", "true");
    const { code, stderr } = await place.leaseWith({ env }, "worker", "--until-empty");
    expect([code, stderr.match(/traces can't be sent/g)?.length]).toEqual([0, 1]);
  });
});

test("on Deno the spans are the same", async () => {
  const place = newPlace();
  await using collector = new Collector();
  const deno = (...args: string[]) =>
    run([join(ROOT, "node_modules/.bin/deno"), "run", "-A", join(ROOT, "src/main.ts"), ...args], {
      cwd: place.folder,
      env: { ...place.env, ...collector.env, DENO_NO_UPDATE_CHECK: "1" },
    });
  expect((await deno("enqueue", ...PRINT)).stdout).toBe("1\n");
  await deno("worker", "--until-empty");
  const enqueue = only(collector.named("enqueue default"));
  const attempt = only(collector.named("process default"));
  expect(attempt).toMatchObject({ trace_id: enqueue.trace_id, parent_id: enqueue.span_id });
  expect((await place.log(1)).trim()).toBe(contextOf(attempt));
});
