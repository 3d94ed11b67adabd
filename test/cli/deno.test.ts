/** The same lease on Deno, from source, on the same store as the compiled one. */

import { describe, expect, test } from "bun:test";
import { existsSync, linkSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expectRefusal, ROOT, run, until, usePlaces, type JobJson, type Place } from "./lease.ts";

const DENO = join(ROOT, "node_modules/.bin/deno");
const newPlace = usePlaces();

const deno = (place: Place, ...args: string[]) =>
  run([DENO, "run", "-A", join(ROOT, "src/main.ts"), ...args], {
    cwd: place.folder,
    env: { ...place.env, DENO_NO_UPDATE_CHECK: "1" },
  });

test("Deno is installed with the other dependencies", () => {
  expect(existsSync(DENO)).toBe(true);
});

describe("lease on Deno", () => {
  test("queues what the compiled one runs, and reads what it did", async () => {
    const place = newPlace();
    const answer = await deno(
      place,
      "enqueue",
      "-q",
      "mail",
      "--input",
      "hello",
      "--retries",
      "0",
      "-c",
      "cat; echo err >&2; exit 3",
    );
    expect(answer).toEqual({ code: 0, stdout: "1\n", stderr: "" });
    expect(await place.work("-q", "mail")).toBe(1);
    const { code, stdout } = await deno(place, "inspect", "1", "--json");
    const job = JSON.parse(stdout) as JobJson;
    expect({ code, job }).toMatchObject({
      code: 0,
      job: { state: "failed", exit_code: 3, token: 1, queue: "mail", input: "hello" },
    });
    expect(job).toEqual(await place.inspect(1));
    expect((await deno(place, "logs", "1", "--stream", "stdout")).stdout).toBe("hello\n");
  });

  test("runs what the compiled one queued, with input, output, variables and a result", async () => {
    const place = newPlace();
    const ids = [
      await place.enqueue("--input", "hello", "-c", 'cat; echo "$LEASE_JOB_ID" >&2; printf result > "$LEASE_OUTPUT"'),
      await place.enqueue("--retries", "1", "--backoff", "none", "-c", "exit $((2 - LEASE_ATTEMPT))"),
      await place.enqueue("--retries", "0", "--", "no-such-command"),
      await place.enqueue("--retries", "0", "-c", "kill -KILL $$"),
      await place.enqueue("--retries", "0", "--pty", "--", "tty"),
    ];
    const worker = await deno(place, "worker", "--until-empty", "-j", "2");
    expect(worker).toMatchObject({ code: 1, stdout: "" });
    const jobs = await Promise.all(ids.map((id) => place.inspect(id)));
    expect(jobs).toMatchObject([
      { state: "completed", output: "result", attempts: 1 },
      { state: "completed", attempts: 2 },
      { state: "failed", exit_code: 127, cause: "not_found" },
      { state: "failed", cause: "signal", history: [{ signal: "SIGKILL" }] },
      { state: "failed", cause: "not_executable", error: expect.stringMatching(/--pty needs the compiled lease/) },
    ]);
    const log = await place.log(1);
    expect(log.split("\n").toSorted().join(" ").trim()).toMatch(/^(?:1 hello|hello1)$/);
    expect(place.rows("PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
  });

  test("and the compiled one share a store at the same time", async () => {
    const place = newPlace();
    const mixed = await Promise.all(
      Array.from({ length: 8 }, (_, n) =>
        n % 4 === 0 ? deno(place, "enqueue", "--", "true") : place.lease("enqueue", "--", "true"),
      ),
    );
    expect(mixed.map(({ code, stderr }) => ({ code, stderr }))).toEqual(mixed.map(() => ({ code: 0, stderr: "" })));
    expect(mixed.map(({ stdout }) => Number(stdout)).toSorted()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    await Promise.all([deno(place, "worker", "--until-empty"), place.work()]);
    expect(place.rows("SELECT state, token, count(*) AS jobs FROM jobs GROUP BY 1, 2")).toEqual([
      { state: "completed", token: 1, jobs: 8 },
    ]);
  });

  test("refuses the same with the same words and codes", async () => {
    const place = newPlace();
    await place.enqueue("-k", "K", "--", "true");
    const cases: [string[], number][] = [
      [["enqueue", "--", ""], 2],
      [["enqueue", "--queu", "x"], 2],
      [["enqueue", "-k", "K", "--if-exists", "fail", "--", "true"], 1],
      [["inspect", "99"], 1],
      [["inspect", "--store", place.folder], 125],
    ];
    const both = await Promise.all(
      cases.map(async ([args]) => [await deno(place, ...args), await place.lease(...args)] as const),
    );
    for (const [index, [there, here]] of both.entries()) {
      expectRefusal(here, cases[index]?.[1] ?? 0, "");
      expect(there).toEqual(here);
    }
  });

  test("tells that it is Deno", async () => {
    const { stdout } = await deno(newPlace(), "version", "--json");
    expect(JSON.parse(stdout)).toMatchObject({ runtime: expect.stringMatching(/^deno \d/) });
  });

  test("reads the same settings, tells where they come from, and finds the same health", async () => {
    const place = newPlace();
    writeFileSync(join(place.folder, "lease.toml"), '[enqueue]\nqueue = "mail"\n[worker]\nslots = "many"\n', {
      mode: 0o600,
    });
    expect(await deno(place, "enqueue", "--", "true")).toEqual({ code: 0, stdout: "1\n", stderr: "" });
    expect(await place.inspect(1)).toMatchObject({ queue: "mail" });
    expectRefusal(await deno(place, "worker", "--once"), 2, 'lease.toml: worker.slots "many" is not a whole number');
    const [mine, theirs] = await Promise.all([deno(place, "doctor"), place.lease("doctor")]);
    const settings = (text: string) => text.slice(text.indexOf("SETTING"));
    expect({ code: mine?.code, stderr: mine?.stderr }).toEqual({ code: 1, stderr: "" });
    expect(mine?.stdout).toContain('worker.slots "many" is not a whole number');
    expect(settings(mine?.stdout ?? "")).toBe(settings(theirs?.stdout ?? ""));
    expect((await deno(place, "completions", "--query", "queues")).stdout).toBe("mail\n");
  });
});

test("lease on Deno queues in bulk, and runs a job in the foreground", async () => {
  const place = newPlace();
  const lines = Array.from({ length: 250 }, (_, index) => `{"argv":["echo","${index}"],"input":"${index}"}\n`).join("");
  await Bun.write(join(place.folder, "jobs"), lines);
  expect((await deno(place, "enqueue", "--from", "jobs")).stdout.split("\n")).toHaveLength(251);
  expect(await place.inspect(250)).toMatchObject({ argv: ["echo", "249"], input: "249" });
  const first = await deno(place, "run", "--key", "k", "-c", "seq 1 100000; echo err >&2; exit 3");
  const replayed = await place.lease("run", "--key", "k");
  for (const { code, stdout, stderr } of [first, replayed]) {
    expect({ code, lines: stdout.split("\n").length }).toEqual({ code: 3, lines: 100_001 });
    expect(stderr).toEndWith("err\n");
  }
});

test("lease on Deno refuses second names and foreign schemas, and notices that a store is gone", async () => {
  const place = newPlace();
  expect(await deno(place, "enqueue", "--", "sleep", "1000")).toMatchObject({ stdout: "1\n" });
  linkSync(place.store, join(place.folder, "second"));
  expectRefusal(await deno(place, "enqueue", "--", "true"), 125, "has 2 names");
  rmSync(join(place.folder, "second"));
  place.rows("CREATE VIEW v AS SELECT 1");
  expectRefusal(await deno(place, "inspect"), 125, "it has view v");
  place.rows("DROP VIEW v");
  const worker = deno(place, "worker");
  await until(() => place.rows("SELECT 1 FROM attempts WHERE pid IS NOT NULL").length > 0);
  rmSync(`${place.store}-wal`);
  expect(await worker).toMatchObject({ code: 125, stderr: expect.stringContaining("was deleted or replaced") });
});
