/** `lease ui` without a browser: what it answers, on each kind of store and runtime, and how it starts and ends. */

import { afterAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { newSchema, type Schema } from "../support/postgres.ts";
import { environment, expectRefusal, LEASE, ROOT, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();
const schemas: Schema[] = [];
afterAll(async () => {
  for (const schema of schemas) await schema.drop();
});

const DENO = [join(ROOT, "node_modules/.bin/deno"), "run", "-A", join(ROOT, "src/main.ts")];

interface Ui {
  url: string;
  child: Bun.Subprocess<"ignore", "pipe", "pipe">;
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body: object): Promise<T>;
  [Symbol.asyncDispose](): Promise<void>;
}

async function start(
  place: Place,
  flags: readonly string[] = [],
  options: { env?: Record<string, string>; words?: string[] } = {},
) {
  const child = Bun.spawn([...(options.words ?? [LEASE]), "ui", "--port", "0", ...flags], {
    cwd: place.folder,
    env: environment({ ...place.env, DENO_NO_UPDATE_CHECK: "1", ...options.env }),
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const { value } = await child.stdout.getReader().read();
  const url = new TextDecoder().decode(value).trim().replace(/\/$/, "");
  const ui: Ui = {
    url,
    child,
    get: async <T>(path: string) => (await fetch(`${url}/api${path}`)).json() as Promise<T>,
    post: async <T>(path: string, body: object) => {
      const headers = { "content-type": "application/json", origin: url };
      return (
        await fetch(`${url}/api${path}`, { method: "POST", headers, body: JSON.stringify(body) })
      ).json() as Promise<T>;
    },
    async [Symbol.asyncDispose]() {
      child.kill();
      await child.exited;
    },
  };
  return ui;
}

interface Event {
  path: string;
  status: number;
  body: { state?: string; pieces?: { data: string }[] };
}

/** What a tab that shows these paths is told, until `seen` has seen enough. */
async function follow(url: string, paths: readonly string[], seen: (event: Event) => boolean): Promise<void> {
  const query = paths.map((path) => `path=${encodeURIComponent(path)}`).join("&");
  const leaving = new AbortController();
  const response = await fetch(`${url}/api/live?${query}`, { signal: leaving.signal });
  const decoder = new TextDecoder();
  const reader = response.body!.getReader();
  for (let text = ""; ;) {
    const { value } = await reader.read();
    const parts = (text + decoder.decode(value, { stream: true })).split("\n\n");
    text = parts.pop() ?? "";
    const events = parts.filter((part) => part.startsWith("data: ")).map((part) => JSON.parse(part.slice(6)) as Event);
    if (events.some(seen)) return leaving.abort();
  }
}

const KINDS: [string, () => Promise<{ env?: Record<string, string>; words?: string[] }>][] = [
  ["SQLite", async () => ({})],
  [
    "PostgreSQL",
    async () => {
      const schema = await newSchema();
      schemas.push(schema);
      return { env: { LEASE_STORE: schema.url } };
    },
  ],
  ["SQLite, on Deno", async () => ({ words: DENO })],
];

describe.each(KINDS)("the dashboard with a store in %s", (_kind, make) => {
  test("tells what inspect tells, follows a job to its end, and changes what it is asked to", async () => {
    const place = newPlace();
    const options = await make();
    const lease = (...args: string[]) => place.leaseWith({ env: options.env ?? {} }, ...args);
    const id = Number(
      (
        await lease(
          "enqueue",
          "-q",
          "work",
          "-t",
          "T",
          "-c",
          "echo hello; cat; exit 3",
          "--input",
          "in",
          "--retries",
          "0",
          "--env",
          "A=own",
          "--env",
          "TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        )
      ).stdout,
    );
    await using ui = await start(place, [], options);
    expect(await ui.get<object>("/overview")).toMatchObject({
      queues: [{ queue: "work", pending: 1, paused: false }],
      running: [],
    });
    const seen: string[] = [];
    const log: string[] = [];
    const worker = lease("worker", "--until-empty", "-q", "work");
    await follow(ui.url, [`/jobs/${id}`, `/jobs/${id}/log?attempt=1&from=0`], ({ path, body }) => {
      if (path.endsWith("from=0"))
        for (const { data } of body.pieces ?? []) log.push(Buffer.from(data, "base64").toString());
      else if (body.state !== seen.at(-1)) seen.push(body.state ?? "");
      return seen.at(-1) === "failed" && log.join("") === "hello\nin";
    });
    expect((await worker).code).toBe(1);
    const told = JSON.parse((await lease("inspect", String(id), "--json")).stdout) as Record<string, unknown>;
    expect(await ui.get<object>(`/jobs/${id}`)).toMatchObject(told);
    expect(await ui.get<object>("/jobs?q=HELLO&state=failed&queue=work&task=T")).toMatchObject({
      jobs: [{ id, last_beat_at: told["last_beat_at"] }],
      before: null,
    });
    expect(await ui.get<object>("/jobs?q=nothing")).toMatchObject({ jobs: [], before: null });
    expect(await ui.get<object>("/failures")).toMatchObject({
      groups: [{ error: "exit code 3: in", count: 1, ids: [id] }],
    });
    expect(await (await fetch(`${ui.url}/api/jobs/${id}/log.txt?attempt=1`)).text()).toBe("hello\nin");
    expect(await ui.post<object>("/queues/pause", { queue: "work" })).toEqual({ queue: "work", paused: true });
    expect(await ui.post<object>("/jobs/retry", { ids: [id] })).toMatchObject({ jobs: [{ id, status: "pending" }] });
    expect(await ui.get<object>(`/jobs/${id}`)).toMatchObject({ state: "pending", reason: "queue paused" });
    const copy = await ui.post<{ id: number }>("/jobs", { like: id, job: { priority: 3 } });
    expect(await ui.get<object>(`/jobs/${copy.id}`)).toMatchObject({
      priority: 3,
      queue: "work",
      input: "in",
      argv: told["argv"],
    });
    const variables = (await lease("inspect", String(copy.id), "--json", "--show-env")).stdout;
    expect([variables.includes('"own"'), variables.includes("0af7651916cd43dd8448eb211c80319c")]).toEqual([
      true,
      false,
    ]);
    expect(await ui.post<object>("/jobs/cancel", { ids: [id, copy.id] })).toMatchObject({
      jobs: [{ status: "cancelled" }, { status: "cancelled" }],
    });
    expect(await ui.get<object>("/queues")).toMatchObject({
      queues: [{ queue: "work", paused: true, cancelled: 2, pending: 0 }],
    });
    const { history } = await ui.get<{ history: { cancelled: number; failed: number }[] }>("/history?range=hour");
    expect(history).toHaveLength(60);
    expect(history.reduce((sum, point) => sum + point.failed, 0)).toBe(1);
  });
});

describe("lease ui", () => {
  test("says its address on stdout and ends with Ctrl-C as it is meant to", async () => {
    await using ui = await start(newPlace());
    expect(ui.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const response = await fetch(ui.url);
    expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(response.headers.get("content-security-policy")).toContain(
      "default-src 'none'; script-src 'self'; style-src 'self'",
    );
    expect(response.headers.get("content-security-policy")).not.toContain("unsafe");
    ui.child.kill("SIGINT");
    expect(await ui.child.exited).toBe(0);
    expect(await ui.child.stderr.text()).toBe("");
  });

  test("refuses a port that is taken, and an address that is not this machine's", async () => {
    const place = newPlace();
    await using ui = await start(place);
    const { port } = new URL(ui.url);
    expectRefusal(await place.lease("ui", "--port", port), 2, `port ${port} is in use: give another one`);
    expectRefusal(await place.lease("ui", "--host", "192.0.2.1", "--port", "0"), 2, "no such address");
    expectRefusal(await place.lease("ui", "--port", "70000"), 2, "--port");
    expectRefusal(
      await place.leaseWith({ env: { LEASE_UI_TOKEN: "short" } }, "ui", "--host", "0.0.0.0"),
      2,
      "LEASE_UI_TOKEN",
    );
  });

  test("answers what is not understood with what is wrong, and goes on", async () => {
    await using ui = await start(newPlace());
    for (const [path, body] of [
      ["/jobs/cancel", { ids: ["7"] }],
      ["/jobs/cancel", { ids: [] }],
      ["/jobs/retry", {}],
      ["/jobs", { job: { nonsense: 1 } }],
      ["/jobs", { job: {} }],
      ["/jobs", { job: { argv: ["x"], env: "PATH" } }],
      ["/queues/pause", { queue: "" }],
    ] as const) {
      expect(await ui.post<object>(path, body)).toEqual({ error: expect.stringMatching(/./) });
    }
    expect(await ui.get<object>("/jobs/7/log")).toEqual({ error: expect.any(String) });
    expect(await ui.get<object>("/history?range=__proto__")).toEqual({ error: expect.any(String) });
    expect((await fetch(`${ui.url}/api/live`)).status).toBe(400);
    expect((await fetch(`${ui.url}/api/live?path=//evil.example/x`)).status).toBe(200);
    expect((await fetch(`${ui.url}/../../etc/passwd`)).status).toBe(404);
    expect(await ui.get<object>("/jobs")).toMatchObject({ jobs: [] });
  });

  test("answers an address that is none with what there is, whoever asks and however", async () => {
    await using ui = await start(newPlace());
    const error = expect.stringContaining("lease inspect --json");
    for (const method of ["GET", "POST", "PUT", "DELETE"]) {
      const response = await fetch(`${ui.url}/api/nope`, { method });
      expect([method, response.status, await response.json()]).toEqual([method, 404, { error }]);
    }
    expect((await fetch(`${ui.url}/api/jobs/cancel`, { method: "POST" })).status).toBe(403);
    const other = { origin: "http://evil.example", "content-type": "application/json" };
    expect((await fetch(`${ui.url}/api/jobs/cancel`, { method: "POST", headers: other, body: "{}" })).status).toBe(403);
  });

  test("takes no more than a job can be, and says so; what is no JSON is told apart from that", async () => {
    await using ui = await start(newPlace());
    const headers = { "content-type": "application/json", origin: ui.url };
    const send = async (body: string | ReadableStream, path = "/jobs") => {
      const response = await fetch(`${ui.url}/api${path}`, { method: "POST", headers, body });
      return [response.status, ((await response.json()) as { error: string }).error];
    };
    const large = JSON.stringify({ job: { argv: ["cat"], input: "x".repeat(5_000_000) } });
    const refused = [413, "this is larger than 4 MiB: put it into a file, and let the job read that"];
    expect(await send(large)).toEqual(refused);
    expect(await send(new Blob([large]).stream())).toEqual(refused);
    expect(await send(large, "/login")).toEqual(refused);
    expect(await send("{")).toEqual([400, "what was sent is not JSON"]);
    expect(await ui.get<object>("/jobs")).toMatchObject({ jobs: [] });
  });

  test("tells of a store that goes away, and ends", async () => {
    const place = newPlace();
    await place.enqueue("true");
    await using ui = await start(place);
    await Bun.$`rm -rf ${place.store} ${`${place.store}-wal`} ${`${place.store}-shm`}`.quiet();
    expect(await ui.child.exited).toBe(125);
    expect(await ui.child.stderr.text()).toMatch(/^lease: [^\n]+\n/);
  });
});
