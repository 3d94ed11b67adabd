/** `SELECT lease.enqueue(…)`: the same jobs, the same refusals as a line of JSON, in somebody else's transaction. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import postgres from "postgres";
import { jobOfLine } from "../../src/config/job_json.ts";
import { draftJob } from "../../src/core/draft.ts";
import { JOB_FIELD_NAMES } from "../../src/core/job_fields.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import type { Store } from "../../src/store/store.ts";
import { acquireRequest, only, Subject } from "../contract/subject.ts";
import { end, newJob } from "../support/jobs.ts";
import { newSchema, type Schema } from "../support/postgres.ts";

setDefaultTimeout(30_000);

const clearing: (() => unknown)[] = [];
let schema: Schema;
let store: Store;

beforeAll(async () => {
  schema = await newSchema();
  clearing.push(() => schema.drop());
  store = await openPostgres(schema.url, { clock: systemClock, random: systemRandom });
  clearing.push(() => store.close());
});
afterAll(async () => {
  for (const clear of clearing.toReversed()) await clear();
});

type Sql = Pick<postgres.Sql, "unsafe">;

async function enqueue(job: unknown, sql: Sql = schema.sql): Promise<number> {
  const text = typeof job === "string" ? job : JSON.stringify(job);
  const [row] = await sql.unsafe(`SELECT ${schema.name}.enqueue($1::text::jsonb) AS id`, [text]);
  return Number(row?.["id"]);
}

async function refusal(job: unknown, sql?: Sql): Promise<string> {
  try {
    await enqueue(job, sql);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error("it was accepted");
}

const CONTEXT = {
  env: {},
  folder: (path: string) => path,
  moment: (text: string) => Date.parse(text),
  input: (text: string) => new TextEncoder().encode(text),
};

const fromJson = (job: object) => jobOfLine(JSON.stringify(job), draftJob("/"), CONTEXT);

/** What there is of a job but its id and the time at which it was made. */
async function seen(id: number) {
  const [job] = await store.jobs([id]);
  if (!job) throw new Error(`there is no job ${id}`);
  const { id: _id, created_at_ms, run_at_ms, state, ...rest } = job;
  return { ...rest, state: state.name, wait_ms: Math.round((run_at_ms - created_at_ms) / 60_000) };
}

const SAME: [what: string, job: object][] = [
  ["words", { argv: ["echo", 'a "b" \\ {} NULL', "ü\u{1F980}", ""] }],
  ["a shell line", { shell: "a | b" }],
  ["names and a priority", { argv: ["x"], queue: "mail ü", task: "t", priority: -7 }],
  ["a priority as text", { argv: ["x"], priority: "12" }],
  ["input alone", { input: "line\n\ttext" }],
  ["a folder and variables", { argv: ["x"], cwd: "/tmp", env: { A: "1", B_2: "a=b,c" } }],
  ["nothing said", { argv: ["x"], task: null, env: {}, retries: null }],
  ["a delay", { argv: ["x"], delay: "1h30m" }],
  ["a lease", { argv: ["x"], lease: "30s", retries: 0 }],
  ["a learned lease", { argv: ["x"], lease: "auto", retries: "7" }],
  ["a time of parts", { argv: ["x"], timeout: "1.5h2m3s4ms" }],
  ["no backoff", { argv: ["x"], backoff: "none" }],
  ["a fixed backoff", { argv: ["x"], backoff: "fixed:30s" }],
  ["a backoff from", { argv: ["x"], backoff: "20m" }],
  ["a backoff from to", { argv: ["x"], backoff: "2s..5m" }],
  ["exit codes as text", { argv: ["x"], fatal_exit: "2,64-78" }],
  ["exit codes as a list", { argv: ["x"], fatal_exit: [2, "64-78"] }],
  ["an exit code", { argv: ["x"], fatal_exit: 3 }],
  ["sizes", { argv: ["x"], log_limit: "64k", output_limit: 4096 }],
  ["a size with a unit", { argv: ["x"], log_limit: "2 MiB" }],
  ["choices", { argv: ["x"], beat: "timer", retry_on: "lost", pty: true }],
  ["what is usual", { argv: ["x"], beat: null, retry_on: "any", pty: false, log_limit: "16MiB", retries: 3 }],
];

const SAME_LATER: typeof SAME = [
  ["limits", { argv: ["x"], limit: ["b", "a", "b"] }],
  ["a limit as text", { argv: ["x"], limit: "api ü,db" }],
  ["needs", { argv: ["x"], need: { mem: "8G", gpu: 2 } }],
  ["needs as text", { argv: ["x"], need: "gpu,mem=1.5g" }],
  ["needs as a list, and a limit", { argv: ["x"], need: ["gpu=3", "disk=512MiB"], limit: "one" }],
  ["bounds", { argv: ["x"], memory: "8G", pids: 100, cpus: 0.5 }],
  ["bounds as text", { argv: ["x"], memory: "512M", pids: "7", cpus: "2" }],
  ["times", { argv: ["x"], lease: "1m", interval: "5s", extension: "30s", grace: "3s" }],
  ["a grace without end, and a hook", { argv: ["x"], grace: "never", on_failed: "notify 'it'" }],
];

describe("a job by SQL", () => {
  test.each(SAME_LATER)("is bounded as a line of JSON has it: %s", async (_, job) => {
    const [ours] = await store.enqueue([fromJson(job)]);
    expect(await seen(await enqueue(job))).toEqual(await seen(ours?.id ?? 0));
  });

  test("has every name that a line of JSON has", async () => {
    const message = await refusal({ argv: ["x"], no_such_name: 1 });
    for (const name of JOB_FIELD_NAMES) expect(message).toMatch(new RegExp(`\\b${name}\\b`));
  });

  test.each(SAME)("is what a line of JSON makes of it: %s", async (_, job) => {
    const [ours] = await store.enqueue([fromJson(job)]);
    expect(await seen(await enqueue(job))).toEqual(await seen(ours?.id ?? 0));
  });

  test.each([
    [{}, "there is no command"],
    [[], "one JSON object"],
    [{ argv: [""] }, "the command is empty"],
    [{ argv: "echo" }, "list of words"],
    [{ argv: ["x", 1] }, "list of words"],
    [{ argv: ["x"], shell: "y" }, "both say what to run"],
    [{ shell: " " }, "shell is empty"],
    [{ argv: ["x"], queue: "" }, "is not a name"],
    [{ argv: ["x"], queue: "a,b" }, "leave out commas"],
    [{ argv: ["x"], queue: "*" }, "leave out commas"],
    [{ argv: ["x"], task: "a\nb" }, "is not a name"],
    [{ argv: ["x"], key: "k".repeat(256) }, "is not a name"],
    [{ argv: ["x"], priority: 1.5 }, "is not a whole number"],
    [{ argv: ["x"], priority: 2 ** 53 }, "is not a whole number"],
    [{ argv: ["x"], retries: -1 }, "is not a whole number"],
    [{ argv: ["x"], retries: 1_000_001 }, "is not a whole number"],
    [{ argv: ["x"], lease: "999ms" }, "lease must be at least 1s"],
    [{ argv: ["x"], lease: 5 }, "must be a time as text"],
    [{ argv: ["x"], timeout: "0" }, "must be longer than 0"],
    [{ argv: ["x"], timeout: "soon" }, "is not a duration"],
    [{ argv: ["x"], timeout: "9999d" }, "too long"],
    [{ argv: ["x"], backoff: "5m..1s" }, "begins above its end"],
    [{ argv: ["x"], backoff: "1s..2s..3s" }, "more than two ends"],
    [{ argv: ["x"], fatal_exit: "256" }, "exit codes"],
    [{ argv: ["x"], log_limit: "2GiB" }, "is not a size"],
    [{ argv: ["x"], beat: "never" }, "must be one of"],
    [{ argv: ["x"], pty: "yes" }, "true or false"],
    [{ argv: ["x"], env: { A: 1 } }, "variables and their texts"],
    [{ argv: ["x"], env: { "A=B": "1" } }, /variable/],
    [{ argv: ["x"], at: "2030-01-01T00:00:00Z", delay: "1s" }, "both say when"],
    [{ argv: ["x"], if_exists: "fail" }, "give that as well"],
    [{ argv: ["x"], if_exists: "maybe", key: "k" }, "must be one of"],
    [{ argv: ["x"], after: 0 }, "is not a job id"],
    [{ argv: ["x"], colour: "red" }, "there is no name"],
    [{ input: "x".repeat(2 ** 20 + 1) }, "1 MiB"],
    [{ argv: ["x", "y".repeat(2 ** 20)] }, "the command has more than 1 MiB"],
    [{ argv: ["x"], env: { A: "y".repeat(2 ** 20) } }, "its environment has more than 1 MiB"],
    [{ argv: ["x"], cwd: `/${"y".repeat(4_096)}` }, "at most 4096 bytes"],
    [{ argv: ["x"], limit: 'a"b' }, "not one that can be joined"],
    [{ argv: ["x"], limit: [] }, "names none"],
    [{ argv: ["x"], limit: Array.from({ length: 9 }, (_, n) => `${n}`.repeat(200)) }, "too many"],
    [{ argv: ["x"], need: "1gpu" }, "is not something to need"],
    [{ argv: ["x"], need: "gpu=0" }, "is not something to need"],
    [{ argv: ["x"], need: { gpu: -1 } }, "is not something to need"],
    [{ argv: ["x"], memory: "512k" }, "is not a size"],
    [{ argv: ["x"], cpus: 0 }, "is not a whole number"],
    [{ argv: ["x"], pids: 0 }, "is not a whole number"],
    [{ argv: ["x"], extension: "2m", lease: "1m" }, "extension must not be longer"],
  ] as [object, string | RegExp][])("that JSON refuses is refused: %j", async (job, why) => {
    expect(() => fromJson(job)).toThrow();
    expect(await refusal(job)).toMatch(why);
  });

  test("can't hide a NUL, and has an absolute folder", async () => {
    expect(await refusal({ argv: ["\uFFFF\uFDD0"] })).toContain("U+FFFF");
    expect(await refusal({ argv: ["x"], cwd: "here" })).toContain("not an absolute path");
    expect(await refusal({ argv: ["x"], at: "whenever" })).toContain("whenever");
  });

  test("can wait for a moment, and take JSON as its input", async () => {
    const at = await enqueue({ argv: ["x"], at: "2100-01-02T03:04:05.678+01:00", input: { to: ["a@b.example"] } });
    const [job] = await store.jobs([at]);
    expect(job).toMatchObject({ state: { name: "scheduled", run_at_ms: Date.parse("2100-01-02T02:04:05.678Z") } });
    expect(JSON.parse(new TextDecoder().decode(job?.input ?? undefined))).toEqual({ to: ["a@b.example"] });
  });
});

describe("a key", () => {
  test("is answered for, in the way, or replaced, as with enqueue", async () => {
    const job = { argv: ["x"], key: "nightly" };
    const first = await enqueue(job);
    expect(await enqueue(job)).toBe(first);
    expect(await refusal({ ...job, if_exists: "fail" })).toBe(`key nightly is taken by job ${first} (pending)`);
    const child = await enqueue({ argv: ["y"], after: first });
    const second = await enqueue({ ...job, if_exists: "replace" });
    expect(second).toBeGreaterThan(first);
    expect(await store.jobs([first, child, second])).toMatchObject([
      { state: { name: "cancelled" }, reason: "replaced by a new job with key nightly" },
      { state: { name: "cancelled" }, reason: `job ${first}, which it waits for, was cancelled` },
      { state: { name: "pending" } },
    ]);
    only(await store.acquire(acquireRequest({ job: second } as never)));
    expect(await refusal({ ...job, if_exists: "replace" })).toContain("(running)");
  });

  test("is had by one of many who ask at the same time", async () => {
    const sql = postgres(schema.url.replace(/\?.*/, ""), { max: 8 });
    const ids = await Promise.all(Array.from({ length: 40 }, () => enqueue({ argv: ["x"], key: "one" }, sql)));
    expect(new Set(ids).size).toBe(1);
    await sql.end();
  });
});

describe("a job that waits for others", () => {
  test("is free when they have ended, also when they had before", async () => {
    const subject = new Subject({ store, slack_ms: 0 } as never);
    const done = await subject.granted({ queue: "parents" }, { queues: ["parents"] });
    const open = await enqueue({ argv: ["x"], after: [done.job.id] });
    await subject.settle(done, end("success"));
    const late = await enqueue({ argv: ["x"], after: done.job.id, after_any: String(done.job.id) });
    expect((await store.jobs([open, late])).map((job) => job?.state.name)).toEqual(["pending", "pending"]);
    const next = await enqueue({ argv: ["x"], after_any: `${open}-${late}` });
    expect((await store.jobs([next]))[0]?.state.name).toBe("blocked");
    expect((await store.parents([next]))[0]).toBeDefined();
  });

  test("for one that is not there is refused, and is not there either", async () => {
    const before = await enqueue({ argv: ["x"] });
    expect(await refusal({ argv: ["x"], after: [before, 999_999] })).toBe("there is no job 999999 to wait for");
    expect((await store.jobs([before + 1]))[0] ?? null).toBeNull();
  });
});

describe("the caller's transaction", () => {
  test("has the job when it commits, wakes who waits then, and leaves nothing behind when it does not", async () => {
    const sql = postgres(schema.url.replace(/\?.*/, ""), { max: 1 });
    let heard = 0;
    let woken = () => {};
    const stop = store.watch(() => {
      heard += 1;
      woken();
    });
    // The first call says that the listener is there.
    await new Promise<void>((resolve) => (heard > 0 ? resolve() : (woken = resolve)));
    const before = heard;
    const waking = new Promise<void>((resolve) => (woken = resolve));
    let inside = 0;
    await sql.begin(async (mine) => {
      inside = await enqueue({ argv: ["x"], queue: "mine" }, mine);
      expect((await store.jobs([inside]))[0] ?? null).toBeNull();
      expect(heard).toBe(before);
    });
    await waking;
    expect((await store.jobs([inside]))[0]?.state.name).toBe("pending");
    stop();
    let undone = 0;
    await sql
      .begin(async (mine) => {
        undone = await enqueue({ argv: ["x"] }, mine);
        throw new Error("no");
      })
      .catch(() => {});
    expect((await store.jobs([undone]))[0] ?? null).toBeNull();
    await sql.end();
  });

  test("may be that of a role that can do nothing else, and nobody's who was not given the right", async () => {
    const role = `${schema.name}_producer`;
    await schema.sql.unsafe(`CREATE ROLE ${role} LOGIN PASSWORD 'x'`);
    clearing.push(async () => {
      await schema.sql.unsafe(`DROP OWNED BY ${role}`);
      await schema.sql.unsafe(`DROP ROLE ${role}`);
    });
    const sql = postgres(schema.url.replace(/\?.*/, "").replace("lease:secret@", `${role}:x@`), { max: 1 });
    await schema.sql.unsafe(`GRANT USAGE ON SCHEMA ${schema.name} TO ${role}`);
    expect(await refusal({ argv: ["x"] }, sql)).toContain("permission denied for function enqueue");
    await schema.sql.unsafe(`GRANT EXECUTE ON FUNCTION ${schema.name}.enqueue(jsonb) TO ${role}`);
    const parent = await enqueue({ argv: ["x"], key: "produced", input: "in" }, sql);
    const child = await enqueue({ argv: ["x"], after: parent }, sql);
    expect((await store.jobs([child]))[0]?.state.name).toBe("blocked");
    // A table of its own does not take the place of ours.
    await sql.unsafe("CREATE TEMP TABLE jobs (id int)");
    await sql.unsafe("CREATE TEMP TABLE inputs (id int)");
    expect(await enqueue({ argv: ["x"], input: "y" }, sql)).toBeGreaterThan(child);
    expect(await sql.unsafe(`SELECT * FROM ${schema.name}.jobs`).catch((error: Error) => error.message)).toContain(
      "denied",
    );
    await sql.end();
  });

  test("is not everybody's: a store whose function PUBLIC may call is refused", async () => {
    const other = await newSchema();
    clearing.push(() => other.drop());
    const open = () => openPostgres(other.url, { clock: systemClock, random: systemRandom });
    const made = await open();
    await made.enqueue([newJob()]);
    await made.close();
    await other.sql.unsafe(`GRANT EXECUTE ON FUNCTION ${other.name}.enqueue(jsonb) TO PUBLIC`);
    expect(open()).rejects.toThrow("function enqueue of store");
  });
});

test("a newer lease brings its function along, an older one leaves it", async () => {
  const own = await newSchema();
  clearing.push(() => own.drop());
  const open = () => openPostgres(own.url, { clock: systemClock, random: systemRandom }).then((made) => made.close());
  await open();
  const spoil = async (version: string) => {
    await own.sql.unsafe(`UPDATE ${own.name}.meta SET value = '${version}' WHERE name = 'functions'`);
    await own.sql.unsafe(
      `CREATE OR REPLACE FUNCTION ${own.name}.enqueue(job jsonb) RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'`,
    );
    await open();
    const [row] = await own.sql.unsafe(`SELECT ${own.name}.enqueue('{"argv": ["x"]}') AS id`);
    return Number(row?.["id"]);
  };
  expect(await spoil("0.0.9")).toBe(1);
  expect(await spoil("99.0.0")).toBe(0);
});
