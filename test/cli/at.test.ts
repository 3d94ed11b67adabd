/** `lease enqueue --at`: the job waits for a moment in the zone of whoever asks. */

import { describe, expect, test } from "bun:test";
import { expectRefusal, usePlaces } from "./lease.ts";

const newPlace = usePlaces();
const DAY_MS = 86_400_000;

describe("--at", () => {
  test("schedules the job for a moment, and no worker takes it before", async () => {
    const place = newPlace();
    const moment = new Date(Date.now() + 3 * DAY_MS);
    moment.setUTCMilliseconds(0);
    const id = await place.enqueue("--at", moment.toISOString(), "--", "true");
    expect(await place.work()).toBe(0);
    expect(await place.inspect(id)).toMatchObject({ state: "scheduled", attempts: 0, run_at: moment.toISOString() });
  });

  test("takes a time of day in the zone of whoever asks", async () => {
    const place = newPlace();
    const runsAt = async (zone: string) => {
      const { stdout } = await place.leaseWith({ env: { TZ: zone } }, "enqueue", "--at", "tomorrow 9:00", "--", "true");
      return (await place.inspect(Number(stdout))).run_at;
    };
    expect(await runsAt("UTC")).toMatch(/T09:00:00.000Z$/);
    expect(await runsAt("Asia/Tokyo")).toMatch(/T00:00:00.000Z$/);
    expect(await runsAt("Asia/Kolkata")).toMatch(/T03:30:00.000Z$/);
  });

  test("means the next time it is that late", async () => {
    const place = newPlace();
    for (const time of ["00:00", "12:00", "23:59"]) {
      const job = await place.inspect(await place.enqueue("--at", time, "--", "true"));
      const wait_ms = Date.parse(job.run_at) - Date.parse(job.created_at);
      expect(wait_ms).toBeGreaterThan(0);
      expect(wait_ms).toBeLessThanOrEqual(DAY_MS);
    }
  });

  test("runs a job of this very second at once", async () => {
    const place = newPlace();
    const now = new Date(Math.floor(Date.now() / 1_000) * 1_000).toISOString();
    const id = await place.enqueue("--at", now, "--", "true");
    expect(await place.inspect(id)).toMatchObject({ state: "pending" });
  });

  test("is refused in the past, in nonsense, and together with --delay", async () => {
    const place = newPlace();
    const refused = async (message: string | RegExp, ...flags: string[]) =>
      expectRefusal(await place.lease("enqueue", ...flags, "--", "true"), 2, message);
    await refused(/--at "2020-01-01 00:00" has passed/, "--at", "2020-01-01 00:00");
    await refused(/--at "teatime" is not a moment: write 18:30/, "--at", "teatime");
    await refused("--at and --delay both say when", "--at", "18:30", "--delay", "5m");
  });
});
