/** `lease doctor --alert`: quiet while all is well, and else one line for each rule that is broken, for cron and monitors. */

import { describe, expect, test } from "bun:test";
import { expectRefusal, usePlaces } from "./lease.ts";

const newPlace = usePlaces();
const RULES = ["doctor", "--alert", "stale=5m,oldest=1h,failed=2/1h"];

describe("doctor --alert", () => {
  test("says nothing and exits with 0 when no rule is broken", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    expect(await place.lease(...RULES)).toMatchObject({ code: 0, stdout: "", stderr: "" });
    expect(JSON.parse((await place.lease(...RULES, "--json")).stdout)).toMatchObject({ schema: 1, alerts: [] });
  });

  test("tells of jobs that failed, by queue, from so many on", async () => {
    const place = newPlace();
    for (const queue of ["mail", "build"]) await place.enqueue("-q", queue, "--retries", "0", "--", "false");
    await place.lease("worker", "-q", "mail", "--until-empty");
    expect((await place.lease(...RULES)).code).toBe(0);
    await place.lease("worker", "-q", "build", "--until-empty");
    const { code, stdout } = await place.lease(...RULES);
    expect({ code, stdout }).toEqual({
      code: 1,
      stdout: "failed: 2 jobs failed within 1h (build 1, mail 1)\n",
    });
  });

  test("tells of a job that waits for too long, and of one in a paused queue", async () => {
    const place = newPlace();
    await place.enqueue("-q", "mail", "--", "true");
    await place.lease("pause", "mail");
    await Bun.sleep(20);
    const { code, stdout } = await place.lease("doctor", "--alert", "oldest=1ms");
    expect(code).toBe(1);
    expect(stdout).toMatch(/^oldest: queue mail has a job that has been pending for \S+ \(it is paused\)\n$/);
  });

  test("tells of leases that nobody recovers, by job", async () => {
    const place = newPlace();
    const id = await place.enqueue("--lease", "1s", "--", "sh", "-c", "kill -9 $PPID");
    await place.lease("worker", "--once", "--no-sweep");
    await Bun.sleep(1_050);
    const { code, stdout } = await place.lease("doctor", "--alert", "stale=0");
    expect(code).toBe(1);
    expect(stdout).toContain(`stale: 1 lease over for more than 0ms and not recovered (job ${id})`);
  });

  test.each(["soon", "stale=", "stale=5", "failed=1h", "failed=0/1h", "oldest=3/1h", "stale=5m,,oldest=1h"])(
    "refuses %p",
    async (rules) => {
      expectRefusal(await newPlace().lease("doctor", "--alert", rules), 2, "is not a rule");
    },
  );

  test("exits with 125 or 1 where there is no store to look at, and says so", async () => {
    const { code, stderr } = await newPlace().lease(...RULES);
    expect(code).not.toBe(0);
    expect(stderr).not.toBe("");
  });
});
