/** Resources: a job starts where what it needs is free, and no two jobs of a machine hold the same of it. */

import { describe, expect } from "bun:test";
import { end } from "../support/jobs.ts";
import { codeOf, only, type StoreTest, type Subject } from "./subject.ts";

const gpus = { gpu: ["0", "1"] };
const one = { needs: { gpu: 1 } };
const held = async (s: Subject) => (await s.store.holdings()).map(({ held: given }) => given);

export function resourcesContract(test: StoreTest): void {
  describe("a need", () => {
    test("is met by an acquirer whose machine has it, and by no other", async (s) => {
      const [needing, plain] = await s.enqueue(one, {});
      expect(await s.acquireIds({ count: 9 })).toEqual([plain as number]);
      expect(await s.acquireIds({ count: 9, have: { mem: 5 } })).toEqual([]);
      const grant = only(await s.acquire({ count: 9, have: gpus }));
      expect(grant).toMatchObject({ job: { id: needing as number, needs: { gpu: 1 } }, held: { gpu: ["0"] } });
      expect(await s.store.holdings()).toEqual([{ job: needing as number, host: "h1", held: { gpu: ["0"] } }]);
    });

    test("of ids gets each job its own, and a job that needs two gets two", async (s) => {
      await s.enqueue(one, one, one, { needs: { gpu: 2 } });
      const grants = await s.acquire({ count: 9, have: gpus });
      expect(grants.map(({ held: given }) => given)).toEqual([{ gpu: ["0"] }, { gpu: ["1"] }]);
      expect(await s.acquireIds({ count: 9, have: gpus })).toEqual([]);
      await s.settle(grants[0] as never);
      expect(only(await s.acquire({ have: gpus })).held).toEqual({ gpu: ["0"] });
      expect(await held(s)).toEqual([{ gpu: ["1"] }, { gpu: ["0"] }]);
    });

    test("of an amount gets jobs as long as it lasts", async (s) => {
      await s.enqueue(...[8, 20, 8, 4].map((mem) => ({ needs: { mem } })));
      const grants = await s.acquire({ count: 9, have: { mem: 32 } });
      expect(grants.map(({ held: given }) => given)).toEqual([{ mem: 8 }, { mem: 20 }, { mem: 4 }]);
    });

    test("of several takes all of them or none", async (s) => {
      await s.enqueue({ needs: { gpu: 1, mem: 8 } }, { needs: { gpu: 1, mem: 8 } });
      const have = { ...gpus, mem: 10 };
      expect(await s.acquireIds({ count: 9, have })).toHaveLength(1);
      expect(only(await held(s))).toEqual({ gpu: ["0"], mem: 8 });
    });

    test("is shared by all workers of a host, and not by those of another", async (s) => {
      await s.enqueue(one, one, one, one);
      const ask = (holder: string, host: string) => s.acquire({ holder, host, count: 9, have: gpus });
      expect(await ask("w1", "h1")).toHaveLength(2);
      expect(await ask("w2", "h1")).toEqual([]);
      expect(await ask("w3", "h2")).toHaveLength(2);
    });

    test("is free again when the lease is, whoever ended it", async (s) => {
      await s.enqueue({ ...one, settings: { retries: 5 } });
      const first = only(await s.acquire({ have: gpus, lease_ms: 5_000 }));
      await s.passTime(60_000);
      expect(await held(s)).toEqual([{ gpu: ["0"] }]);
      await s.store.recover([await s.recovery(first.job.id)]);
      expect(await held(s)).toEqual([]);
      const again = only(await s.acquire({ have: gpus }));
      expect(again.held).toEqual({ gpu: ["0"] });
      await s.settle(again, end("returned"));
      expect(await held(s)).toEqual([]);
    });

    test("that is larger than what is there waits, and lets others go first", async (s) => {
      const [big, small] = await s.enqueue({ needs: { gpu: 3 } }, one);
      await s.passTime(120_000);
      expect(await s.acquireIds({ count: 9, have: gpus })).toEqual([small as number]);
      expect(await s.stateOf(big as number)).toBe("pending");
    });

    test("of much is not overtaken for ever: after a minute what it needs is kept free", async (s) => {
      await s.enqueue(one);
      const running = only(await s.acquire({ have: gpus }));
      const [big] = await s.enqueue({ needs: { gpu: 2 } }, one);
      // Not yet: the small one fills the gap.
      const small = only(await s.acquire({ count: 9, have: gpus }));
      expect(small.job.needs).toEqual({ gpu: 1 });
      await s.passTime(60_000);
      await s.enqueue(one, {});
      await s.settle(small);
      const others = await s.acquire({ count: 9, have: gpus });
      expect(others.map(({ job }) => job.needs)).toEqual([{}]);
      await s.settle(running);
      expect(await s.acquireIds({ count: 9, have: gpus })).toEqual([big as number]);
    });

    test("and a limit both have to be met", async (s) => {
      await s.store.setLimit("x", { most: 1, rate: null });
      await s.enqueue({ ...one, limits: ["x"] }, { ...one, limits: ["x"] }, one);
      const grants = await s.acquire({ count: 9, have: gpus });
      expect(grants.map(({ job }) => job.limits)).toEqual([["x"], []]);
    });

    test("is never given twice to acquirers that ask at the same moment", async (s) => {
      await s.enqueue(...Array.from({ length: 12 }, () => one));
      const stores = [s.store, await s.reopen(), await s.reopen()];
      const have = { gpu: ["a", "b", "c", "d"] };
      const ask = (store: typeof s.store, n: number) =>
        store.acquire({ holder: `w${n}`, host: "h1", count: 2, queues: null, task: null, lease_ms: 60_000, have });
      const asked = stores.flatMap((store, n) => [ask(store, n), ask(store, n)]);
      const grants = [...(await Promise.all(asked)).flat(), ...(await s.acquire({ count: 12, have }))];
      const ids = grants.flatMap(({ held: given }) => given["gpu"] as string[]);
      expect(ids.toSorted()).toEqual(["a", "b", "c", "d"]);
    });

    test("is a name and how much of it", async (s) => {
      for (const needs of [{ "": 1 }, { "g p": 1 }, { gpu: 0 }, { gpu: -1 }, { gpu: 0.5 }, { '"': 1 }]) {
        expect(await codeOf(s.enqueueOne({ needs: needs as Record<string, number> }))).toBe("invalid_job");
      }
    });
  });
}
