import { describe, expect } from "bun:test";
import type { Lease } from "../../src/leasing/lease.ts";
import { LogFlusher } from "../../src/worker/log_flusher.ts";
import { LogCapture } from "../../src/runner/log/capture.ts";
import { decodeChunk } from "../../src/runner/log/chunk.ts";
import type { LogWrite } from "../../src/store/queries.ts";
import { answered, benchTest as test, intercept, type Bench } from "../leasing/fixture.ts";

const FLUSH_MS = 200;
const LIMIT = 16 * 1024 * 1024;

interface Source {
  lease: Lease;
  print: (text: string | Uint8Array) => void;
  finish: () => Promise<number>;
}

interface Flushing {
  /** What was asked of the store, call by call. */
  calls: (readonly LogWrite[])[];
  job: (limit_bytes?: number) => Promise<Source>;
  /** Fails every append while it is set. */
  broken: boolean;
  /** Holds every append until the test lets it go, while it is set. */
  gate: Promise<void> | null;
}

function flushing(b: Bench): Flushing {
  const f: Flushing = {
    calls: [],
    broken: false,
    gate: null,
    async job(limit_bytes = LIMIT) {
      const lease = await b.granted();
      const capture = new LogCapture(limit_bytes);
      const { wake, finish } = flusher.add(lease, capture);
      const print = (text: string | Uint8Array): void => {
        capture.add("stdout", typeof text === "string" ? new TextEncoder().encode(text) : text, b.clock.wall_ms());
        wake();
      };
      return { lease, print, finish };
    },
  };
  const store = intercept(b.store, {
    appendLogs: async (requests) => {
      f.calls.push(requests);
      if (f.broken) throw new Error("disk is full");
      await f.gate;
      return b.store.appendLogs(requests);
    },
  });
  const flusher = new LogFlusher(store, b.clock);
  return f;
}

async function stored(b: Bench, { lease }: Source): Promise<string> {
  const chunks = await b.store.logs({ job: lease.job.id, attempt: 1, from: 0, limit: 1_000 });
  let end = 0;
  for (const chunk of chunks) {
    expect(chunk.start).toBe(end);
    end += chunk.bytes;
  }
  return chunks
    .flatMap(decodeChunk)
    .map(({ bytes }) => new TextDecoder().decode(bytes))
    .join("");
}

describe("what jobs print", () => {
  test("is stored a fifth of a second after it was printed, all jobs in one write", async (b) => {
    const f = flushing(b);
    const [one, two] = [await f.job(), await f.job()];
    one.print("hello ");
    two.print("other\n");
    one.print("world\n");
    await b.pass(FLUSH_MS - 1);
    expect(f.calls).toEqual([]);
    await b.pass(1);
    expect(f.calls.map((writes) => writes.map(({ id }) => id))).toEqual([[one.lease.job.id, two.lease.job.id]]);
    expect([await stored(b, one), await stored(b, two)]).toEqual(["hello world\n", "other\n"]);
  });

  test("costs at most five writes a second, however chatty the jobs are", async (b) => {
    const f = flushing(b);
    const jobs = [await f.job(), await f.job(), await f.job()];
    for (let ms = 0; ms < 2_000; ms += 5) {
      for (const job of jobs) job.print(`${ms}\n`);
      await b.clock.advance(5);
    }
    expect(f.calls.length).toBeLessThanOrEqual(10);
  });

  test("costs nothing while nobody prints", async (b) => {
    const f = flushing(b);
    const job = await f.job();
    job.print("once\n");
    await b.pass(60_000);
    expect([f.calls.length, b.clock.timers]).toEqual([1, 0]);
  });

  test("in a flood is stored a piece at a time, so that others get their turn", async (b) => {
    const f = flushing(b);
    const [flood, quiet] = [await f.job(), await f.job()];
    for (let piece = 0; piece < 40; piece++) flood.print(new Uint8Array(64 * 1024).fill(120));
    quiet.print("me too\n");
    await b.pass(FLUSH_MS);
    const bytes = f.calls[0]!.map(({ chunks }) => chunks.reduce((sum, chunk) => sum + chunk.bytes, 0));
    expect(bytes).toEqual([512 * 1024, 7]);
    await b.pass(10 * FLUSH_MS, FLUSH_MS);
    expect((await stored(b, flood)).length).toBe(40 * 64 * 1024);
  });

  test("over its limit is dropped from the store again", async (b) => {
    const f = flushing(b);
    const job = await f.job(1_000);
    for (let piece = 0; piece < 30; piece++) {
      job.print(new Uint8Array(100).fill(120));
      await b.pass(FLUSH_MS);
    }
    const chunks = await b.store.logs({ job: job.lease.job.id, attempt: 1, from: 0, limit: 100 });
    const starts = chunks.map(({ start }) => start);
    expect(starts).toEqual([0, 100, 200, 2200, 2300, 2400, 2500, 2600, 2700, 2800, 2900]);
  });

  test("is kept until the store takes it", async (b) => {
    const f = flushing(b);
    const job = await f.job();
    f.broken = true;
    job.print("one\n");
    await b.pass(FLUSH_MS * 3, FLUSH_MS);
    job.print("two\n");
    f.broken = false;
    await b.pass(FLUSH_MS * 2, FLUSH_MS);
    expect(f.calls.length).toBeGreaterThan(2);
    expect(await stored(b, job)).toBe("one\ntwo\n");
  });
});

describe("the rest of a log when its job ends", () => {
  test("is stored at once", async (b) => {
    const f = flushing(b);
    const job = await f.job();
    job.print("last words\n");
    await job.finish();
    await answered();
    expect(await stored(b, job)).toBe("last words\n");
  });

  test("is stored whole, however much it is", async (b) => {
    const f = flushing(b);
    const job = await f.job();
    for (let piece = 0; piece < 40; piece++) job.print(new Uint8Array(64 * 1024).fill(120));
    await job.finish();
    await answered();
    expect((await stored(b, job)).length).toBe(40 * 64 * 1024);
  });

  test("costs no write where nothing was printed, or all is stored", async (b) => {
    const f = flushing(b);
    const [silent, done] = [await f.job(), await f.job()];
    done.print("hi\n");
    await b.pass(FLUSH_MS);
    await silent.finish();
    await done.finish();
    expect(f.calls).toHaveLength(1);
  });

  test("is neither lost nor doubled when a write is under way", async (b) => {
    const f = flushing(b);
    const job = await f.job();
    const gate = Promise.withResolvers<void>();
    f.gate = gate.promise;
    job.print("one\n");
    await b.clock.advance(FLUSH_MS);
    job.print("two\n");
    const finished = job.finish();
    gate.resolve();
    await finished;
    await answered();
    expect(await stored(b, job)).toBe("one\ntwo\n");
  });

  test("is neither lost nor doubled when the write under way fails", async (b) => {
    const f = flushing(b);
    const job = await f.job();
    f.broken = true;
    job.print("one\n");
    await b.clock.advance(FLUSH_MS);
    f.broken = false;
    job.print("two\n");
    await job.finish();
    await b.pass(FLUSH_MS * 5, FLUSH_MS);
    expect(await stored(b, job)).toBe("one\ntwo\n");
    expect(b.clock.timers).toBe(0);
  });
});

describe("at the end of a slow line", () => {
  const elsewhere = (b: Bench, write_ms: (bytes: number) => number) => {
    const sizes: number[] = [];
    const store = intercept(b.store, {
      shares_clock: false,
      appendLogs: async (requests) => {
        const bytes = requests.flatMap(({ chunks }) => chunks).reduce((sum, chunk) => sum + chunk.bytes, 0);
        sizes.push(bytes);
        await new Promise<void>((resolve) => void b.clock.after(write_ms(bytes), resolve));
        return b.store.appendLogs(requests);
      },
    });
    return { sizes, flusher: new LogFlusher(store, b.clock) };
  };
  const flood = (bytes: number) => new Uint8Array(bytes).fill(120);

  test("a write is as large as the line has shown to carry in a moment", async (b) => {
    // A byte a millisecond, as at 8 kbit/s.
    const { sizes, flusher } = elsewhere(b, (bytes) => bytes);
    const capture = new LogCapture(LIMIT);
    const { wake } = flusher.add(await b.granted(), capture);
    capture.add("stdout", flood(100_000), 0);
    wake();
    for (const ms of [FLUSH_MS, 4_096, FLUSH_MS, 2_048, FLUSH_MS]) await b.pass(ms);
    expect(sizes).toEqual([4_096, 2_048, 2_048]);
  });

  test("a fast line soon carries as much as there is", async (b) => {
    const { sizes, flusher } = elsewhere(b, () => 5);
    const capture = new LogCapture(LIMIT);
    const { wake } = flusher.add(await b.granted(), capture);
    capture.add("stdout", flood(300_000), 0);
    wake();
    for (let round = 0; round < 10; round++) await b.pass(FLUSH_MS + 5);
    expect(sizes.slice(0, 4)).toEqual([4_096, 8_192, 16_384, 32_768]);
    expect(sizes.reduce((sum, bytes) => sum + bytes)).toBe(300_000);
  });

  test("a job's end waits for its log for a part of its lease; the last lines are kept, and the rest is counted", async (b) => {
    const { sizes, flusher } = elsewhere(b, (bytes) => bytes);
    const capture = new LogCapture(LIMIT);
    const lease = await b.granted();
    const { finish } = flusher.add(lease, capture);
    capture.add("stdout", flood(100_000), 0);
    capture.add("stdout", new TextEncoder().encode("the end\n"), 0);
    const done = finish();
    await b.pass(30_000);
    const left_out = await done;
    await b.pass(5_000);
    const stored_bytes = sizes.reduce((sum, bytes) => sum + bytes);
    expect(stored_bytes + left_out).toBe(100_008);
    expect(stored_bytes).toBeLessThan(20_000);
    const chunks = await b.store.logs({ job: lease.job.id, attempt: 1, from: 0, limit: 1_000 });
    const text = chunks.flatMap(decodeChunk).map(({ bytes }) => new TextDecoder().decode(bytes));
    expect(text.join("")).toEndWith("xthe end\n");
    expect(chunks.at(-1)?.start).toBe(100_008 - 2_048);
  });
});
