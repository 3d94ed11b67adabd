/** Who is told that a job is to be cancelled: the attempt that the request is about, with the grace that it names. */

import { expect, test } from "bun:test";
import type { Attempt } from "../../src/worker/attempt.ts";
import { CancelWatch } from "../../src/worker/cancel_watch.ts";
import type { Store } from "../../src/store/store.ts";
import { answered } from "../leasing/fixture.ts";
import { ManualClock } from "../support/clock.ts";

test("a cancel reaches the attempt that it is about alone, with its grace", async () => {
  const clock = new ManualClock();
  const told: unknown[] = [];
  const attempt = (id: number, token: number) =>
    ({
      lease: { job: { id }, token },
      cancel: (grace: unknown) => told.push([id, token, grace]),
    }) as unknown as Attempt;
  const store = { cancelRequests: async () => [{ id: 7, token: 2, grace: 1_500 }] } as unknown as Store;
  const running = new Set([attempt(7, 1), attempt(7, 2), attempt(8, 2)]);
  const watch = new CancelWatch({ store, clock, worker_id: "w", running });
  watch.lookSoon();
  await clock.advance(60_000);
  await answered();
  expect(told).toEqual([[7, 2, 1_500]]);
});
