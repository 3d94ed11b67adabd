/**
 * appendLogs and logs: what jobs print, as opaque pieces at their positions, kept within a limit.
 */

import { describe, expect } from "bun:test";
import type { Job } from "../../src/core/job.ts";
import type { LogChunk } from "../../src/core/records.ts";
import type { LogWrite } from "../../src/store/queries.ts";
import { end } from "../support/jobs.ts";
import { only, type StoreTest, type Subject } from "./subject.ts";

const piece = (start: number, bytes: number, ...data: number[]): LogChunk => ({
  start,
  bytes,
  data: new Uint8Array(data),
});

function write({ id, token }: Job, chunks: LogChunk[], limits: Partial<LogWrite> = {}): LogWrite {
  return { id, token, chunks, head_bytes: 0, keep_from: 0, ...limits };
}

async function starts(s: Subject, job: number, attempt = 1): Promise<number[]> {
  return (await s.store.logs({ job, attempt, from: 0, limit: 99 })).map(({ start }) => start);
}

export function logsContract(test: StoreTest): void {
  describe("beats that come with a log", () => {
    test("are known of an attempt whose worker is lost, and never of a stale one", async (s) => {
      const { job } = await s.granted();
      const print = { id: job.id, token: 1, chunks: [], head_bytes: 0, keep_from: 0 };
      await s.store.appendLogs([{ ...print, beats: 7 }]);
      await s.store.appendLogs([{ ...print, beats: 5 }]);
      await s.store.recover([await s.recovery(job.id, "lost")]);
      await s.store.appendLogs([{ ...print, beats: 9 }]);
      expect((await s.store.attempts(job.id)).map(({ beats }) => beats)).toEqual([7]);
    });
  });

  describe("appendLogs", () => {
    test("keeps pieces byte for byte, as whoever wrote them made them", async (s) => {
      const { job } = await s.granted();
      const every = Array.from({ length: 256 }, (_, value) => value);
      await s.store.appendLogs([write(job, [piece(0, 1_000, ...every), piece(1_000, 5, 0)])]);
      const stored = await s.store.logs({ job: job.id, attempt: 1, from: 0, limit: 9 });
      expect(stored.map(({ start, bytes, data }) => ({ start, bytes, data: [...data] }))).toEqual([
        { start: 0, bytes: 1_000, data: every },
        { start: 1_000, bytes: 5, data: [0] },
      ]);
    });

    test("keeps the pieces of each job and each attempt apart", async (s) => {
      const first = await s.granted();
      const other = await s.granted();
      await s.store.appendLogs([write(first.job, [piece(0, 1)]), write(other.job, [piece(0, 2), piece(2, 2)])]);
      await s.settle(first, end("returned"));
      const second = only(await s.acquire());
      await s.store.appendLogs([write(second.job, [piece(0, 3), piece(3, 1), piece(4, 1)])]);
      const { id } = first.job;
      expect([await starts(s, id, 1), await starts(s, id, 2), await starts(s, other.job.id)]).toEqual([
        [0],
        [0, 3, 4],
        [0, 2],
      ]);
    });

    test("takes a piece that comes again, after an answer that was lost, once", async (s) => {
      const { job } = await s.granted();
      await s.store.appendLogs([write(job, [piece(0, 4, 1)])]);
      await s.store.appendLogs([write(job, [piece(0, 4, 1), piece(4, 4, 2)])]);
      expect(await starts(s, job.id)).toEqual([0, 4]);
    });

    test("drops what lies between the head and the part to keep, and nothing that reaches into either", async (s) => {
      const { job } = await s.granted();
      await s.store.appendLogs([
        write(
          job,
          [0, 10, 20, 30, 40].map((start) => piece(start, 10)),
        ),
      ]);
      await s.store.appendLogs([write(job, [piece(50, 10)], { head_bytes: 15, keep_from: 45 })]);
      expect(await starts(s, job.id)).toEqual([0, 10, 40, 50]);
      await s.store.appendLogs([write(job, [], { head_bytes: 10, keep_from: 50 })]);
      expect(await starts(s, job.id)).toEqual([0, 50]);
    });

    test("that is asked for ahead of a settle is kept, though nobody has waited for it", async (s) => {
      const grants = [await s.granted(), await s.granted()];
      const endings = await Promise.all(grants.map(({ job }) => s.ending(job, end("success"))));
      const written = grants.map(({ job }) => s.store.appendLogs([write(job, [piece(0, 4, 1)])]));
      const settled = await Promise.all(endings.map((ending) => s.store.settle([ending])));
      await Promise.all(written);
      expect(settled.flat().map(({ status }) => status)).toEqual(["applied", "applied"]);
      for (const { job } of grants) expect(await starts(s, job.id)).toEqual([0]);
    });

    test("with a stale token is ignored", async (s) => {
      const old = await s.granted();
      await s.settle(old, end("returned"));
      await s.store.appendLogs([write(old.job, [piece(0, 1)])]);
      const current = only(await s.acquire());
      await s.store.appendLogs([write(old.job, [piece(0, 1)]), write(current.job, [piece(0, 1)])]);
      expect(await starts(s, old.job.id, 1)).toEqual([]);
      expect(await starts(s, old.job.id, 2)).toEqual([0]);
    });

    test("of an unknown job is ignored", async (s) => {
      const { job } = await s.granted();
      await s.store.appendLogs([{ ...write(job, [piece(0, 1)]), id: 999 }, write(job, [piece(0, 1)])]);
      expect(await starts(s, job.id)).toEqual([0]);
    });
  });

  describe("logs", () => {
    test("can be read on from where the last piece ended", async (s) => {
      const { job } = await s.granted();
      await s.store.appendLogs([
        write(
          job,
          [20, 0, 10].map((start) => piece(start, 10)),
        ),
      ]);
      const pages: number[][] = [];
      for (let from = 0; ;) {
        const page = await s.store.logs({ job: job.id, attempt: 1, from, limit: 2 });
        const last = page.at(-1);
        if (!last) break;
        pages.push(page.map(({ start }) => start));
        from = last.start + last.bytes;
      }
      expect(pages).toEqual([[0, 10], [20]]);
    });

    test("can be read backwards, each page in order", async (s) => {
      const { job } = await s.granted();
      await s.store.appendLogs([
        write(
          job,
          [0, 10, 20].map((start) => piece(start, 10)),
        ),
      ]);
      const before = async (position: number, from = 0) => {
        const query = { job: job.id, attempt: 1, from, before: position, limit: 2 };
        return (await s.store.logs(query)).map(({ start }) => start);
      };
      expect(await before(Number.MAX_SAFE_INTEGER)).toEqual([10, 20]);
      expect(await before(10)).toEqual([0]);
      expect(await before(20, 5)).toEqual([10]);
    });

    test("are still there when the job has ended", async (s) => {
      const grant = await s.granted();
      await s.store.appendLogs([write(grant.job, [piece(0, 1)])]);
      await s.settle(grant);
      expect(await starts(s, grant.job.id)).toEqual([0]);
    });

    test("of an attempt that there was not are none", async (s) => {
      const { job } = await s.granted();
      expect(await starts(s, job.id, 2)).toEqual([]);
      expect(await starts(s, 999)).toEqual([]);
    });
  });
}
