/** What an overview asks a store, of which nothing but its answers is there. */

import { expect, test } from "bun:test";
import type { Job } from "../../src/core/job.ts";
import { overviewNow } from "../../src/lookup/overview.ts";
import type { Glance } from "../../src/store/store.ts";
import { failed, now_ms, running } from "../view/fixture.ts";

function storeOf({ held, failures }: { held: readonly Job[]; failures: readonly Job[] }) {
  const asked: string[] = [];
  const answers: Record<string, (query: Record<string, unknown>) => unknown> = {
    list: ({ states }) => (String(states) === "failed" ? failures : []),
    expired: () => held.map((job) => ({ job, expires_at_ms: now_ms + 1_000 })),
    counts: () => [{ queue: "default", state: "running", count: held.length }],
    leases: () => ({ held: held.length, stale: 0, next_end_ms: null }),
    recovery: () => null,
    checkpoints: ({ newest_of }) =>
      (newest_of as number[]).map((job) => ({
        job,
        token: 4,
        kind: "error",
        text: JSON.stringify({ last_lines: [`of ${job}`] }),
      })),
  };
  const verbs = new Proxy(answers, {
    get: (known, verb: string) => async (query: Record<string, unknown>) => {
      asked.push(verb);
      return known[verb]?.(query) ?? [];
    },
  });
  return { asked, store: verbs as unknown as Glance };
}

const cancelling = (id: number): Job => {
  const job = running({ id });
  return { ...job, state: { ...job.state, cancel_requested_at_ms: now_ms } as Job["state"] };
};

test("an overview asks as often whatever has failed or is cancelled", async () => {
  const rest = storeOf({ held: [], failures: [] });
  await overviewNow(rest.store, now_ms);
  const busy = storeOf({
    held: [running({ id: 1 }), cancelling(2)],
    failures: [failed({ id: 3 }), failed({ id: 4 }), failed({ id: 5 })],
  });
  const told = await overviewNow(busy.store, now_ms);
  expect(told.queues.map(({ counts }) => [counts.running, counts.cancelling])).toEqual([[1, 1]]);
  expect(told.failures.map(({ last_line }) => last_line)).toEqual(["of 3", "of 4", "of 5"]);
  expect(new Set(busy.asked).size).toBe(busy.asked.length);
  expect(busy.asked.length - rest.asked.length).toBeLessThanOrEqual(1);
});
