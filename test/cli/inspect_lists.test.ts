/** The lists of `lease inspect`: what they show, by which flags, in which form. */

import { beforeAll, describe, expect, test } from "bun:test";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expectRefusal, until, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();

type Row = Record<string, unknown>;
const lines = (text: string) => text.trimEnd().split("\n");
const objects = (text: string) => (text === "" ? [] : lines(text).map((line) => JSON.parse(line) as Row));

async function listed(place: Place, ...args: string[]): Promise<Row[]> {
  const answer = await place.lease("inspect", ...args, "--json");
  const found = objects(answer.stdout);
  // Nothing that matches is an answer, and a no.
  expect({ args, ...answer }).toMatchObject({ code: found.length === 0 && args.length > 1 ? 1 : 0, stderr: "" });
  return found;
}
const ids = async (place: Place, ...args: string[]) => (await listed(place, "jobs", ...args)).map(({ id }) => id);

/** Jobs 1 to 8: completed, failed, retrying, cancelled, pending, scheduled, blocked, and one that nobody serves. */
async function oneOfEach(): Promise<Place> {
  const place = newPlace();
  await place.enqueue("-t", "build", "-k", "K", "--", "echo", "done");
  await place.enqueue("-t", "build", "--retries", "0", "--", "false");
  await place.enqueue("--backoff", "1h", "--", "sh", "-c", "exit 3");
  await place.lease("worker", "--max-jobs", "3");
  await place.enqueue("--", "true");
  await place.lease("cancel", "4", "--reason", "not now");
  await place.enqueue("-p", "5", "--", "true");
  await place.enqueue("-q", "mail", "--delay", "2h", "--", "true");
  await place.enqueue("-q", "mail", "--after", "6", "--", "true");
  await place.enqueue("-q", "gpu", "--", "true");
  return place;
}

describe("inspect jobs", () => {
  let place: Place;
  beforeAll(async () => {
    place = await oneOfEach();
  });

  test("shows what waits before what is over, the newest first, each with its state and why", async () => {
    const { code, stdout } = await place.lease("inspect", "jobs");
    expect(code).toBe(0);
    const [header, , ...rows] = lines(stdout);
    expect(header?.trim()).toMatch(/^ID +STATE +QUEUE .*WHEN .*COMMAND +REASON$/);
    expect(rows.map((row) => row.trim().split(/ +/).slice(0, 2))).toEqual([
      ["8", "pending"],
      ["7", "blocked"],
      ["6", "scheduled"],
      ["5", "pending"],
      ["3", "retrying"],
      ["4", "cancelled"],
      ["2", "failed"],
      ["1", "completed"],
    ]);
    const reasons = (await listed(place, "jobs")).map(({ reason }) => reason);
    expect(reasons).toEqual([
      "no worker serves queue gpu",
      expect.stringMatching(/^waits for 6 \(scheduled \d+s\)$/),
      "due in 2h",
      "no worker serves queue default",
      "not now",
      expect.stringMatching(/^retry 1 of 3 in (?:1h|\d+m|1h\d+m)$/),
      "exit code 1",
      null,
    ]);
  });

  test.each<[string[], number[]]>([
    [["--status", "failed"], [2]],
    [
      ["--status", "failed,retrying"],
      [3, 2],
    ],
    [
      ["--status", "completed", "--status", "scheduled"],
      [6, 1],
    ],
    [["--status", "cancelling"], []],
    [
      ["--queue", "mail"],
      [7, 6],
    ],
    [["-q", "gpu"], [8]],
    [
      ["--task", "build"],
      [2, 1],
    ],
    [["-t", "build", "--status", "completed"], [1]],
    [["--key", "K"], [1]],
    [
      ["--limit", "2"],
      [8, 7],
    ],
    [
      ["--limit", "2", "--reverse"],
      [1, 2],
    ],
    [
      ["--sort", "live"],
      [8, 7, 6, 5, 3, 4, 2, 1],
    ],
    [
      ["--sort", "live", "--limit", "6", "--reverse"],
      [1, 2, 4, 3, 5, 6],
    ],
    [
      ["--sort", "live", "--status", "failed,pending,retrying"],
      [8, 5, 3, 2],
    ],
    [["--match", "EXIT"], [3]],
    [
      ["--match", "true", "--limit", "3"],
      [8, 7, 6],
    ],
    [["--match", "true", "--sort", "live", "--status", "cancelled"], [4]],
    [["--match", "true", "-q", "gpu", "--since", "1h"], [8]],
    [["--match", "true", "--since", "0"], []],
    [["--match", "echo done", "-k", "K"], [1]],
    // A part of the command, and not of what else is known.
    [["--match", "build"], []],
    [["--sort", "priority", "--limit", "1"], [5]],
    [["--sort", "due", "--limit", "1", "-q", "mail"], [7]],
    [["--sort", "due", "--reverse", "--limit", "1"], [6]],
    [["--sort", "finished", "--status", "completed,failed,cancelled", "--limit", "1"], [4]],
    [
      ["--since", "1h", "-t", "build"],
      [2, 1],
    ],
    [["--since", "0"], []],
    [["--since", "2020-01-01", "-q", "gpu"], [8]],
    [["--since", "2999-01-01T00:00:00Z"], []],
    [
      ["7", "1-2"],
      [7, 2, 1],
    ],
  ])("%p lists %p", async (args, expected) => {
    expect(await ids(place, ...args)).toEqual(expected);
  });

  test("says how many more there are, wherever that is known", async () => {
    const more = async (...args: string[]) => lines((await place.lease("inspect", "jobs", ...args)).stdout).at(-1);
    expect(await more("--limit", "3")).toBe("… and 5 more: --limit 30");
    expect(await more("--limit", "1", "-q", "mail")).toBe("… and 1 more: --limit 10");
    expect(await more("--limit", "1", "-t", "build")).toBe("… and 1 more: --limit 10");
    expect(await more("--limit", "1", "--status", "pending")).toBe("… and 1 more: --limit 10");
    expect(await more("--limit", "1", "--status", "pending,scheduled")).toBe("… and more: --limit 10");
    expect(await more("--limit", "1", "--match", "true")).toBe("… and more: --limit 10");
    expect(await more("--limit", "8")).not.toContain("more");
  });

  test("shows what runs before all else, and the last line of what failed", async () => {
    const here = newPlace();
    await here.enqueue("-c", "touch began; while [ ! -e go ]; do sleep 0.02; done");
    await here.enqueue("--retries", "0", "-c", "echo convert: bad magic number >&2; exit 1");
    await here.enqueue("--retries", "0", "--lease", "1s", "--grace", "0", "-c", "echo linking; sleep 60");
    const worker = here.lease("worker", "-j", "3", "--max-jobs", "3");
    await until(() => existsSync(join(here.folder, "began")));
    await here.lease("wait", "2", "3");
    await here.enqueue("--", "true");
    const shown = lines((await here.lease("inspect", "jobs")).stdout).slice(2);
    expect(shown.map((row) => row.trim().split(/ +/)[0])).toEqual(["1", "4", "3", "2"]);
    expect(shown[3]).toEndWith(" exit code 1: convert: bad magic number");
    // Where the reason has it already it is not said twice.
    expect(shown[2]?.match(/linking/g)).toHaveLength(2);
    expect((await here.lease("inspect")).stdout).toContain(" exit code 1: convert: bad magic number\n");
    writeFileSync(join(here.folder, "go"), "");
    await worker;
  });

  test("--tsv has a header, the same columns in every line, and the ids first", async () => {
    const { stdout } = await place.lease("inspect", "jobs", "--tsv");
    const [header = "", ...rows] = lines(stdout);
    const names = header.split("\t");
    expect(names).toEqual(
      "id state queue task key priority attempts holder created_at started_at finished_at runtime exit_code cause reason command".split(
        " ",
      ),
    );
    expect(rows.map((row) => row.split("\t")[0])).toEqual(["8", "7", "6", "5", "4", "3", "2", "1"]);
    for (const row of rows) expect(row.split("\t")).toHaveLength(names.length);
    const failed = Object.fromEntries(names.map((name, at) => [name, rows[6]?.split("\t")[at]]));
    expect(failed).toMatchObject({ state: "failed", task: "build", attempts: "1", exit_code: "1", command: "false" });
    expect(Number(failed["runtime"])).toBeGreaterThan(0);
    expect((await place.lease("inspect", "jobs", "--tsv", "-q", "nope")).stdout).toBe(`${header}\n`);
  });

  test("--json is a job per line, with the names that every job has", async () => {
    const [job] = await listed(place, "jobs", "--limit", "1");
    expect(job).toMatchObject({ schema: 1, id: 8, state: "pending", argv: ["true"], retries_left: 3 });
  });

  test("says so when nothing matches, and that is a no", async () => {
    expect(await place.lease("inspect", "jobs", "-t", "nope")).toEqual({
      code: 1,
      stdout: "no jobs match\n",
      stderr: "",
    });
    expect(await place.lease("inspect", "jobs", "-q", "mial")).toMatchObject({
      code: 1,
      stderr: "lease: queue mial has no jobs so far; did you mean mail?\n",
    });
  });

  test("names each job that was asked for and is not there, whatever else it shows", async () => {
    const ask = (...words: string[]) => place.lease("inspect", "jobs", ...words);
    const [known] = lines((await ask("--tsv")).stdout).slice(1);
    const id = String(known).split("\t")[0] ?? "";
    const missing = "lease: there are no jobs 97-98\n";
    for (const form of [[], ["--json"], ["--tsv"]]) {
      const { code, stdout, stderr } = await ask(id, "97-98", ...form);
      expect({ code, stderr }).toEqual({ code: 1, stderr: missing });
      expect(stdout).toContain(id);
    }
    expect(await ask("97-98")).toEqual({ code: 1, stdout: "no jobs match\n", stderr: missing });
  });

  test("prints a long list in pages, and none of it twice", async () => {
    const own = newPlace();
    await own.enqueue("--", "true");
    own.rows(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2499)
      INSERT INTO jobs (state, queue, priority, run_at_ms, retries, created_at_ms, argv, cwd)
      SELECT 'pending', 'default', 0, 0, 3, 0, '["true"]', '/' FROM n`);
    const { stdout } = await own.lease("inspect", "jobs", "--tsv", "--limit", "2200");
    const found = lines(stdout)
      .slice(1)
      .map((line) => Number(line.split("\t")[0]));
    expect(found).toEqual(Array.from({ length: 2200 }, (_, index) => 2500 - index));
  });
});

describe("the reason of a job that waits", () => {
  test("is its place in line where a worker serves its queue", async () => {
    const place = newPlace();
    await place.enqueue("-c", '"$LEASE" inspect jobs --status pending --json > line; "$LEASE" inspect 3 --json > page');
    for (const priority of ["0", "0", "9"]) await place.enqueue("-p", priority, "--", "true");
    await place.enqueue("-q", "other", "--", "true");
    await place.lease("pause", "other");
    await place.enqueue("-p=-1", "--", "true");
    expect(await place.lease("worker", "--max-jobs", "1", "-q", "default")).toMatchObject({ code: 0 });
    // The urgent one went first; the one that looks came after it.
    const reasons = async () => objects(await Bun.file(join(place.folder, "line")).text());
    await place.lease("worker", "--max-jobs", "1", "-q", "default");
    expect((await reasons()).map(({ id, reason }) => [id, reason])).toEqual([
      [6, expect.stringMatching(/^2 jobs ahead/)],
      [5, "queue paused"],
      [3, expect.stringMatching(/^1 job ahead/)],
      [2, expect.stringMatching(/^next in line/)],
    ]);
    const [page] = objects(await Bun.file(join(place.folder, "page")).text());
    expect(page).toMatchObject({ id: 3, reason: expect.stringMatching(/^1 job ahead/) });
  });

  test("is what it waits for, and for how long that has been so", async () => {
    const place = newPlace();
    await place.enqueue("-c", '"$LEASE" inspect 2 > page');
    await place.enqueue("--after", "1", "--", "true");
    await place.lease("worker", "--max-jobs", "1");
    const page = await Bun.file(join(place.folder, "page")).text();
    expect(page).toMatch(/^Job 2 {2}blocked {2}waits for 1 \(running \d+s\)\n/);
    expect(page).toMatch(/^depends on +1 \(running\)$/m);
  });
});

describe("inspect queues", () => {
  test("counts jobs as they are shown, and says what is paused and who serves it", async () => {
    const place = await oneOfEach();
    await place.lease("pause", "gpu");
    const none = { running: 0, cancelling: 0, scheduled: 0, retrying: 0, pending: 0, blocked: 0 };
    const over = { completed: 0, failed: 0, cancelled: 0 };
    expect(await listed(place, "queues")).toEqual([
      {
        schema: 1,
        queue: "default",
        paused: false,
        workers: 0,
        ...none,
        ...over,
        retrying: 1,
        pending: 1,
        completed: 1,
        failed: 1,
        cancelled: 1,
      },
      { schema: 1, queue: "gpu", paused: true, workers: 0, ...none, ...over, pending: 1 },
      { schema: 1, queue: "mail", paused: false, workers: 0, ...none, ...over, scheduled: 1, blocked: 1 },
    ]);
    const { stdout } = await place.lease("inspect", "queues");
    expect(stdout).toMatch(/^gpu \(paused\) +· +1/m);
    expect((await listed(place, "queues", "--sort", "blocked", "--limit", "1")).map(({ queue }) => queue)).toEqual([
      "mail",
    ]);
    expect((await listed(place, "queues", "--reverse")).map(({ queue }) => queue)).toEqual(["mail", "gpu", "default"]);
    expect(await listed(place, "queues", "-q", "gpu")).toHaveLength(1);
    expect(lines((await place.lease("inspect", "queues", "--tsv")).stdout)[2]).toBe(
      "gpu\ttrue\t0\t0\t0\t1\t0\t0\t0\t0\t0\t0",
    );
  });

  test("counts the workers that take from a queue", async () => {
    const place = newPlace();
    await place.enqueue("-q", "a", "-c", '"$LEASE" inspect queues --json > seen');
    await place.enqueue("-q", "b", "--delay", "1h", "--", "true");
    await place.work("-q", "a");
    const seen = objects(await Bun.file(join(place.folder, "seen")).text());
    expect(seen).toMatchObject([
      { queue: "a", workers: 1, running: 1 },
      { queue: "b", workers: 0, scheduled: 1 },
    ]);
  });
});

describe("inspect workers", () => {
  test("leaves out each lease run that has ended, says so, and shows them when they are asked for", async () => {
    const place = newPlace();
    for (let run = 0; run < 2; run++) await place.lease("run", "--", "true");
    const quick = await place.lease("inspect", "workers");
    expect(quick.stdout).toEndWith("… and 2 lease runs that have ended: --status stopped,dead\n");
    expect(await listed(place, "workers")).toEqual([]);
    await place.enqueue("--", "true");
    await place.work();
    expect(await listed(place, "workers")).toHaveLength(1);
    expect(await listed(place, "workers", "--status", "stopped")).toHaveLength(3);
    const { stdout } = await place.lease("run", "-c", '"$LEASE" inspect workers');
    expect(stdout).toMatch(/ live .*\(lease run\) +1 of 1 /);
  });

  test("shows slots by what they do, and each job with its last beat", async () => {
    const place = newPlace();
    await place.enqueue("-c", '"$LEASE" inspect workers --json > seen; "$LEASE" inspect workers > page');
    await place.work("--name", "builder", "-j", "3");
    const [worker] = objects(await Bun.file(join(place.folder, "seen")).text());
    expect(worker).toMatchObject({
      schema: 1,
      name: "builder",
      state: "live",
      queues: ["default"],
      slots: 3,
      slots_idle: 2,
      slots_processing: 1,
      slots_draining: 0,
      slots_stopped: 0,
      current: [{ job: 1, attempt: 1, last_beat_at: expect.any(String) }],
      stopped_at: null,
    });
    expect(await Bun.file(join(place.folder, "page")).text()).toMatch(
      /^builder +live .* 1 of 3 .* 1 \((?:now|\d+s ago)\)$/m,
    );
    expect(await listed(place, "workers")).toMatchObject([
      {
        state: "stopped",
        slots_idle: 0,
        slots_stopped: 3,
        completed: 1,
        failed: 0,
        current: [],
        stopped_at: expect.any(String),
      },
    ]);
  });

  test("finds them by state, by the queue they serve, and by when they were last seen", async () => {
    const place = newPlace();
    await place.work("--name", "first", "-q", "a");
    await place.work("--name", "second", "-q", "*");
    const names = async (...args: string[]) => (await listed(place, "workers", ...args)).map(({ name }) => name);
    expect(await names()).toEqual(["first", "second"]);
    expect(await names("--reverse")).toEqual(["second", "first"]);
    expect(await names("--sort", "seen", "--limit", "1")).toEqual(["second"]);
    expect(await names("-q", "b")).toEqual(["second"]);
    expect(await names("--status", "live,dead")).toEqual([]);
    expect(await names("--status", "stopped", "--since", "1h")).toEqual(["first", "second"]);
    expect(await names("--since", "0")).toEqual([]);
    expect(lines((await place.lease("inspect", "workers", "--tsv")).stdout)[0]).toMatch(/^id\tname\tstate\t/);
  });

  test("says how to start one when there is none", async () => {
    const place = await oneOfEach();
    expect((await place.lease("inspect", "workers", "--status", "live")).stdout).toContain("lease worker");
  });
});

describe("inspect leases", () => {
  test("shows who holds what, when it ends, and marks what is over", async () => {
    const place = newPlace();
    await place.enqueue("-q", "a", "-t", "T", "--", "sleep", "60");
    await place.enqueue("-q", "b", "--", "sleep", "61");
    const now_ms = Date.now();
    const grant = (id: number, ends_in_ms: number) =>
      place.rows(`UPDATE jobs SET state = 'running', token = 1, holder = 'elsewhere.1.x', started_at_ms = ${now_ms - 600_000},
        last_beat_at_ms = ${now_ms - 420_000}, expires_at_ms = ${now_ms + ends_in_ms} WHERE id = ${id}`);
    for (const id of [1, 2]) {
      grant(id, id === 1 ? 240_000 : -120_000);
      place.rows(`INSERT INTO attempts (job_id, attempt, worker, host, lease_ms, started_at_ms)
        VALUES (${id}, 1, 'elsewhere.1.x', 'elsewhere', 300000, 0)`);
    }
    const leases = await listed(place, "leases");
    expect(leases).toMatchObject([
      { id: 2, queue: "b", holder: "elsewhere.1.x", stale: true },
      { id: 1, queue: "a", task: "T", stale: false, minutes_since_expiry: null },
    ]);
    expect(leases[0]?.["minutes_since_beat"]).toBeCloseTo(7, 0);
    expect(leases[0]?.["minutes_since_expiry"]).toBeCloseTo(2, 0);
    expect((await place.lease("inspect", "leases")).stdout).toMatch(
      /^ *2 .* elsewhere\.1\.x +7m ago +stale, 2m ago +sleep 61$/m,
    );
    const found = async (...args: string[]) => (await listed(place, "leases", ...args)).map(({ id }) => id);
    expect(await found("--stale")).toEqual([2]);
    expect(await found("--reverse")).toEqual([1, 2]);
    expect(await found("--sort", "id")).toEqual([1, 2]);
    expect(await found("-q", "a")).toEqual([1]);
    expect(await found("-t", "T")).toEqual([1]);
    expect(await found("--limit", "1")).toEqual([2]);
    const overview = JSON.parse((await place.lease("inspect", "--json")).stdout) as Row;
    expect(overview["leases"]).toEqual({ held: 2, stale: 1, next_expires_at: leases[1]?.["expires_at"] });
  });
});

describe("inspect checkpoints", () => {
  test("shows the newest first, of a task, a job or a kind", async () => {
    const place = newPlace();
    await place.enqueue("-t", "T", "--retries", "0", "-c", '"$LEASE" checkpoint here; exit 1');
    await place.enqueue("--retries", "0", "--", "false");
    await place.work();
    const kinds = async (...args: string[]) =>
      (await listed(place, "checkpoints", ...args)).map(({ job, kind }) => [job, kind]);
    expect(await kinds()).toEqual([
      [2, "error"],
      [1, "error"],
      [1, "progress"],
    ]);
    expect(await kinds("--task", "T", "--limit", "1")).toEqual([[1, "error"]]);
    expect(await kinds("--job", "2")).toEqual([[2, "error"]]);
    expect(await kinds("--kind", "progress")).toEqual([[1, "progress"]]);
    expect(await kinds("--reverse", "--job", "1")).toEqual([
      [1, "progress"],
      [1, "error"],
    ]);
    expect(await kinds("--since", "0")).toEqual([]);
    expect((await place.lease("inspect", "checkpoints")).stdout).toMatch(/^ *1 +T .* progress +1 +here$/m);
    expect(await place.lease("inspect", "checkpoints", "--job", "9")).toEqual({
      code: 1,
      stdout: "no checkpoints match\n",
      stderr: "lease: there is no job 9\n",
    });
    expect(lines((await place.lease("inspect", "checkpoints", "--tsv")).stdout)[0]).toBe(
      "id\tjob\ttask\tkind\ttoken\tat\ttext",
    );
  });
});

describe("the values of a job's environment", () => {
  test("are shown only when somebody asks for them", async () => {
    const place = newPlace();
    await place.enqueue("--env", "SECRET=s3cret word", "--", "true");
    const shown = async (...args: string[]) => (await place.lease("inspect", "1", ...args)).stdout;
    expect(await shown()).toMatch(/^environment +SECRET$/m);
    expect((await shown()) + (await shown("--json"))).not.toContain("s3cret");
    expect(await shown("--show-env")).toMatch(/^environment +SECRET='s3cret word'$/m);
    expect(JSON.parse(await shown("--show-env", "--json"))).toMatchObject({ env: { SECRET: "s3cret word" } });
  });
});

describe("what inspect does not understand", () => {
  let place: Place;
  beforeAll(async () => {
    place = newPlace();
    await place.enqueue("--", "true");
  });

  test.each<[string[], string]>([
    [["wrokers"], 'has no list "wrokers"; did you mean workers?'],
    [["job"], "did you mean jobs?"],
    [["jobs", "x"], "is not a job id"],
    [["jobs", "--status", "runing"], "did you mean running?"],
    [["jobs", "--status", "live"], "--status live does not go with inspect jobs"],
    [["workers", "--status", "failed"], "--status failed does not go with inspect workers"],
    [["jobs", "--sort", "seen"], "--sort seen does not go with inspect jobs; use live, id, priority"],
    [["jobs", "--match", ""], "--match is empty"],
    [["jobs", "--match", "x", "--sort", "due"], "--match finds the newest first, and does not go with --sort due"],
    [["jobs", "--match", "x", "--reverse"], "does not go with --reverse"],
    [["jobs", "1", "--match", "x"], "does not go with ids"],
    [["queues", "--match", "x"], "inspect queues has no --match; write lease inspect jobs --match"],
    [["jobs", "--limit", "0"], '--limit "0" is not a whole number from 1'],
    [["jobs", "--limit", "many"], "--limit"],
    [["jobs", "--since", "yesterday"], '--since "yesterday" is not a duration'],
    [["jobs", "--since", "2026-13-01T00:00:00Z"], "is not a moment: write 2h, or 2026-03-01T09:30:00Z"],
    [["jobs", "--since", "-5m"], "negative"],
    [["checkpoints", "--job", "x"], "--job"],
    [["queues", "--status", "failed"], "inspect queues has no --status; write lease inspect jobs|workers --status"],
    [["leases", "--since", "1h"], "inspect leases has no --since"],
    [["--queue", "mail"], "inspect without a list has no --queue"],
    [["1", "--limit", "3"], "inspect without a list has no --limit"],
    [["--tsv"], "--tsv is for lists"],
    [["1", "--tsv"], "--tsv is for lists"],
    [["jobs", "--tsv", "--json"], "--json or --tsv, not both"],
    [["jobs", "--show-env"], "--show-env is for jobs by id"],
  ])("is a usage error that says what would be right: %p", async (args, message) => {
    expectRefusal(await place.lease("inspect", ...args), 2, message);
  });
});
