/** Real workers on a PostgreSQL that has bad days: it restarts, is cut off, has another time; and on two machines. */

import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import type { Store } from "../../src/store/store.ts";
import { newJob } from "../support/jobs.ts";
import { newSchema, Schema, startPostgres } from "../support/postgres.ts";
import { BINARY, Program, stamp, stamps, until, wrongCounts } from "../support/process.ts";
import { Proxy } from "../support/proxy.ts";

setDefaultTimeout(40_000);

const clearing: (() => Promise<unknown> | unknown)[] = [];
afterAll(async () => {
  for (const clear of clearing.toReversed()) await clear();
});

/** A folder for what jobs write, a store beside it, and programs that end with the test. */
class Ground {
  readonly folder = mkdtempSync(join(tmpdir(), "lease-pg-chaos-"));
  readonly schema: Schema;
  readonly store: Store;

  private constructor(schema: Schema, store: Store) {
    this.schema = schema;
    this.store = store;
  }

  static async on(schema: Schema): Promise<Ground> {
    const store = await openPostgres(schema.url, { clock: systemClock, random: systemRandom });
    const ground = new Ground(schema, store);
    clearing.push(() => rmSync(ground.folder, { recursive: true, force: true }));
    clearing.push(() => schema.drop().catch(() => {}));
    clearing.push(() => store.close());
    clearing.push(async () => expect(await wrongCounts(store)).toEqual([]));
    return ground;
  }

  start(words: readonly string[], options: { url?: string; before?: readonly string[] } = {}): Program {
    const [command = "", ...rest] = words;
    const argv = [...(options.before ?? []), BINARY, command, "--store", options.url ?? this.schema.url, ...rest];
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("LEASE_"));
    const env = { ...(Object.fromEntries(inherited) as Record<string, string>), NO_COLOR: "1", TMPDIR: this.folder };
    const program = new Program(argv, { env, cwd: this.folder });
    let over = false;
    void program.ended.then(() => (over = true));
    clearing.push(() => over || program.signal("SIGKILL"));
    return program;
  }

  async scripts(count: number, text: string, settings = {}): Promise<number[]> {
    const jobs = Array.from({ length: count }, () => newJob({ argv: ["sh", "-c", text], cwd: this.folder, settings }));
    return (await this.store.enqueue(jobs)).map(({ id }) => id);
  }

  lines(name: string): string[] {
    try {
      return readFileSync(join(this.folder, name), "utf8").split("\n").filter(Boolean);
    } catch {
      return [];
    }
  }

  async completed(): Promise<number> {
    const counts = await this.store.counts();
    return counts.find(({ state }) => state === "completed")?.count ?? 0;
  }
}

describe("a server that restarts in the middle of many jobs", () => {
  test("loses none of them and runs none twice", async () => {
    const server = await startPostgres();
    clearing.push(() => server.stop());
    const ground = await Ground.on(new Schema(server.url));
    const JOBS = 2_000;
    const ids = await ground.scripts(JOBS, `echo "$LEASE_JOB_ID" >> ran; sleep 0.01`);
    const workers = [
      ground.start(["worker", "--until-empty", "-j", "4"]),
      ground.start(["worker", "--until-empty", "-j", "4"]),
    ];
    for (const done of [300, 1_000]) {
      await until(`${done} are done`, async () => (await ground.completed()) >= done, { within_ms: 60_000 });
      await server.stop();
      await server.start();
    }
    for (const worker of workers) expect(await worker.ended).toMatchObject({ code: 0 });
    const jobs = await ground.store.jobs(ids);
    expect(new Set(jobs.map((job) => `${job?.state.name} after ${job?.token}`))).toEqual(
      new Set(["completed after 1"]),
    );
    expect(
      ground
        .lines("ran")
        .map(Number)
        .toSorted((a, b) => a - b),
    ).toEqual(ids);
  });

  test("without a word, by a crash, does not either", async () => {
    const server = await startPostgres();
    clearing.push(() => server.stop());
    const ground = await Ground.on(new Schema(server.url));
    const ids = await ground.scripts(150, `echo "$LEASE_JOB_ID" >> ran; sleep 0.01`);
    const worker = ground.start(["worker", "--until-empty", "-j", "4"]);
    await until("some are done", async () => (await ground.completed()) >= 40, { within_ms: 60_000 });
    await server.crash();
    await server.start();
    expect(await worker.ended).toMatchObject({ code: 0 });
    expect(
      ground
        .lines("ran")
        .map(Number)
        .toSorted((a, b) => a - b),
    ).toEqual(ids);
    expect(await ground.completed()).toBe(150);
  });
});

describe("a line of 100 kbit/s to the database", () => {
  test("brings beats before logs: a job that floods keeps its lease, and its end is not kept waiting", async () => {
    const ground = await Ground.on(await newSchema());
    const url = new URL(ground.schema.url);
    const proxy = await Proxy.before(Number(url.port), url.hostname);
    clearing.push(() => proxy.close());
    url.port = String(proxy.port);
    proxy.throttle(12_500);
    const flood = "head -c 500000 /dev/urandom | base64";
    const script = `${flood}; for n in 1 2 3 4 5 6 7 8 9 10; do ${flood} | head -c 50000; sleep 0.5; done; echo the end`;
    const [id = 0] = await ground.scripts(1, script, { lease_ms: 4_000 });
    const worker = ground.start(["worker", "--once", "--no-sweep"], { url: url.href });
    expect(await worker.ended).toMatchObject({ code: 0 });
    expect((await ground.store.jobs([id]))[0]).toMatchObject({ state: { name: "completed" }, token: 1 });
    const [attempt] = await ground.store.attempts(id);
    // It works for five seconds, and has a lease of four.
    expect((attempt?.ended_at_ms ?? 0) - (attempt?.started_at_ms ?? 0)).toBeGreaterThan(4_900);
    // What fits is kept, its last lines in any case, and the worker says what is missing.
    const { stdout } = await ground.start(["logs", String(id)]).ended;
    expect(stdout).toEndWith("the end\n");
    expect(worker.stderr).toContain("of its log were left out");
  });
});

describe("a database whose clock is an hour off", () => {
  test.each([-3_600_000, 3_600_000])("by %d ms schedules, beats, retries and recovers by it alone", async (off_ms) => {
    const ground = await Ground.on(await newSchema());
    await ground.schema.shiftClock(off_ms);
    const backoff = { first_ms: 50, factor: 1, max_ms: 50, jitter: 0 };
    const [flaky = 0] = await ground.scripts(1, "test $LEASE_ATTEMPT -ge 3", { retries: 5, backoff });
    const [silent = 0] = await ground.scripts(1, "sleep 30", { retries: 0, lease_ms: 1_000 });
    const [beating = 0] = await ground.scripts(1, "for n in 1 2 3 4 5 6 7 8; do echo $n; sleep 0.3; done", {
      lease_ms: 1_000,
    });
    const worker = ground.start(["worker", "--until-empty", "-j", "3"]);
    expect(await worker.ended).toMatchObject({ code: 1 });
    const jobs = await ground.store.jobs([flaky, silent, beating]);
    expect(jobs.map((job) => `${job?.state.name} after ${job?.token}`)).toEqual([
      "completed after 3",
      "failed after 1",
      "completed after 1",
    ]);
    const now_ms = await ground.store.now();
    expect(Math.abs(now_ms - Date.now() - off_ms)).toBeLessThan(60_000);
    for (const job of jobs) {
      if (job === null || !("finished_at_ms" in job.state)) throw new Error("not finished");
      expect(now_ms - job.state.finished_at_ms).toBeWithin(0, 60_000);
      expect(job.state.finished_at_ms).toBeGreaterThanOrEqual(job.started_at_ms ?? 0);
    }
    const [record] = await ground.store.workers();
    expect(now_ms - (record?.seen_at_ms ?? 0)).toBeWithin(0, 60_000);
  });
});

/** Another machine, as far as a program can tell by its host's name. */
const canBeElsewhere = userInfo().uid === 0 && Bun.which("unshare") !== null;
if (!canBeElsewhere) console.warn("SKIPPED: two machines, for which this test needs root and unshare(1)");

describe.skipIf(!canBeElsewhere)("two machines", () => {
  const on = (host: string) => ["unshare", "-u", "sh", "-c", `hostname ${host}; exec "$@"`, "sh"];

  /** The first attempt works until it is killed, the second ends well; neither cares for who reads its output. */
  const STAYS_ONCE = `
    ${stamp("begin", "stamps")}
    if [ "$LEASE_TOKEN" = 1 ]; then while :; do ${stamp("alive", "stamps")}; echo alive; sleep 0.05; done; fi
    ${stamp("end", "stamps")}`;

  test("of which one is cut off from the database: its child is dead before the other has the job", async () => {
    const ground = await Ground.on(await newSchema());
    const url = new URL(ground.schema.url);
    const proxy = await Proxy.before(Number(url.port), url.hostname);
    clearing.push(() => proxy.close());
    url.port = String(proxy.port);
    const flags = ["worker", "--lease", "2s", "--interval", "500ms", "--grace", "1s"];
    const [id = 0] = await ground.scripts(1, STAYS_ONCE);
    const cut_off = ground.start(flags, { url: url.href, before: on("here") });
    await until("it works", () => ground.lines("stamps").some((line) => line.startsWith("alive 1")));
    const other = ground.start(flags, { before: on("there") });
    await until("both are registered", async () => (await ground.store.workers()).length === 2);
    proxy.fallSilent();
    await until("the other has done it", async () => (await ground.store.jobs([id]))[0]?.state.name === "completed", {
      within_ms: 30_000,
    });
    const all = stamps(ground.lines("stamps"));
    const last_ms = Math.max(...all.filter(({ token }) => token === 1).map(({ at_ms }) => at_ms));
    const first_ms = Math.min(...all.filter(({ token }) => token === 2).map(({ at_ms }) => at_ms));
    expect(last_ms).toBeLessThan(first_ms);
    const attempts = await ground.store.attempts(id);
    expect(attempts.map(({ host, end: ended }) => [host, ended?.cause])).toEqual([
      ["here", "expired"],
      ["there", "success"],
    ]);
    const granted_ms = attempts[1]?.started_at_ms ?? 0;
    expect(last_ms).toBeLessThan(granted_ms);
    expect(cut_off.stderr).toContain("lost its lease");
    other.signal("SIGTERM");
    await other.ended;
  });

  test("of which one has a frozen worker: its child is dead before the other has the job", async () => {
    const ground = await Ground.on(await newSchema());
    const elsewhere = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", ...on("here").slice(1)];
    const flags = ["worker", "--lease", "2s", "--interval", "500ms", "--grace", "1s"];
    const [id = 0] = await ground.scripts(1, STAYS_ONCE);
    const frozen = ground.start(flags, { before: elsewhere });
    // For longer than a moment: then whoever kills in its stead is there as well.
    const signs = () => ground.lines("stamps").filter((line) => line.startsWith("alive 1"));
    await until("it works", () => signs().length >= 10);
    const other = ground.start(flags, { before: on("there") });
    await until("both are registered", async () => (await ground.store.workers()).length === 2);
    const children = `/proc/${frozen.pid}/task/${frozen.pid}/children`;
    process.kill(Number(readFileSync(children, "utf8")), "SIGSTOP");
    await until("the other has done it", async () => (await ground.store.jobs([id]))[0]?.state.name === "completed", {
      within_ms: 30_000,
    });
    const all = stamps(ground.lines("stamps"));
    const last_ms = Math.max(...all.filter(({ token }) => token === 1).map(({ at_ms }) => at_ms));
    const attempts = await ground.store.attempts(id);
    expect(attempts.map(({ host, end: ended }) => [host, ended?.cause])).toEqual([
      ["here", "expired"],
      ["there", "success"],
    ]);
    expect(last_ms).toBeLessThan(attempts[1]?.started_at_ms ?? 0);
    frozen.signal("SIGKILL");
    other.signal("SIGTERM");
    await other.ended;
  });

  test("keep to their own dead: a worker that died elsewhere has the rest of its lease and the grace", async () => {
    const ground = await Ground.on(await newSchema());
    const [id = 0] = await ground.scripts(1, `test "$LEASE_TOKEN" = 2 && exit; sleep 60 & kill -9 $PPID; wait`);
    const died = ground.start(["worker", "--lease", "3s", "--no-sweep"], { before: on("here") });
    expect(await died.ended).toMatchObject({ signal: "SIGKILL" });
    const [attempt] = await ground.store.attempts(id);
    const elsewhere = ground.start(["watchdog", "--once", "--grace", "0s"], { before: on("there") });
    expect(await elsewhere.ended).toMatchObject({ code: 0 });
    expect((await ground.store.jobs([id]))[0]?.state.name).toBe("running");
    const other = ground.start(["worker", "--lease", "3s"], { before: on("there") });
    await until("the other has done it", async () => (await ground.completed()) === 1, { within_ms: 30_000 });
    const [, second] = await ground.store.attempts(id);
    expect((second?.started_at_ms ?? 0) - (attempt?.started_at_ms ?? 0)).toBeGreaterThan(3_000);
    other.signal("SIGTERM");
    await other.ended;
  });

  test("see each other's workers, logs and results", async () => {
    const ground = await Ground.on(await newSchema());
    const [id = 0] = await ground.scripts(1, `hostname; echo done > "$LEASE_OUTPUT"`);
    await ground.start(["worker", "--once"], { before: on("here") }).ended;
    const seen = await ground.start(["logs", String(id)], { before: on("there") }).ended;
    expect(seen).toMatchObject({ code: 0, stdout: "here\n" });
    expect((await ground.start(["inspect", "workers"], { before: on("there") }).ended).stdout).toContain("here");
    expect((await ground.store.jobs([id]))[0]?.result.output).toBe("done\n");
  });
});
