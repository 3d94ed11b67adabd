/** Schedules through the program: set, shown, fired by a worker and by a watchdog, and what is refused. */

import { describe, expect, test } from "bun:test";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expectRefusal, LEASE, run, until, usePlaces } from "./lease.ts";

const place = usePlaces();

describe("lease schedule", () => {
  test("shows its next five times when it is set, and lists what there is", async () => {
    const p = place();
    const set = await p.lease(
      "schedule",
      "nightly",
      "--cron",
      "0 3 * * *",
      "--tz",
      "Europe/Berlin",
      "-q",
      "b",
      "--",
      "./backup.sh",
      "-v",
    );
    expect(set).toMatchObject({ code: 0, stderr: "" });
    expect(set.stdout).toContain("0 3 * * * Europe/Berlin");
    const { stdout } = await p.lease("schedule", "nightly", "--json");
    const shown = JSON.parse(stdout) as { next: string[] };
    expect(shown).toMatchObject({ schema: 1, name: "nightly", tz: "Europe/Berlin", overlap: "skip", catch_up: "one" });
    expect(shown).toMatchObject({ queue: "b", argv: ["./backup.sh", "-v"], last_job: null, paused: false });
    expect(shown.next).toHaveLength(5);
    expect(new Set(shown.next.map((at) => new Date(at).getUTCHours())).isSubsetOf(new Set([1, 2]))).toBe(true);
    const again = await p.lease("schedule", "nightly", "--every", "2h", "--", "true");
    expect(again.code).toBe(0);
    expect((await p.lease("schedule")).stdout).toMatch(/nightly\s+every 2h\s+in 2h/);
    const answer = (text: string) => ({ code: 0, stdout: text, stderr: "" });
    expect(await p.lease("schedule", "nightly", "--pause")).toEqual(answer("nightly paused\n"));
    expect((await p.lease("schedule")).stdout).toContain("paused");
    expect(await p.lease("schedule", "nightly", "--resume")).toEqual(answer("nightly resumed\n"));
    expect(await p.lease("schedule", "nightly", "--now")).toMatchObject({ code: 0, stdout: "1\n" });
    expect(await p.lease("schedule", "nightly", "--remove")).toEqual(answer("nightly removed\n"));
    expectRefusal(await p.lease("schedule", "nightly"), 1, "there is no schedule nightly");
  });

  test("is fired by a worker at its time, and by a watchdog that is run once", async () => {
    const p = place();
    await p.lease(
      "schedule",
      "tick",
      "--every",
      "1s",
      "-c",
      'echo "$LEASE_SCHEDULE $LEASE_SCHEDULED_AT"; touch ticked',
    );
    const worker = Bun.spawn([LEASE, "worker"], { cwd: p.folder, env: { ...process.env, ...p.env }, stderr: "ignore" });
    try {
      await until(() => existsSync(join(p.folder, "ticked")));
    } finally {
      worker.kill("SIGQUIT");
      await worker.exited;
    }
    expect(await p.log(1)).toMatch(/^tick \d{4}-\d\d-\d\dT/);
    await p.lease("schedule", "tick", "--remove");
    const before = p.rows<{ n: number }>("SELECT count(*) AS n FROM jobs")[0]?.n ?? 0;
    await p.lease("schedule", "once", "--every", "1s", "--catch-up", "one", "--", "true");
    await until(() => p.rows("SELECT 1 FROM schedules WHERE next_at_ms <= unixepoch('subsec') * 1000").length > 0);
    await Promise.all([1, 2, 3].map(() => run([LEASE, "watchdog", "--once"], { cwd: p.folder, env: p.env })));
    const made = p.rows<{ n: number }>("SELECT count(*) AS n FROM jobs")[0]?.n ?? 0;
    const fired = p.rows<{ n: number }>(
      "SELECT count(*) AS n FROM fired WHERE schedule = 'once' AND job_id IS NOT NULL",
    );
    expect(made).toBeGreaterThan(before);
    expect(made - before).toBe(fired[0]?.n ?? 0);
  });

  test("goes along with limits and what jobs need when a store is copied", async () => {
    const p = place();
    await p.lease("schedule", "nightly", "--cron", "0 3 * * *", "--limit", "x", "--need", "gpu", "--", "true");
    await p.lease("limit", "x", "3", "--rate", "10/1m");
    await p.lease("schedule", "nightly", "--now");
    const to = join(p.folder, "other.db");
    expect((await p.lease("copy", "--to", to)).code).toBe(0);
    for (const words of [
      ["schedule", "--json"],
      ["limit", "--json"],
      ["inspect", "jobs", "--json"],
    ]) {
      const [here, there] = [await p.lease(...words), await p.lease(...words, "--store", to)];
      expect(there).toEqual(here);
      expect(here.stdout).not.toBe("");
    }
    const { limit, need } = JSON.parse((await p.lease("inspect", "1", "--json", "--store", to)).stdout) as never;
    expect({ limit, need } as unknown).toEqual({ limit: ["x"], need: ["gpu"] });
  });

  test("makes jobs with what lease.toml says of every job, and a hook of it tells when one fails", async () => {
    const p = place();
    const settings = '[enqueue]\nqueue = "nights"\nretries = 0\nif_exists = "fail"\non_failed = "echo told"\n';
    writeFileSync(join(p.folder, "lease.toml"), settings);
    await p.lease("schedule", "nightly", "--every", "1h", "--key", "k", "--", "false");
    expect((await p.lease("schedule", "nightly", "--now")).stdout).toBe("1\n");
    expect(await p.work("-q", "nights")).toBe(1);
    expect(await p.inspect(1)).toMatchObject({ queue: "nights", attempts: 1, state: "failed" });
    expect(await p.log(2)).toBe("told\n");
    expect((await p.lease("schedule", "other", "--every", "1h", "-q", "days", "--", "true")).code).toBe(0);
    expect(JSON.parse((await p.lease("schedule", "other", "--json")).stdout)).toMatchObject({ queue: "days" });
  });

  test("passes over nothing that is said, and takes nothing behind -- for its name", async () => {
    const p = place();
    await p.lease("schedule", "x", "--every", "1h", "--", "true");
    const before = (await p.lease("schedule", "x", "--json")).stdout;
    const refused = async (message: string, ...args: string[]) =>
      expectRefusal(await p.lease("schedule", ...args), 2, message);
    await refused("--priority needs a time as well", "x", "--priority", "5");
    await refused("--tz needs a time as well", "x", "--tz", "Europe/Berlin");
    await refused("-c needs a time as well", "x", "-c", "echo hi");
    await refused("--remove and --pause can't both be", "x", "--pause", "--remove");
    await refused("--priority does not go with --pause", "x", "--pause", "--priority", "5");
    await refused("which schedule? Name it first", "--every", "1h", "--", "./backup.sh", "now");
    await refused("which schedule? Name it first", "--", "true");
    await refused("takes one name, and got y as well", "x", "y", "--every", "1h", "--", "true");
    expect((await p.lease("schedule", "x", "--json")).stdout).toBe(before);
    expect((await p.lease("schedule", "--json")).stdout).toBe(before);
  });

  test("tells what its jobs are made of", async () => {
    const p = place();
    const flags = ["-q", "night", "-t", "rel", "-p", "3", "--retries", "0", "--delay", "5s", "--env", "A=secret"];
    await p.lease("schedule", "x", "--every", "1h", ...flags, "--", "./b.sh");
    const { stdout } = await p.lease("schedule", "x");
    expect(stdout).toMatch(/^when +every 1h, then a delay of 5s$/m);
    expect(stdout).toMatch(/^queue +night, priority 3$/m);
    expect(stdout).toMatch(/^task +rel$/m);
    expect(stdout).toMatch(/^environment +A$/m);
    expect(stdout).toMatch(/^settings +no retries$/m);
    const shown: unknown = JSON.parse((await p.lease("schedule", "x", "--json")).stdout);
    expect(shown).toMatchObject({ queue: "night", task: "rel", key: null, priority: 3 });
  });

  test("refuses what can't be a schedule, with the field", async () => {
    const p = place();
    const set = (...args: string[]) => p.lease("schedule", "x", ...args, "--", "true");
    expectRefusal(await set("--cron", "61 * * * *"), 2, 'has the minute "61": write 0-59');
    expectRefusal(await set("--cron", "0 0 31 2 *"), 2, "never comes");
    expectRefusal(await set("--cron", "0 3 * * *", "--tz", "Mars/Base"), 2, "is not a time zone");
    expectRefusal(await set("--cron", "0 3 * * *", "--every", "1h"), 2, "both say when");
    expectRefusal(await set("--every", "10ms"), 2, "shorter than a second");
    expectRefusal(await set("--every", "1h", "--at", "18:00"), 2, "--at is for one job");
    expectRefusal(await set("--every", "1h", "--after-any", "7"), 2, "--after-any is for one job");
    expectRefusal(await set("--every", "1h", "--key", "k", "--if-exists", "fail"), 2, "--if-exists is for one job");
    expectRefusal(await set(), 2, "when?");
    expectRefusal(await p.lease("schedule", "a\nb", "--every", "1h", "--", "true"), 2, "control characters");
    expectRefusal(await p.lease("schedule", "x", "--every", "1h"), 2, "there is no command");
    await p.lease("enqueue", "--", "true");
    expectRefusal(await p.lease("schedule", "x", "--pause"), 1, "there is no schedule x");
  });
});
