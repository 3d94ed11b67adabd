/** Bad days of a PostgreSQL store: connections that end, fall silent, or lose the answer; locks; other defaults. */

import { afterAll, afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { LeaseError } from "../../src/core/errors.ts";
import { isRefusal, transition } from "../../src/core/transition.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import type { Grant, SettleRequest, Store } from "../../src/store/store.ts";
import { acquireRequest, only } from "../contract/subject.ts";
import { end, newJob } from "../support/jobs.ts";
import { newSchema, postgresUrl, type Schema } from "../support/postgres.ts";
import { Proxy } from "../support/proxy.ts";

setDefaultTimeout(30_000);

const opened: (() => Promise<unknown> | void)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).toReversed()) await close();
});

const schemas: Schema[] = [];
afterAll(async () => {
  for (const schema of schemas) await schema.drop();
});

interface Trouble {
  schema: Schema;
  proxy: Proxy;
  /** Through the proxy. */
  store: Store;
  /** Directly. */
  eye: Store;
}

async function open(url: string, more: { answer_timeout_ms?: number; retry_limit_ms?: number } = {}): Promise<Store> {
  const store = await openPostgres(url, { clock: systemClock, random: systemRandom, ...more });
  opened.push(() => store.close());
  return store;
}

async function trouble(more: { answer_timeout_ms?: number; retry_limit_ms?: number } = {}): Promise<Trouble> {
  const schema = await newSchema();
  schemas.push(schema);
  const url = new URL(schema.url);
  const proxy = await Proxy.before(Number(url.port), url.hostname);
  opened.push(() => proxy.close());
  const eye = await open(schema.url);
  url.hostname = "127.0.0.1";
  url.port = String(proxy.port);
  return { schema, proxy, store: await open(url.href, more), eye };
}

async function granted(store: Store, eye: Store): Promise<Grant> {
  await eye.enqueue([newJob()]);
  return only(await store.acquire(acquireRequest()));
}

async function success(store: Store, { job }: Grant): Promise<SettleRequest> {
  const event = { type: "settle", token: job.token, end: end("success") } as const;
  const change = transition(job, event, { now_ms: await store.now(), random: () => 0.5 });
  if (isRefusal(change)) throw new Error(change.refused);
  return { id: job.id, token: job.token, change, process: null, audit: null };
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await Bun.sleep(5);
}

const extension = ({ job }: Grant) => ({
  id: job.id,
  token: job.token,
  expires_in_ms: 60_000,
  beat_age_ms: 0,
  beats: 1,
});

describe("a connection that is cut", () => {
  test("between two calls is made again, and nobody notices", async () => {
    const { store, eye, proxy } = await trouble();
    const grant = await granted(store, eye);
    proxy.cut();
    expect(only(await store.extend([extension(grant)])).status).toBe("extended");
    proxy.cut();
    expect(await store.settle([await success(eye, grant)])).toEqual([{ status: "applied" }]);
  });

  test("again and again does not lose or double what many slots ask for", async () => {
    const { store, eye, proxy } = await trouble();
    const ids = (await eye.enqueue(Array.from({ length: 200 }, () => newJob()))).map(({ id }) => id);
    const cutting = setInterval(() => proxy.cut(), 150);
    const slot = async (): Promise<void> => {
      for (;;) {
        const [grant] = await store.acquire(acquireRequest({ count: 1 }));
        if (grant === undefined) return;
        expect(await store.settle([await success(eye, grant)])).toEqual([{ status: "applied" }]);
      }
    };
    await Promise.all(Array.from({ length: 8 }, slot));
    clearInterval(cutting);
    const jobs = await eye.jobs(ids);
    expect(new Set(jobs.map((job) => `${job?.state.name} ${job?.token}`))).toEqual(new Set(["completed 1"]));
    expect(await eye.checkpoints({ limit: 9 })).toEqual([]);
  });

  test("for longer than the store is patient is an error that says what to look at", async () => {
    const { store, proxy } = await trouble({ retry_limit_ms: 200 });
    proxy.close();
    const error = await store.now().catch((reason: unknown) => reason);
    if (!(error instanceof LeaseError)) throw new Error(`expected a LeaseError, got ${String(error)}`);
    expect([error.code, error.exit_code]).toEqual(["store_failed", 125]);
    expect(error.message).toContain("is the server running?");
    expect(error.message).not.toContain("secret");
  });
});

describe("a connection that falls silent", () => {
  test("is given up after a while, and the call is answered on another", async () => {
    const { store, eye, proxy } = await trouble({ answer_timeout_ms: 400 });
    const grant = await granted(store, eye);
    proxy.fallSilent();
    const asked = store.extend([extension(grant)]);
    proxy.recover();
    expect(only(await asked).status).toBe("extended");
  });

  test("keeps its beats: an extension that was late counts from when it was asked for", async () => {
    const { store, eye, proxy } = await trouble({ answer_timeout_ms: 1_000 });
    const grant = await granted(store, eye);
    const asked_at_ms = await eye.now();
    proxy.fallSilent();
    const asked = store.extend([extension(grant)]);
    proxy.recover();
    const answer = only(await asked);
    if (answer.status !== "extended") throw new Error(answer.status);
    expect(Math.abs(answer.expires_at_ms - (asked_at_ms + 60_000))).toBeLessThan(700);
  });

  test("and does not come back ends the waiting with an error", async () => {
    const { store, proxy } = await trouble({ answer_timeout_ms: 300, retry_limit_ms: 500 });
    proxy.fallSilent();
    expect(await store.now().catch((reason: unknown) => reason)).toBeInstanceOf(LeaseError);
  });

  test("does not keep the store from closing", async () => {
    const { store, proxy } = await trouble({ answer_timeout_ms: 300 });
    await store.now();
    proxy.fallSilent();
    await store.close();
  });

  test("is noticed by who listens, who hears again once the network is back", async () => {
    const { store, eye, proxy } = await trouble({ answer_timeout_ms: 300 });
    let heard = Promise.withResolvers<void>();
    store.watch(() => heard.resolve());
    await heard.promise;
    proxy.cut();
    heard = Promise.withResolvers<void>();
    await heard.promise;
    heard = Promise.withResolvers<void>();
    await eye.enqueue([newJob()]);
    await heard.promise;
  });
});

describe("an answer that is lost", () => {
  /** Asks while answers get lost, and cuts the connection once the database has done it. */
  async function losing<T>(
    { proxy }: Trouble,
    ask: () => Promise<T>,
    done: () => Promise<boolean>,
    to?: string,
  ): Promise<T> {
    proxy.loseAnswers(to);
    const asked = ask();
    await until(done);
    proxy.cut();
    return asked;
  }

  test("of a settle is found: it was applied, and leaves no stale trace", async () => {
    const all = await trouble();
    const { store, eye } = all;
    const grant = await granted(store, eye);
    const request = await success(eye, grant);
    const completed = async () => only(await eye.jobs([grant.job.id]))?.state.name === "completed";
    expect(await losing(all, () => store.settle([request]), completed)).toEqual([{ status: "applied" }]);
    expect(await eye.checkpoints({ limit: 9 })).toEqual([]);
    expect(await eye.attempts(grant.job.id)).toHaveLength(1);
  });

  test("of a settle that freed others is found as well", async () => {
    const all = await trouble();
    const { store, eye } = all;
    const grant = await granted(store, eye);
    const child = only(await eye.enqueue([newJob({ after: [grant.job.id] })])).id;
    const request = await success(eye, grant);
    const freed = async () => only(await eye.jobs([child]))?.state.name === "pending";
    expect(await losing(all, () => store.settle([request]), freed, "commit\0")).toEqual([{ status: "applied" }]);
    expect(await eye.checkpoints({ limit: 9 })).toEqual([]);
  });

  test("of an acquire hands out what it was granted, not something else", async () => {
    const all = await trouble();
    const { store, eye } = all;
    const ids = (await eye.enqueue([newJob(), newJob(), newJob()])).map(({ id }) => id);
    const running = async () => (await eye.list({ states: ["running"], limit: 9, newest_first: false })).length === 2;
    const grants = await losing(all, () => store.acquire(acquireRequest({ count: 2 })), running);
    expect(grants.map(({ job }) => [job.id, job.token])).toEqual(ids.slice(0, 2).map((id) => [id, 1]));
    expect(await running()).toBe(true);
  });

  test("of an enqueue is an error that says so, and nothing is enqueued twice", async () => {
    const all = await trouble();
    const { store, eye } = all;
    const there = async () => (await eye.counts()).length === 1;
    const error = await losing(all, () => store.enqueue([newJob()]).catch((reason: unknown) => reason), there);
    expect((error as LeaseError).message).toContain("look whether it was done");
    expect(await eye.counts()).toEqual([{ queue: "default", state: "pending", count: 1 }]);
  });
});

describe("a server that is busy", () => {
  test("with somebody's lock on the table makes a call wait, and go on", async () => {
    const { store, eye, schema } = await trouble({ answer_timeout_ms: 600 });
    const grant = await granted(store, eye);
    const locked = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const locking = schema.sql.begin(async (sql) => {
      await sql.unsafe(`LOCK TABLE ${schema.name}.jobs`);
      locked.resolve();
      await release.promise;
    });
    await locked.promise;
    const asked = store.extend([extension(grant)]);
    await Bun.sleep(400);
    release.resolve();
    await locking;
    expect(only(await asked).status).toBe("extended");
  });

  test("for longer than a statement may take is an error, and the connection goes on", async () => {
    const { store, schema } = await trouble({ answer_timeout_ms: 400, retry_limit_ms: 100 });
    await schema.sql.begin(async (sql) => {
      await sql.unsafe(`LOCK TABLE ${schema.name}.jobs`);
      const error = await store.list({ limit: 1, newest_first: false }).catch((reason: unknown) => reason);
      expect((error as LeaseError).code).toBe("store_busy");
    });
    expect(await store.list({ limit: 1, newest_first: false })).toEqual([]);
  });
});

describe("a server whose transactions are serializable by default", () => {
  test("is used with read committed, so that workers that race don't fail", async () => {
    const admin = await newSchema();
    schemas.push(admin);
    await admin.sql.unsafe(`CREATE DATABASE ${admin.name}`);
    await admin.sql.unsafe(`ALTER DATABASE ${admin.name} SET default_transaction_isolation = 'serializable'`);
    opened.push(() => admin.sql.unsafe(`DROP DATABASE ${admin.name} WITH (FORCE)`));
    const url = (await postgresUrl()).replace(/\/[^/]*$/, `/${admin.name}`);
    const stores = [await open(url), await open(url), await open(url)];
    const ids = (await (stores[0] as Store).enqueue(Array.from({ length: 300 }, () => newJob()))).map(({ id }) => id);
    const drain = async (store: Store): Promise<number[]> => {
      const taken: number[] = [];
      for (;;) {
        const grants = await store.acquire(acquireRequest({ count: 3 }));
        if (grants.length === 0) return taken;
        const requests = await Promise.all(grants.map((grant) => success(store, grant)));
        expect(new Set((await store.settle(requests)).map(({ status }) => status))).toEqual(new Set(["applied"]));
        taken.push(...grants.map(({ job }) => job.id));
      }
    };
    const taken = (await Promise.all([...stores, ...stores].map(drain))).flat();
    expect(taken.toSorted((a, b) => a - b)).toEqual(ids);
  });
});
