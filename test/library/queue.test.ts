/** The queue as somebody else's program uses it: everything comes from its one entry, on a clock the test moves. */

import { afterAll, describe, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { LeaseError, NoRetry, open, type JobOptions, type OpenOptions, type Queue } from "../../src/index.ts";
import { JOB_FIELD_NAMES } from "../../src/core/job_fields.ts";
import { drain, FakeClock } from "../../src/testing.ts";
import { temporaryFolder } from "../leasing/fixture.ts";

const QUIET: OpenOptions = { report: () => {} };

async function refusal(act: () => unknown): Promise<[string, string]> {
  try {
    await act();
  } catch (error) {
    if (error instanceof LeaseError) return [error.code, error.message];
    throw error;
  }
  throw new Error("it was accepted");
}

async function inMemory(body: (queue: Queue, clock: FakeClock) => Promise<void>, options: OpenOptions = {}) {
  const clock = new FakeClock();
  await using queue = await open(":memory:", { ...QUIET, clock, ...options });
  await body(queue, clock);
}

describe("open", () => {
  test("in memory leaves nothing behind, and shares nothing", async () => {
    await using one = await open(":memory:");
    await using other = await open(":memory:");
    await one.enqueue({ input: 1 });
    expect([one.location, (await one.list()).length, (await other.list()).length]).toEqual([":memory:", 1, 0]);
  });

  test("of a path keeps the jobs for the next who opens it", async () => {
    const folder = temporaryFolder();
    const path = join(folder, "jobs.db");
    {
      await using queue = await open(path);
      await queue.enqueue({ input: { page: 1 } });
    }
    {
      await using queue = await open(path);
      expect(await queue.list()).toMatchObject([{ id: 1, state: "pending", input: { page: 1 } }]);
    }
    rmSync(folder, { recursive: true });
  });

  test("refuses what the command refuses: a store that others can write, or that is not there", async () => {
    const folder = mkdtempSync(join(temporaryFolder(), "open-"));
    expect((await refusal(() => open(join(folder, "none.db"), { create: false })))[0]).toBe("no_store");
    chmodSync(folder, 0o777);
    expect((await refusal(() => open(join(folder, "jobs.db"))))[0]).toBe("store_untrusted");
    await (await open(join(folder, "jobs.db"), { trust_store: true })).close();
    rmSync(folder, { recursive: true });
  });

  test.each<[string, () => Promise<unknown>]>([
    ['a location is a text: a path, "postgres://…", or ":memory:"', () => open(7 as unknown as string)],
    ['there is no option "creat"; did you mean create?', () => open(":memory:", { creat: true } as OpenOptions)],
    ["create must be true or false", () => open(":memory:", { create: "yes" } as unknown as OpenOptions)],
    ["this lease has no redis:// stores: name a file or postgres://…", () => open("redis://localhost")],
    ['a location is a text: a path, "postgres://…", or ":memory:"', () => open("")],
  ])("refuses with: %s", async (message, act) => {
    expect((await refusal(act))[1]).toBe(message);
  });

  test("refuses a closed queue's use, and closes twice without harm", async () => {
    const queue = await open(":memory:");
    await queue.close();
    await queue.close();
    expect((await refusal(() => queue.enqueue({ input: 1 })))[0]).toBe("misuse");
  });
});

describe("enqueue", () => {
  test("takes one, several, or as many as an iterable has", () =>
    inMemory(async (queue) => {
      expect(await queue.enqueue({ input: 1 })).toEqual({ id: 1, created: true });
      expect(await queue.enqueue([{ input: 2 }, { argv: ["true"] }])).toEqual([
        { id: 2, created: true },
        { id: 3, created: true },
      ]);
      async function* pages(): AsyncGenerator<JobOptions> {
        for (let page = 0; page < 2_500; page++) yield { input: { page } };
      }
      expect(await queue.enqueue(pages())).toEqual({ created: 2_500, ranges: [[4, 2_503]] });
      expect(await queue.list({ limit: 1 })).toMatchObject([{ input: { page: 2_499 } }]);
    }));

  test("hands JSON, text and bytes to the handler as they were", () =>
    inMemory(async (queue) => {
      const bytes = new Uint8Array([200, 201, 10]);
      const inputs = [{ to: "a" }, [1, "two", null], 5, true, "plain text", "", bytes];
      await queue.enqueue(inputs.map((input) => ({ input })));
      const seen: unknown[] = [];
      await drain(queue, (job) => void seen.push(job.bytes?.[0] === 200 ? job.bytes : job.input));
      expect(seen).toEqual(inputs);
    }));

  test("is all or nothing, and names the mistake and the job", () =>
    inMemory(async (queue) => {
      const many = [{ input: 1 }, { input: 2, retries: -1 }];
      expect(await refusal(() => queue.enqueue(many))).toEqual([
        "usage",
        'job 1: retries "-1" is not a whole number from 0 to 1000000',
      ]);
      async function* some(): AsyncGenerator<JobOptions> {
        yield { input: 1 };
        yield { input: 2, lease: "soon" };
      }
      expect((await refusal(() => queue.enqueue(some())))[1]).toStartWith('job 1: lease "soon" is not a duration');
      expect(await queue.list()).toEqual([]);
    }));

  test.each<[string, object]>([
    ['there is no name "quue"; did you mean queue?', { quue: "a", input: 1 }],
    ['lease must be a time as text: "30s"', { input: 1, lease: 30_000 }],
    ['there is no command: give its words, "argv": ["echo", "hi"], or a "shell" line, or an "input" for a handler', {}],
    ["at and delay both say when: give one of them", { input: 1, at: "18:30", delay: "1h" }],
    ["if_exists must be one of skip, fail, replace", { input: 1, key: "k", if_exists: "no" }],
    ["input must be JSON, text or bytes, and is a function", { input: () => 1 }],
  ])("refuses with: %s", (message, job) =>
    inMemory(async (queue) => {
      expect((await refusal(() => queue.enqueue(job as JobOptions)))[1]).toBe(message);
    }),
  );

  test("follows the key, as the command does", () =>
    inMemory(async (queue) => {
      await queue.enqueue({ input: 1, key: "k" });
      expect(await queue.enqueue({ input: 2, key: "k" })).toEqual({ id: 1, created: false });
      expect((await refusal(() => queue.enqueue({ input: 2, key: "k", if_exists: "fail" })))[0]).toBe("key_exists");
    }));

  test("takes every field that the command has", () =>
    inMemory(async (queue) => {
      for (const name of JOB_FIELD_NAMES) {
        const [, message] = await refusal(() => queue.enqueue({ argv: ["true"], [name]: Symbol("no such value") }));
        expect(message).not.toContain("there is no name");
      }
    }));
});

describe("a worker", () => {
  test("runs what is enqueued on the same handle at once, without a poll", () =>
    inMemory(async (queue) => {
      await using worker = queue.worker({ queue: "mail", slots: 4 }, async (job) => ({ sent: job.input.to }));
      const { id } = await queue.enqueue({ queue: "mail", input: { to: "a" } });
      expect(await queue.wait(id)).toMatchObject({ state: "completed", output: { sent: "a" }, cause: "success" });
      expect(worker.statistics()).toMatchObject({ completed: 1, slots: { total: 4 } });
    }));

  test("ends by stop(), and returns what does not end in time", () =>
    inMemory(async (queue, clock) => {
      const { id } = await queue.enqueue({ input: 1 });
      const begun = Promise.withResolvers<AbortSignal>();
      const worker = queue.worker({}, (_job, { signal }) => {
        begun.resolve(signal);
        return new Promise(() => {});
      });
      const signal = await begun.promise;
      const stopped = worker.stop({ drain: "5s" });
      await clock.advance("5s");
      expect((signal.reason as Error).cause).toBe("returned");
      await clock.advance("10s");
      await stopped;
      expect(await queue.inspect(id)).toMatchObject({ state: "pending", history: [{ cause: "returned" }] });
    }));

  test("that waits can be changed, and cancelled with all that waits for it", () =>
    inMemory(async (queue) => {
      const { id } = await queue.enqueue({ input: 1 });
      const child = await queue.enqueue({ input: 2, after_any: [id] });
      expect(await queue.edit(id, { priority: 7, queue: "slow", lease: "1m", delay: "1h" })).toEqual([
        { id, status: "changed", state: "pending" },
      ]);
      expect(await queue.inspect(id)).toMatchObject({ priority: 7, queue: "slow", state: "scheduled" });
      await queue.edit(id, { limit: ["few"], timeout: "9s" });
      await queue.edit(id, { limit: null, timeout: null, delay: null });
      expect(await queue.inspect(id)).toMatchObject({ limit: [], state: "pending" });
      expect(await refusal(() => queue.edit(id, { argv: ["x"] } as object))).toEqual([
        "usage",
        expect.stringContaining("argv"),
      ]);
      expect((await refusal(() => queue.edit(id, {})))[0]).toBe("usage");
      const answers = await queue.cancel(id, { cascade: true, grace: "never" });
      expect(answers.map((answer) => [answer.id, answer.status])).toEqual([
        [id, "cancelled"],
        [child.id, "cancelled"],
      ]);
    }));

  test("hears of a cancel, by the signal's reason", () =>
    inMemory(async (queue, clock) => {
      const { id } = await queue.enqueue({ input: 1 });
      const begun = Promise.withResolvers<void>();
      await using _ = queue.worker({}, async (_job, { signal }) => {
        begun.resolve();
        await new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
      });
      await begun.promise;
      expect(await queue.cancel(id, { reason: "not needed" })).toMatchObject([{ status: "cancelling" }]);
      const ended = queue.wait(id);
      for (let n = 0; n < 10; n++) await clock.advance(200);
      expect(await ended).toMatchObject({ state: "cancelled", cause: "cancelled", reason: "not needed" });
    }));

  test("gives out what its machine has, to one job at a time", () =>
    inMemory(async (queue) => {
      await queue.enqueue([
        { input: 1, need: { gpu: 1 } },
        { input: 2, need: { gpu: 1 } },
        { input: 3, need: { licence: 1 } },
        { input: 4 },
      ]);
      const given: unknown[] = [];
      const one_at_a_time = { slots: 4, have: ["gpu=a", "mem=1G"], max_jobs: 3 };
      await queue.worker(one_at_a_time, (job, { lease }) => void given.push([job.input, lease.held])).finished;
      expect(given).toContainEqual([1, { gpu: ["a"] }]);
      expect(given).toContainEqual([2, { gpu: ["a"] }]);
      expect(given).toContainEqual([4, {}]);
      expect((await queue.inspect(3)).state).toBe("pending");
      const refused = async (have: string | string[]) => (await refusal(() => queue.worker({ have }, () => {})))[1];
      expect(await refused("gpu")).toStartWith('have "gpu" is not something to have');
      expect(await refused(["a=1", "a=2"])).toBe("have a is given twice: say all of it at once");
    }));

  test("without a handler runs the programs that jobs name, and leaves those without", async () => {
    const folder = temporaryFolder();
    {
      await using queue = await open(join(folder, "jobs.db"), QUIET);
      await queue.enqueue([{ input: "nobody's" }, { shell: "cat; echo $((6 * 7)) > $LEASE_OUTPUT", input: "hello" }]);
      await queue.worker({ until_empty: true }).finished;
      expect(await queue.list({ reverse: true })).toMatchObject([
        { state: "pending", reason: "no worker of queue default has a handler for it" },
        { state: "completed", output: 42 },
      ]);
      expect(await Array.fromAsync(queue.logs(2))).toMatchObject([{ job: 2, attempt: 1, text: "hello" }]);
    }
    rmSync(folder, { recursive: true });
  });

  test.each<[string, object]>([
    ['there is no option "slotz"; did you mean slots?', { slotz: 1 }],
    ["slots must be a number", { slots: [] }],
    ['slots "0" is not a whole number from 1 to 10000', { slots: 0 }],
    ["extension must not be longer than lease, and is 4s with a lease of 2s", { lease: "2s", extension: "4s" }],
    ["interval must be less than half of lease, and is 2s with a lease of 2s", { lease: "2s", interval: "2s" }],
    ["min needs max: say between how many slots to scale", { min: 2 }],
    ["options are an object, { name: value }, and this is a function", (() => 1) as unknown as object],
    [
      'isolate runs the handler in another thread, where a function can\'t go: pass new URL("./handler.ts", import.meta.url), whose default export is the function',
      { isolate: true },
    ],
  ])("refuses with: %s", (message, options) =>
    inMemory(async (queue) => {
      expect((await refusal(() => queue.worker(options, () => 1)))[1]).toBe(message);
    }),
  );

  test("tells whoever waits for it when the store can't be used any more", async () => {
    const queue = await open(":memory:", QUIET);
    const worker = queue.worker({ queue: "bad\nname".slice(0, 3) }, () => 1);
    await queue.close();
    await worker.finished;
    expect(worker.statistics().state).toBe("stopped");
  });
});

describe("in threads of their own", () => {
  const folder = temporaryFolder();
  afterAll(() => rmSync(folder, { recursive: true }));
  const module = (text: string) => {
    // A folder for each: runtimes remember what was in one.
    const path = join(mkdtempSync(join(folder, "handler-")), "handler.js");
    writeFileSync(path, text);
    return pathToFileURL(path);
  };

  test("handlers get the job, say what they have to say, and return", async () => {
    await using queue = await open(":memory:", QUIET);
    await queue.enqueue([{ input: { n: 20 } }, { input: { n: 1 }, retries: 0 }]);
    const url = module(`export default async (job, { beat, log, progress, checkpoint }) => {
      beat(); log("n is", job.input.n, { a: 1 }); progress(50, "half");
      await checkpoint({ at: job.input.n });
      if (job.input.n === 1) throw new TypeError("one", { cause: new Error("why") });
      return { twice: job.input.n * 2 };
    }`);
    const worker = queue.worker({ isolate: true, slots: 2, until_empty: true }, url);
    await worker.finished;
    expect(await queue.inspect(1)).toMatchObject({ state: "completed", output: { twice: 40 }, progress: 50 });
    expect(await queue.inspect(2)).toMatchObject({ state: "failed", cause: "error", error: "TypeError: one" });
    expect((await queue.inspect(1)).checkpoints).toMatchObject([{ kind: "progress", text: '{"at":20}' }]);
    expect(await Array.fromAsync(queue.logs(1))).toMatchObject([{ text: 'n is 20 {"a":1}' }]);
    expect((await Array.fromAsync(queue.logs(2))).map(({ text }) => text).join("\n")).toContain("caused by: ");
  });

  test("one that keeps its thread busy is found silent, ended by force, and its slot is used again", async () => {
    await using queue = await open(":memory:", QUIET);
    await queue.enqueue([{ input: "busy", retries: 0 }, { input: "next" }]);
    const url = module(`export default (job) => { while (job.input === "busy"); return "fine"; }`);
    const worker = queue.worker({ isolate: true, lease: "1s", grace: "100ms", until_empty: true }, url);
    await worker.finished;
    expect(await queue.inspect(1)).toMatchObject({ state: "failed", cause: "silent" });
    expect(await queue.inspect(2)).toMatchObject({ state: "completed", output: "fine" });
  }, 20_000);

  test("one that leaves its thread has failed at once, and the next gets another", async () => {
    await using queue = await open(":memory:", QUIET);
    await queue.enqueue([{ input: "leave", retries: 0 }, { input: "next" }]);
    const url = module(`export default ({ input }) => (input === "leave" ? process.exit(3) : "fine")`);
    const worker = queue.worker({ isolate: true, until_empty: true }, url);
    await worker.finished;
    const error = "its thread ended: the handler called process.exit(3)";
    expect(await queue.inspect(1)).toMatchObject({ state: "failed", error });
    expect(await queue.inspect(2)).toMatchObject({ state: "completed", output: "fine" });
  }, 20_000);
});

describe("what people ask of a queue", () => {
  const fails = (): never => {
    throw new NoRetry("it can't work");
  };

  test("wait answers for one, for several, for a task, and gives up after its time", () =>
    inMemory(async (queue, clock) => {
      const [a, b] = await queue.enqueue([
        { input: 1, task: "t" },
        { input: 2, task: "t" },
      ]);
      await drain(queue, (job) => job.input, { max_jobs: 1 });
      expect(await queue.wait(a!)).toMatchObject({ id: 1, state: "completed", output: 1 });
      expect(await queue.wait([a!, b!], { any: true })).toMatchObject([{ id: 1 }]);
      const late = refusal(() => queue.wait({ task: "t" }, { timeout: "10s" }));
      await clock.advance("10s");
      expect((await late)[0]).toBe("timed_out");
      await drain(queue, (job) => job.input);
      expect(await queue.wait({ task: "t" })).toMatchObject([{ id: 1 }, { id: 2 }]);
      expect((await refusal(() => queue.wait(9)))[0]).toBe("no_such_job");
    }));

  test("logs follow a job to its end", async () => {
    await using queue = await open(":memory:", QUIET);
    const { id } = await queue.enqueue({ input: 1 });
    await using _ = queue.worker({}, async (_job, { log }) => {
      log("one");
      await Bun.sleep(20);
      log("two");
    });
    const lines = await Array.fromAsync(queue.logs(id, { follow: true }));
    expect(lines.map(({ text, stream }) => [stream, text])).toEqual([
      ["stdout", "one"],
      ["stdout", "two"],
    ]);
  });

  test("retry runs a failed job again, with all that it needs", () =>
    inMemory(async (queue) => {
      const { id } = await queue.enqueue({ input: 1 });
      expect(await drain(queue, fails)).toEqual({ completed: 0, failed: 1, other: 0 });
      expect(await queue.inspect(id)).toMatchObject({ state: "failed", error: "it can't work", attempts: 1 });
      expect(await queue.retry({ queue: "default" })).toMatchObject([{ id, status: "pending" }]);
      await drain(queue, () => "fine");
      expect(await queue.inspect(id)).toMatchObject({ state: "completed", output: "fine", attempts: 2 });
      expect((await refusal(() => queue.retry({ task: "none" })))[0]).toBe("nothing_matched");
      expect((await refusal(() => queue.cancel({})))[0]).toBe("usage");
    }));

  test("pause and resume hold a queue back and let it go on", () =>
    inMemory(async (queue) => {
      await queue.enqueue({ queue: "mail", input: 1 });
      await queue.pause("mail");
      await using _ = queue.worker({ queue: "mail" }, () => 1);
      expect(await queue.list()).toMatchObject([{ state: "pending", reason: "queue paused" }]);
      await queue.resume("mail");
      expect(await queue.wait(1)).toMatchObject({ state: "completed" });
    }));

  test("list, inspect and prune say and do what the commands do", () =>
    inMemory(async (queue, clock) => {
      await queue.enqueue([{ input: 1 }, { input: 2, queue: "b", task: "t" }]);
      await drain(queue, () => 1, { queue: "b" });
      expect((await queue.list({ status: "completed" })).map(({ id }) => id)).toEqual([2]);
      expect((await queue.list({ status: ["pending", "completed"], sort: "id", reverse: true })).length).toBe(2);
      expect(await queue.inspect()).toMatchObject({ queues: [{ queue: "b" }, { queue: "default", pending: 1 }] });
      await clock.advance("2d");
      expect((await refusal(() => queue.prune({})))[0]).toBe("usage");
      expect(await queue.prune({ older_than: "1d", dry_run: true })).toEqual({ found: 1, deleted: 0 });
      expect(await queue.prune({ older_than: "1d" })).toEqual({ found: 1, deleted: 1 });
      expect(await queue.list()).toHaveLength(1);
    }));

  test.each<[string, (queue: Queue) => unknown]>([
    ['"7" is not a job\'s id', (queue) => queue.inspect("7" as unknown as number)],
    ["0 is not a job's id", (queue) => queue.inspect(0)],
    ["options are an object, { name: value }, and this is missing", (queue) => queue.wait(undefined as never)],
    ["options are an object, { name: value }, and this is null", (queue) => queue.cancel(null as never)],
    ["options are an object, { name: value }, and this is missing", (queue) => queue.prune(undefined as never)],
    ["options are an object, { name: value }, and this is null", (queue) => queue.list(null as never)],
    ["which queue? Name one", (queue) => queue.pause()],
    ["a,b is not one queue: name each", (queue) => queue.pause("a,b")],
    ['queue "" is not a name: 1 to 255 characters, none of them control characters', (queue) => queue.pause("")],
    ['queue "a\\nb" is not a name: 1 to 255 characters, none of them control characters', (q) => q.resume("a\nb")],
  ])("refuses with: %s", (message, ask) =>
    inMemory(async (queue) => {
      expect((await refusal(async () => ask(queue)))[1]).toBe(message);
    }),
  );

  test("limit bounds what runs, and tells what is in use", () =>
    inMemory(async (queue) => {
      expect(await queue.limit("api", { most: 1 })).toMatchObject([{ name: "api", running: 0 }]);
      await queue.enqueue([
        { input: 1, limit: "api" },
        { input: 2, limit: "api" },
      ]);
      let most = 0;
      let running = 0;
      await drain(
        queue,
        async () => {
          most = Math.max(most, (running += 1));
          await Promise.resolve();
          running -= 1;
        },
        { slots: 4 },
      );
      expect(most).toBe(1);
      expect(await queue.limit("api", null)).toEqual([]);
      expect((await refusal(() => queue.limit("api")))[0]).toBe("nothing_matched");
      expect((await refusal(() => queue.limit("api", {})))[0]).toBe("usage");
    }));

  test("schedule makes jobs at its times, and can be held, made to go on, and taken away", () =>
    inMemory(async (queue) => {
      const [set] = await queue.schedule("nightly", {
        cron: "0 3 * * *",
        tz: "UTC",
        queue: "b",
        input: { full: true },
      });
      expect(set).toMatchObject({ name: "nightly", cron: "0 3 * * *", queue: "b", paused: false });
      expect(set?.next).toHaveLength(5);
      expect(await queue.schedule("nightly", "pause")).toMatchObject([{ paused: true }]);
      expect(await queue.schedule("nightly", "resume")).toMatchObject([{ paused: false }]);
      await queue.schedule("nightly", "now");
      expect(await queue.list()).toMatchObject([{ queue: "b", input: { full: true } }]);
      expect(await queue.schedule()).toHaveLength(1);
      expect(await queue.schedule("nightly", "remove")).toEqual([]);
      expect((await refusal(() => queue.schedule("nightly")))[0]).toBe("nothing_matched");
      expect((await refusal(() => queue.schedule("x", { input: 1 })))[1]).toBe("when? Say it with cron or every");
      for (const [once, said] of [
        [{ after_any: [1] }, "after_any is for one job"],
        [{ at: "2031-01-01T00:00:00Z" }, "at is for one job"],
        [{ key: "k", if_exists: "fail" }, "if_exists is for one job: say it with overlap"],
        [
          { cron: "61 * * * *", every: undefined },
          'cron "61 * * * *" has the minute "61": write 0-59, or *, */5, 1-4, 1,15',
        ],
      ] as const) {
        const refused = await refusal(() => queue.schedule("x", { every: "1h", input: 1, ...once } as never));
        expect(refused).toEqual(["usage", expect.stringContaining(said)]);
      }
      expect((await refusal(() => queue.schedule("x", { cron: "no", input: 1 })))[0]).toBe("usage");
    }));

  test("watch tells of changes here and in other processes", async () => {
    const folder = temporaryFolder();
    {
      await using queue = await open(join(folder, "jobs.db"));
      await using other = await open(join(folder, "jobs.db"));
      for (const writer of [queue, other]) {
        const changed = Promise.withResolvers<void>();
        const stop = queue.watch(changed.resolve);
        await writer.enqueue({ input: 1 });
        await changed.promise;
        stop();
      }
    }
    rmSync(folder, { recursive: true });
  });
});

describe("a test of somebody's handler", () => {
  test("needs no sleeps: drain runs what is due, the clock moves the rest", () =>
    inMemory(
      async (queue, clock) => {
        await queue.enqueue([
          { input: "now", backoff: "fixed:1m" },
          { input: "later", delay: "1h" },
        ]);
        const seen: unknown[] = [];
        const handler = (job: { input: string; attempts: number }) => {
          seen.push([job.input, job.attempts]);
          if (job.input === "now" && job.attempts === 1) throw new Error("once");
        };
        expect(await drain(queue, handler)).toEqual({ completed: 0, failed: 0, other: 1 });
        expect(await drain(queue, handler)).toEqual({ completed: 0, failed: 0, other: 0 });
        await clock.advance("1m");
        expect(await drain(queue, handler)).toEqual({ completed: 1, failed: 0, other: 0 });
        await clock.advance("1h");
        expect(await drain(queue, handler)).toEqual({ completed: 1, failed: 0, other: 0 });
        expect(seen).toEqual([
          ["now", 1],
          ["now", 2],
          ["later", 1],
        ]);
      },
      { random: () => 0.5 },
    ));
});
