/** What people do to jobs from outside: inspect, logs, cancel, retry, watchdog. */

import { describe, expect, test } from "bun:test";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { LEASE, expectRefusal, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();

/** Jobs 1 to 6: completed, failed, cancelled, pending, scheduled, blocked. */
async function oneOfEach(): Promise<Place> {
  const place = newPlace();
  await place.enqueue("--task", "build", "--", "echo", "done");
  await place.enqueue("--task", "build", "--retries", "0", "--", "false");
  await place.work("-j", "2");
  await place.enqueue("--task", "build", "--", "true");
  await place.lease("cancel", "3");
  await place.enqueue("--task", "build", "--", "true");
  await place.enqueue("-q", "mail", "--delay", "1h", "--", "true");
  await place.enqueue("-q", "mail", "--after", "5", "--", "true");
  // A quick enqueue leaves the folding of the log to whoever closes the store next.
  await place.lease("inspect");
  return place;
}

const states = (place: Place) =>
  place.rows<{ state: string }>("SELECT state FROM jobs ORDER BY id").map(({ state }) => state);

describe("an id that nobody has", () => {
  test.each(["inspect", "logs", "cancel", "retry"])(
    "is the answer no for `lease %s`, and changes nothing",
    async (name) => {
      const place = await oneOfEach();
      const before = place.content();
      expectRefusal(await place.lease(name, "99"), 1, "there is no job 99");
      expect(place.content()).toEqual(before);
    },
  );

  test.each(["inspect", "cancel", "retry"])("is one line of `lease %s` for a whole range of them", async (name) => {
    const place = await oneOfEach();
    expectRefusal(await place.lease(name, "99-200000"), 1, /^lease: there are no jobs 99-200000\n$/);
  });

  test.each([
    ["inspect", "x"],
    ["inspect", "0"],
    ["inspect", "-1"],
    ["inspect", "1-"],
    ["inspect", "9-7"],
    ["inspect", "1.5"],
    ["cancel", "all"],
    ["retry", "1,x"],
    ["logs", "99999999999999999999"],
  ])("and is none at all is a usage error: lease %s %s", async (name, id) => {
    const place = newPlace();
    await place.enqueue("--", "true");
    expectRefusal(await place.lease(name, id), 2, id === "-1" ? "-1" : "is not a job id: write 7, or 9-12");
  });

  test("among others does not hide them", async () => {
    const place = await oneOfEach();
    const answer = await place.lease("inspect", "1", "99", "2", "--json");
    expect(answer).toMatchObject({ code: 1, stderr: "lease: there is no job 99\n" });
    expect(answer.stdout.trim().split("\n")).toHaveLength(2);
  });
});

describe("lease cancel", () => {
  test("ends what waits at once, by ids, lists and ranges, and says so", async () => {
    const place = await oneOfEach();
    await place.enqueue("--", "true");
    expect(await place.lease("cancel", "4-5", "7,7")).toEqual({
      code: 0,
      stdout: "4 cancelled\n5 cancelled\n7 cancelled\n",
      stderr: "",
    });
    expect(states(place).slice(3)).toEqual(["cancelled", "cancelled", "cancelled", "cancelled"]);
    expect(await place.inspect(6)).toMatchObject({ reason: "job 5, which it waits for, was cancelled" });
  });

  test("of a job and what waits for it is no contradiction: all of them end, and the answer is yes", async () => {
    const place = await oneOfEach();
    expect(await place.lease("cancel", "-q", "mail", "--reason", "moved")).toMatchObject({ code: 0, stderr: "" });
    expect(states(place).slice(4)).toEqual(["cancelled", "cancelled"]);
  });

  test("of a finished job exits with 1, says in which state it is, and changes nothing", async () => {
    const place = await oneOfEach();
    const before = place.content();
    for (const [id, state] of [
      ["1", "completed"],
      ["2", "failed"],
      ["3", "cancelled"],
    ] as const) {
      expectRefusal(await place.lease("cancel", id), 1, `job ${id} is ${state} already: there is nothing to cancel`);
    }
    expect(place.content()).toEqual(before);
  });

  test("of some that are finished cancels the others and still exits with 1", async () => {
    const place = await oneOfEach();
    const answer = await place.lease("cancel", "1", "4", "99");
    expect(answer).toMatchObject({ code: 1, stdout: "4 cancelled\n" });
    expect(answer.stderr.split("\n")).toHaveLength(3);
  });

  test("takes all that a task or a queue has waiting, with a reason that the job keeps", async () => {
    const place = await oneOfEach();
    expect(await place.lease("cancel", "--task", "build", "--reason", "wrong branch")).toMatchObject({
      stdout: "4 cancelled\n",
    });
    expect(await place.inspect(4)).toMatchObject({ state: "cancelled", reason: "wrong branch" });
    expect(await place.lease("cancel", "5", "--reason", "moved")).toMatchObject({ code: 0, stdout: "5 cancelled\n" });
    expectRefusal(await place.lease("cancel", "-q", "mail"), 1, "there is nothing to cancel in queue mail");
    expectRefusal(await place.lease("cancel", "-t", "nope"), 1, "there is nothing to cancel with task nope");
  });

  test("takes what is in a state, of a queue or of all", async () => {
    const place = await oneOfEach();
    expect(await place.lease("cancel", "-q", "mail", "--status", "scheduled")).toMatchObject({
      stdout: "5 cancelled\n",
    });
    await place.enqueue("--", "true");
    expect(await place.lease("cancel", "--status", "pending,blocked")).toMatchObject({
      code: 0,
      stdout: "4 cancelled\n7 cancelled\n",
    });
    expectRefusal(await place.lease("cancel", "--status", "pending"), 1, "there is nothing to cancel");
    expectRefusal(await place.lease("cancel", "--status", "failed"), 2, '--status can\'t be "failed"');
    expectRefusal(await place.lease("cancel", "4", "--status", "pending"), 2, "not both");
  });

  test("takes more than fit into a page, each once", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    place.rows(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2299)
      INSERT INTO jobs (state, queue, priority, run_at_ms, retries, created_at_ms, argv, cwd)
      SELECT 'pending', 'default', 0, 0, 3, 0, '["true"]', '/' FROM n`);
    const { stdout } = await place.lease("cancel", "-q", "default");
    expect(stdout.trimEnd().split("\n")).toEqual(Array.from({ length: 2300 }, (_, at) => `${at + 1} cancelled`));
  });

  test("without a word on what, or with two, is a usage error", async () => {
    const place = await oneOfEach();
    expectRefusal(await place.lease("cancel"), 2, "cancel what?");
    expectRefusal(await place.lease("cancel", "4", "--task", "build"), 2, "not both");
    expect(states(place)[3]).toBe("pending");
  });

  test("--json answers one object per job, also for those that it could not cancel", async () => {
    const place = await oneOfEach();
    const { code, stdout, stderr } = await place.lease("cancel", "1", "4", "99", "--json");
    expect({ code, stderr }).toEqual({ code: 1, stderr: "" });
    const answers = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as unknown);
    expect(answers).toMatchObject([
      { schema: 1, id: 1, status: "finished", state: "completed" },
      { schema: 1, id: 4, status: "cancelled" },
      { schema: 1, id: 99, status: "unknown", state: null },
    ]);
  });
});

describe("lease inspect TASK", () => {
  test("shows who waits for whom, as a tree or as JSON, and says when there is no such task", async () => {
    const place = newPlace();
    await place.enqueue("-t", "rel", "--", "true");
    await place.enqueue("-t", "rel", "--after", "1", "--", "echo", "two");
    expect((await place.lease("inspect", "rel")).stdout).toContain("1    pending  true\n└─ 2 blocked  echo two\n");
    const graph = JSON.parse((await place.lease("inspect", "rel", "--json")).stdout) as object;
    expect(graph).toMatchObject({
      task: "rel",
      dependencies: [{ job: 2, parent: 1, kind: "success" }],
      jobs: [{ id: 1 }, { id: 2, state: "blocked" }],
    });
    expectRefusal(await place.lease("inspect", "none-such"), 2, "no job has it as its task");
    expectRefusal(await place.lease("inspect", "wrkers"), 2, "did you mean workers?");
  });
});

describe("lease edit", () => {
  test("changes what it names, and says what it can't", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    await place.enqueue("--pty", "--", "true");
    expect(await place.lease("edit", "1-2", "--priority", "7", "--timeout", "9s")).toMatchObject({
      code: 0,
      stdout: "1 changed\n2 changed\n",
    });
    expect(await place.inspect(2)).toMatchObject({ priority: 7, state: "pending" });
    expect((await place.lease("inspect", "2")).stdout).toMatch(/timeout 9s .* on a terminal/);
    await place.lease("edit", "1", "--after", "2");
    expectRefusal(await place.lease("edit", "2", "--after", "1"), 2, "job 2 can't wait for job 1, which waits for it");
    expect((await place.lease("edit", "1", "--free")).code).toBe(0);
    expectRefusal(await place.lease("edit", "1", "--free", "--after", "2"), 2, "--free and --after");
    expectRefusal(await place.lease("edit", "1", "--lease", "10ms"), 2, "lease must be at least 1s");
    const edit = (line: string) => place.lease("edit", ...line.split(" "));
    await edit("1 --limit few --need gpu=9 --on-failed x --task t --delay 1h");
    expect((await edit("1 --unset limit,need,on-failed,timeout --unset delay")).code).toBe(0);
    const { stdout } = await place.lease("inspect", "1", "--json");
    expect(JSON.parse(stdout)).toMatchObject({ limit: [], need: [], state: "pending", task: "t", priority: 7 });
    expect(JSON.parse(stdout)).toMatchObject({ settings: { timeout: null, on_failed: null } });
    expectRefusal(await edit("1 --unset timeout --timeout 1s"), 2, "--unset timeout can't both");
    expectRefusal(await place.lease("edit", "1", "--unset", "key"), 2, '--unset can\'t be "key"');
    expectRefusal(await place.lease("edit", "1"), 2, "edit what of them? Name a flag");
    expectRefusal(await place.lease("edit", "--priority", "1"), 2, "edit what? Name ids");
    expectRefusal(await place.lease("edit", "9", "--priority", "1"), 1, "there is no job 9");
    await place.work();
    expectRefusal(await place.lease("edit", "1", "--priority", "1"), 1, "job 1 is completed: only jobs that wait");
  });
});

describe("lease retry", () => {
  test("runs finished jobs again, whatever their end, with all their retries and a token that goes on", async () => {
    const place = await oneOfEach();
    expect(await place.lease("retry", "1-3")).toEqual({
      code: 0,
      stdout: "1 pending\n2 pending\n3 pending\n",
      stderr: "",
    });
    expect(await place.inspect(2)).toMatchObject({
      state: "pending",
      token: 1,
      exit_code: null,
      error: null,
      finished_at: null,
    });
    await place.work();
    expect(await place.inspect(1)).toMatchObject({
      state: "completed",
      token: 2,
      history: [{ attempt: 1 }, { attempt: 2 }],
    });
    expect(await place.inspect(3)).toMatchObject({ state: "completed", token: 1 });
  });

  test("of a job that has not finished exits with 1 and says so", async () => {
    const place = await oneOfEach();
    const before = place.content();
    expectRefusal(await place.lease("retry", "4"), 1, "job 4 is pending: only finished jobs can be retried");
    expectRefusal(await place.lease("retry", "6"), 1, "job 6 is blocked");
    expect(place.content()).toEqual(before);
  });

  test("of a job whose key a live one has exits with 1", async () => {
    const place = newPlace();
    await place.enqueue("-k", "K", "--", "true");
    await place.work();
    await place.enqueue("-k", "K", "--", "true");
    expectRefusal(await place.lease("retry", "1"), 1, "job 1 can't run again while another job with its key is live");
  });

  test("takes what failed in a task or a queue, or what --status says", async () => {
    const place = await oneOfEach();
    expect(await place.lease("retry", "--task", "build")).toMatchObject({ code: 0, stdout: "2 pending\n" });
    expect(await place.lease("retry", "-t", "build", "--status", "cancelled", "--json")).toMatchObject({
      code: 0,
      stdout: `${JSON.stringify({ schema: 1, id: 3, status: "pending", state: "pending" })}\n`,
    });
    expectRefusal(await place.lease("retry", "-q", "mail"), 1, "there is nothing to retry in queue mail");
    expectRefusal(await place.lease("retry"), 2, "retry what?");
    expectRefusal(await place.lease("retry", "1", "-t", "build"), 2, "not both");
    expectRefusal(await place.lease("retry", "--status", "pending"), 2, "use completed, failed, cancelled");
  });

  test("of a task takes along what could not run because of a failure, not what waits for a cancelled job", async () => {
    const place = newPlace();
    await place.enqueue("-t", "rel", "--retries", "0", "--", "false");
    await place.enqueue("-t", "rel", "--after", "1", "--", "true");
    await place.enqueue("-t", "rel", "--after", "2", "--", "true");
    await place.enqueue("-t", "rel", "--delay", "1h", "--", "true");
    await place.enqueue("-t", "rel", "--after", "4", "--", "true");
    await place.lease("cancel", "4");
    await place.work();
    expect(await place.lease("retry", "--task", "rel")).toMatchObject({
      code: 0,
      stdout: "1 pending\n2 blocked\n3 blocked\n",
    });
  });

  test("takes what ended in some ways, of all queues", async () => {
    const place = await oneOfEach();
    expect(await place.lease("retry", "--status", "failed,cancelled")).toMatchObject({
      code: 0,
      stdout: "2 pending\n3 pending\n",
    });
    expectRefusal(await place.lease("retry", "--status", "failed"), 1, "there is nothing to retry");
  });
});

describe("lease logs", () => {
  test("shows what a job printed, one stream of it, with times, and of the attempt that was asked for", async () => {
    const place = newPlace();
    await place.enqueue(
      "--retries",
      "1",
      "--backoff",
      "none",
      "-c",
      'echo "out $LEASE_ATTEMPT"; sleep 0.05; echo "err $LEASE_ATTEMPT" >&2; exit 1',
    );
    await place.work();
    const logs = async (...args: string[]) => (await place.lease("logs", "1", ...args)).stdout;
    expect(await logs()).toBe("out 2\nerr 2\n");
    expect(await logs("--attempt", "1")).toBe("out 1\nerr 1\n");
    expect(await logs("--stream", "stdout")).toBe("out 2\n");
    expect(await logs("--stream=stderr", "--attempt=1")).toBe("err 1\n");
    expect(await logs("-f")).toBe("out 2\nerr 2\n");
    expect(await logs("--timestamps")).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z out 2\n\d{4}-\d\d-\d\dT[\d:.]+Z err 2\n$/);
    expectRefusal(await place.lease("logs", "1", "--attempt", "3"), 1, "job 1 has no attempt 3");
    expectRefusal(await place.lease("logs", "1", "--attempt", "0"), 2, "--attempt");
    expectRefusal(await place.lease("logs"), 2, "logs of which job?");
    expectRefusal(await place.lease("logs", "1", "2"), 1, "there is no job 2");
  });
});

describe("lease watchdog --once", () => {
  /** A job that a worker of another machine got an hour ago for a second, and has not been heard of since. */
  async function abandoned(...flags: string[]): Promise<Place> {
    const place = newPlace();
    await place.enqueue(...flags, "--", "true");
    const clock = { ...systemClock, wall_ms: () => Date.now() - 3_600_000 };
    const store = await openSqlite(place.store, { clock, random: systemRandom });
    const request = {
      holder: "elsewhere.1.abc",
      host: "elsewhere",
      count: 1,
      queues: null,
      task: null,
      lease_ms: 1_000,
    };
    expect(await store.acquire(request)).toHaveLength(1);
    await store.close();
    return place;
  }

  test("gives back what ran out, notes it, and tells what it did", async () => {
    const place = await abandoned();
    expect((await place.lease("inspect")).stdout).toContain("1 stale");
    const { code, stdout, stderr } = await place.lease("watchdog", "--once");
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(/^\S+ info +job 1: .* now pending\n$/) });
    expect(stdout).toMatch(/^1 expired: 1 recovered, 1 checkpoints? created \(\d+ ms\)\n$/);
    expect(await place.inspect(1)).toMatchObject({
      state: "pending",
      retries_left: 2,
      history: [{ attempt: 1, cause: "expired", host: "elsewhere" }],
      checkpoints: [{ kind: "error" }],
    });
    expect(await place.lease("watchdog", "--once")).toEqual({ code: 0, stdout: "", stderr: "" });
  });

  test("--json names what SPEC §3 does", async () => {
    const place = await abandoned("--retries", "0");
    const { stdout } = await place.lease("watchdog", "--once", "--json");
    expect(JSON.parse(stdout)).toEqual({
      schema: 1,
      expired_found: 1,
      recovered: 0,
      failed: 1,
      cancelled: 0,
      checkpoints_created: 1,
      orphans_killed: 0,
      errors: 0,
      scan_duration_ms: expect.any(Number),
    });
    expect(await place.inspect(1)).toMatchObject({ state: "failed", cause: "expired", error: "max retries exceeded" });
  });

  test("--grace leaves alone what ran out less long ago, --no-checkpoints keeps no note", async () => {
    const place = await abandoned();
    expect((await place.lease("watchdog", "--once", "--grace", "2h")).stdout).toBe("");
    expect((await place.lease("watchdog", "--once", "--grace", "10m", "--no-checkpoints")).stdout).toStartWith(
      "1 expired: 1 recovered (",
    );
    expect(await place.inspect(1)).toMatchObject({ state: "pending", checkpoints: [] });
  });

  test("--keep-checkpoints and --no-checkpoints hold for the sweeps of workers too, none keeps all", async () => {
    const place = newPlace();
    const notes = `for note in a b c; do ${LEASE} checkpoint $note; done`;
    await place.lease("enqueue", "-c", notes);
    const kept = async () => (await place.lease("inspect", "checkpoints", "--json")).stdout.trim().split("\n").length;
    expect((await place.lease("watchdog", "--once", "--keep-checkpoints", "none")).code).toBe(0);
    await place.lease("worker", "--once", "--name", "first");
    expect(await kept()).toBe(3);
    await place.lease("watchdog", "--once", "--keep-checkpoints", "2");
    expect(await kept()).toBe(2);
    await place.lease("enqueue", "-t", "t", "-c", notes);
    await place.lease("worker", "--once");
    await place.lease("watchdog", "--once");
    expect(await kept()).toBe(4);
    const { recovery } = JSON.parse((await place.lease("inspect", "--json")).stdout) as {
      recovery: { total_scans: number };
    };
    expect(recovery).toMatchObject({ expired_found: 0, last_at: null, last_scan: { expired_found: 0 } });
    expect(recovery.total_scans).toBeGreaterThan(3);
  });

  test("--keep-checkpoints keeps the newest", async () => {
    const place = newPlace();
    await place.enqueue("--retries", "4", "--backoff", "none", "--", "false");
    await place.work();
    expect((await place.inspect(1)).checkpoints.map(({ token }) => token)).toEqual([5, 4, 3, 2, 1]);
    await place.lease("watchdog", "--once", "--keep-checkpoints", "2");
    expect((await place.inspect(1)).checkpoints.map(({ token }) => token)).toEqual([5, 4]);
    await place.lease("watchdog", "--once", "--keep-checkpoints", "0");
    expect((await place.inspect(1)).checkpoints).toEqual([]);
  });

  test("is remembered in the overview when it found something", async () => {
    const place = await abandoned();
    await place.lease("watchdog", "--once");
    const { recovery } = JSON.parse((await place.lease("inspect", "--json")).stdout) as { recovery: object };
    expect(recovery).toMatchObject({ expired_found: 1, recovered: 1, checkpoints_created: 1 });
  });
});

describe("lease watchdog", () => {
  test("sweeps until it is told to stop, and ends with 0", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const script = `"$LEASE" watchdog --every 1s > swept & pid=$!
      while ! test -s swept; do sleep 0.01; done; kill -TERM $pid; wait $pid`;
    const child = Bun.spawn(["sh", "-c", script], {
      cwd: place.folder,
      env: { ...process.env, ...place.env },
      stderr: "pipe",
    });
    expect({ code: await child.exited, stderr: await child.stderr.text() }).toEqual({ code: 0, stderr: "" });
  });
});

describe("lease pause and resume", () => {
  test("without a queue are usage errors", async () => {
    const place = await oneOfEach();
    expectRefusal(await place.lease("pause"), 2, "pause which queue?");
    expectRefusal(await place.lease("resume"), 2, "resume which queue?");
  });

  test("of a queue that has no jobs do it all the same, and say what was probably meant", async () => {
    const place = await oneOfEach();
    expect(await place.lease("pause", "mial")).toEqual({
      code: 0,
      stdout: "mial paused\n",
      stderr: "lease: queue mial has no jobs so far; did you mean mail?\n",
    });
  });

  test("like cancel and retry know queues by their jobs, by being paused, and by who serves them", async () => {
    const place = await oneOfEach();
    const meant = (word: string) => `queue ${word} has no jobs so far; did you mean mail?`;
    expectRefusal(await place.lease("cancel", "-q", "mial"), 1, `there is nothing to cancel: ${meant("mial")}`);
    expectRefusal(await place.lease("retry", "-q", "maill"), 1, `there is nothing to retry: ${meant("maill")}`);
    await place.lease("pause", "nightly");
    expect((await place.lease("resume", "nihgtly")).stderr).toBe(
      "lease: queue nihgtly has no jobs so far; did you mean nightly?\n",
    );
    expect(await place.lease("resume", "nightly")).toEqual({ code: 0, stdout: "nightly resumed\n", stderr: "" });
  });

  test("take several with commas between, as a worker does", async () => {
    const place = await oneOfEach();
    const { code, stdout } = await place.lease("pause", "mail,nightly", "mail");
    expect({ code, stdout }).toEqual({ code: 0, stdout: "mail paused\nnightly paused\n" });
    const { stdout: resumed } = await place.lease("resume", "mail,nightly");
    expect(resumed).toBe("mail resumed\nnightly resumed\n");
  });

  test("refuse what can't be the name of a queue", async () => {
    const place = await oneOfEach();
    expectRefusal(await place.lease("pause", ""), 2, "is not a name");
    expectRefusal(await place.lease("pause", "a,"), 2, "is not a name");
    expectRefusal(await place.lease("pause", "*"), 2, "pause takes no *: name each queue");
    expectRefusal(await place.lease("pause", "a\nb"), 2, "is not a name");
  });
});
