import { describe, expect, test } from "bun:test";
import { clock, staleLeases } from "../../src/lookup/checkup.ts";
import { host, ownIdentity, runningFor_ms } from "../../src/platform/machine.ts";
import { attempt, HOUR_MS, MINUTE_MS, now_ms, running, worker } from "../view/fixture.ts";

const times = { now_ms, wall_ms: now_ms, latest_ms: now_ms, workers: [] };
const AGE_MS = runningFor_ms(ownIdentity());

describe("the clock", () => {
  test("is well when it agrees with everything that can be asked", () => {
    expect(clock(times)).toEqual({ name: "clock", level: "ok", value: "2026-05-02T10:00:00.000Z", advice: null });
    expect(clock({ ...times, latest_ms: now_ms + 4_000 }).level).toBe("ok");
  });

  test("is wrong when it stands where no lease can ever have been", () => {
    expect(clock({ ...times, now_ms: 0, wall_ms: 0, latest_ms: 0 })).toMatchObject({
      level: "error",
      value: "says 1970-01-01T00:00:00.000Z",
    });
  });

  test("was set back when the store knows of later times", () => {
    expect(clock({ ...times, latest_ms: now_ms + HOUR_MS })).toMatchObject({
      level: "warn",
      value: "was set back: the store holds a time 1h ahead",
    });
  });

  test("is worth a word when the store's is another", () => {
    expect(clock({ ...times, wall_ms: now_ms - 2 * MINUTE_MS }).value).toBe("2m apart from the store's");
  });

  test.skipIf(AGE_MS === null)("was set when a worker has lived longer or shorter than it says", () => {
    const started = (step_ms: number) =>
      worker({ host, process: ownIdentity(), started_at_ms: now_ms - (AGE_MS ?? 0) - step_ms });
    expect(clock({ ...times, workers: [started(0)] }).level).toBe("ok");
    expect(clock({ ...times, workers: [started(HOUR_MS)] }).value).toMatch(/^was set 1h forward since worker /);
    expect(clock({ ...times, workers: [started(-HOUR_MS)] }).value).toMatch(
      /^was set (?:1h|59m\d\ds) back since worker /,
    );
    // Of another machine's processes nothing is known.
    expect(clock({ ...times, workers: [{ ...started(HOUR_MS), host: `not-${host}` }] }).level).toBe("ok");
  });
});

describe("leases that ran out", () => {
  const expired = (ago_ms: number, holder_dead = false) => ({
    job: running({ id: 7 }),
    expires_at_ms: now_ms - ago_ms,
    holder_dead,
    attempt: attempt(),
    last_chunks: [],
  });

  test("are to be expected for as long as a sweep may take, and an error when none comes", () => {
    expect(staleLeases([], now_ms).level).toBe("ok");
    expect(staleLeases([expired(MINUTE_MS)], now_ms)).toMatchObject({ level: "warn", value: "1 ran out (job 7)" });
    expect(staleLeases([expired(3 * MINUTE_MS)], now_ms).level).toBe("error");
    expect(staleLeases([expired(-MINUTE_MS, true)], now_ms)).toMatchObject({
      level: "warn",
      value: "1 held by dead workers (job 7)",
    });
  });

  test("are counted, and the first named", () => {
    const many = [expired(1), expired(2), expired(3, true), expired(4), expired(5)];
    expect(staleLeases(many, now_ms).value).toBe("4 ran out, 1 held by dead workers (job 7, 7, 7 …)");
  });
});
