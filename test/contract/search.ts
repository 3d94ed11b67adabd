/**
 * search: a list for people, whose price is bounded by how many jobs it may look at.
 */

import { describe, expect } from "bun:test";
import type { SearchQuery } from "../../src/store/queries.ts";
import { end } from "../support/jobs.ts";
import { only, type StoreTest, type Subject } from "./subject.ts";

async function search(s: Subject, query: Partial<SearchQuery>) {
  const { jobs, behind_id } = await s.store.search({ text: "", among: 100, limit: 100, ...query });
  return { ids: jobs.map(({ id }) => id), behind_id };
}

const found = async (s: Subject, text: string, more: Partial<SearchQuery> = {}) =>
  (await search(s, { text, ...more })).ids;

export function searchContract(test: StoreTest): void {
  describe("search", () => {
    test("finds a part of the command, the key, the task, the error and the reason, the newest first", async (s) => {
      const [command, key, task] = (await s.enqueue(
        { argv: ["make", "needle-1"] },
        { key: "a-Needle-b" },
        { task: "needle" },
      )) as [number, number, number];
      const cancelled = await s.enqueueOne();
      await s.store.cancel([cancelled], "lost the needle");
      await s.store.cancel([key, task], null);
      const [grant] = await s.acquire({ count: 1 });
      expect(grant?.job.id).toBe(command);
      const failed = await s.granted({ settings: { retries: 0 } });
      await s.settle(failed, end("exit", { error: "no needle here" }));
      await s.enqueue({}, {});
      expect(await found(s, "needle")).toEqual([failed.job.id, cancelled, task, key, command]);
      expect(await found(s, "no needle")).toEqual([failed.job.id]);
    });

    test("reads a command as people type it: words next to each other, quotes and all, in capitals or not", async (s) => {
      const id = await s.enqueueOne({ argv: ["sh", "-c", 'echo "Hi" \\ done'] });
      await s.enqueueOne({ argv: ["sh", "-x"] });
      for (const text of ["sh -c", 'echo "hi"', "\\ DONE", "-c echo"]) expect(await found(s, text)).toEqual([id]);
      expect(await found(s, "%")).toEqual([]);
      expect(await found(s, "_")).toEqual([]);
      expect(await found(s, "'; DROP TABLE jobs; --")).toEqual([]);
    });

    test("looks at the command alone when it is told to", async (s) => {
      const id = await s.enqueueOne({ argv: ["make", "Needle"] });
      await s.enqueue({ key: "needle" }, { task: "needle" });
      expect(await found(s, "needle", { in_command: true })).toEqual([id]);
      expect(await found(s, "make needle", { in_command: true, states: ["pending"] })).toEqual([id]);
      expect(await found(s, "key", { in_command: true })).toEqual([]);
    });

    test("keeps to the states, queues and task that are asked for", async (s) => {
      const [a, b, c] = (await s.enqueue({ queue: "mail" }, { queue: "build", task: "t" }, { delay_ms: 60_000 })) as [
        number,
        number,
        number,
      ];
      expect((await search(s, { queues: ["mail", "build"] })).ids).toEqual([b, a]);
      expect((await search(s, { task: "t" })).ids).toEqual([b]);
      expect((await search(s, { states: ["scheduled"] })).ids).toEqual([c]);
      expect((await search(s, { states: ["pending", "scheduled"] })).ids).toEqual([c, b, a]);
      expect((await search(s, { states: ["retrying"] })).ids).toEqual([]);
      expect((await search(s, { states: [] })).ids).toEqual([]);
      expect((await search(s, { states: ["pending"], queues: ["mail"], text: "true" })).ids).toEqual([a]);
    });

    test("goes on where it ended, until nothing is left", async (s) => {
      const ids = await s.enqueue({}, {}, {}, {}, {});
      const first = await search(s, { limit: 2 });
      expect(first).toEqual({ ids: [ids[4], ids[3]], behind_id: ids[3] } as never);
      const second = await search(s, { limit: 2, behind_id: only([first.behind_id]) as number });
      expect(second.ids).toEqual([ids[2], ids[1]] as number[]);
      expect(await search(s, { limit: 2, behind_id: second.behind_id as number })).toEqual({
        ids: [ids[0] as number],
        behind_id: null,
      });
    });

    test("looks at no more jobs than it may, and says where it stopped", async (s) => {
      const [rare, , third] = (await s.enqueue({ key: "rare" }, {}, {}, {})) as [number, number, number];
      const first = await search(s, { text: "rare", among: 2 });
      expect(first).toEqual({ ids: [], behind_id: third });
      expect(await search(s, { text: "rare", among: 2, behind_id: third })).toEqual({ ids: [rare], behind_id: rare });
      expect(await search(s, { text: "rare", among: 2, behind_id: rare })).toEqual({ ids: [], behind_id: null });
    });

    test("finds a rare state whole, however many other jobs are newer", async (s) => {
      const failed = await s.finished("failed");
      await s.enqueue({}, {}, {}, {});
      expect(await search(s, { states: ["failed"], among: 1 })).toEqual({ ids: [failed], behind_id: null });
      expect(await search(s, { states: ["failed"], among: 1, behind_id: failed })).toEqual({
        ids: [],
        behind_id: null,
      });
      expect((await search(s, { states: ["pending"], among: 1 })).ids).toHaveLength(1);
    });
  });
}
