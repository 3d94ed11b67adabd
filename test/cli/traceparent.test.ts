/** The trace that somebody enqueues in goes on in the job: TRACEPARENT is stored with it and handed to its program. */

import { expect, test } from "bun:test";
import { usePlaces } from "./lease.ts";

const newPlace = usePlaces();
const CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const PRINT = ["--", "sh", "-c", 'echo "$TRACEPARENT|$TRACESTATE"'];

test("a job has the context of whoever enqueued it, by the quick way and by the whole command", async () => {
  const place = newPlace();
  const env = { TRACEPARENT: CONTEXT, TRACESTATE: "a=1" };
  await place.lease("enqueue", "--", "true"); // makes the store, so that the next one is quick
  for (const flags of [[], ["--key", "k"]]) {
    const id = (await place.leaseWith({ env }, "enqueue", ...flags, ...PRINT)).stdout.trim();
    await place.lease("worker", "--until-empty");
    expect((await place.lease("logs", id)).stdout).toBe(`${CONTEXT}|a=1\n`);
  }
});

test("what is no context is left out, and the job's own wins", async () => {
  const place = newPlace();
  const odd = (await place.leaseWith({ env: { TRACEPARENT: "nonsense" } }, "enqueue", ...PRINT)).stdout.trim();
  const own = CONTEXT.replace("b7ad", "beef");
  const words = ["enqueue", "--env", `TRACEPARENT=${own}`, ...PRINT];
  const named = (await place.leaseWith({ env: { TRACEPARENT: CONTEXT } }, ...words)).stdout.trim();
  await place.lease("worker", "--until-empty");
  expect((await place.lease("logs", odd)).stdout).toBe("|\n");
  expect((await place.lease("logs", named)).stdout).toBe(`${own}|\n`);
});

test("lease run hands it on, and bulk gives it to every job", async () => {
  const place = newPlace();
  const env = { TRACEPARENT: CONTEXT };
  expect((await place.leaseWith({ env }, "run", ...PRINT)).stdout).toBe(`${CONTEXT}|\n`);
  const lines = { env, stdin: "1\n2\n" };
  const { stdout } = await place.leaseWith(lines, "enqueue", "--from", "-", "--lines", ...PRINT);
  await place.lease("worker", "--until-empty");
  for (const id of stdout.trim().split("\n")) {
    expect((await place.lease("logs", id)).stdout).toBe(`${CONTEXT}|\n`);
  }
});

test("the jobs of a schedule are no part of what was going on when it was set", async () => {
  const place = newPlace();
  const every = ["schedule", "s", "--every", "1h", ...PRINT];
  expect((await place.leaseWith({ env: { TRACEPARENT: CONTEXT } }, ...every)).code).toBe(0);
  await place.lease("schedule", "s", "--now");
  await place.lease("worker", "--until-empty");
  expect((await place.lease("logs", "1")).stdout).toBe("|\n");
});
