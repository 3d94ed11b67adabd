/** `lease wait`: what it waits for, and the code it ends with. */

import { afterEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { environment, expectRefusal, LEASE, run, until, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();

const open: { kill: (signal: "SIGKILL") => void }[] = [];
afterEach(() => {
  for (const child of open.splice(0)) child.kill("SIGKILL");
});

function start(place: Place, ...args: string[]) {
  const child = Bun.spawn([LEASE, ...args], {
    cwd: place.folder,
    env: environment(place.env),
    stdout: "pipe",
    stderr: "pipe",
  });
  open.push(child);
  return child;
}

/** Until it has looked and found that it has to wait: then it watches the store's folder. */
const waiting = (pid: number) => until(() => Bun.spawnSync(["ls", "-l", `/proc/${pid}/fd`]).stdout.includes("inotify"));

describe("the code of a job that has ended", () => {
  test.each<[string, string[], number, RegExp | null]>([
    ["nothing went wrong", ["--", "true"], 0, null],
    ["its own exit code", ["--retries", "0", "-c", "exit 7"], 7, /job 1 failed: exit code 7/],
    ["128+n of a signal", ["--retries", "0", "-c", "kill -KILL $$"], 137, /killed by SIGKILL/],
    ["124 of its timeout", ["--retries", "0", "--timeout", "50ms", "--", "sleep", "60"], 124, /timeout/],
    ["127 of a command that is not there", ["--retries", "0", "--", "no-such-command"], 127, /not found/],
    ["126 of one that can't be executed", ["--retries", "0", "--", "/etc/passwd"], 126, /job 1 failed/],
    ["1 where silence ended it", ["--retries", "0", "--lease", "1s", "--", "sleep", "60"], 1, /silent/],
  ])("is %s", async (_what, args, code, told) => {
    const place = newPlace();
    await place.enqueue(...args);
    await place.work();
    const answer = await place.lease("wait", "1");
    expect(answer).toMatchObject({ code, stdout: "" });
    if (told === null) expect(answer.stderr).toBe("");
    else expect(answer.stderr).toMatch(told);
  });

  test("is 1 when it was cancelled, and the reason is told", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    await place.lease("cancel", "1", "--reason", "wrong branch");
    expect(await place.lease("wait", "1")).toEqual({
      code: 1,
      stdout: "",
      stderr: "lease: job 1 cancelled: wrong branch\n",
    });
  });
});

describe("of several jobs", () => {
  async function three(): Promise<Place> {
    const place = newPlace();
    await place.enqueue("-t", "T", "--", "true");
    await place.enqueue("-t", "T", "-q", "mail", "--retries", "0", "-c", "exit 7");
    await place.enqueue("-q", "mail", "--retries", "0", "-c", "exit 3");
    await place.work("-q", "*");
    return place;
  }

  test("all have to complete, or the code is that of the first that did not", async () => {
    const place = await three();
    expect((await place.lease("wait", "1")).code).toBe(0);
    expect(await place.lease("wait", "1-3")).toMatchObject({
      code: 7,
      stderr: "lease: job 2 failed: exit code 7\nlease: job 3 failed: exit code 3\n",
    });
    expect((await place.lease("wait", "3", "1")).code).toBe(3);
    expect((await place.lease("wait", "--task", "T")).code).toBe(7);
    expect((await place.lease("wait", "-q", "default")).code).toBe(0);
    expect((await place.lease("wait", "--queue", "mail", "-t", "T")).code).toBe(7);
  });

  test("--any is over with the first that has ended, and has its code", async () => {
    const place = await three();
    await place.enqueue("--delay", "1h", "--", "true");
    const { code, stdout, stderr } = await place.lease("wait", "--any", "4", "2", "--json");
    expect({ code, stderr }).toEqual({ code: 7, stderr: "lease: job 2 failed: exit code 7\n" });
    expect(JSON.parse(stdout)).toMatchObject({ schema: 1, id: 2, state: "failed", exit_code: 7 });
  });

  test("--json prints each when it is over", async () => {
    const place = await three();
    const { stdout } = await place.lease("wait", "3", "1", "--json");
    const jobs = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { id: number; state: string });
    expect(jobs.map(({ id, state }) => [id, state])).toEqual([
      [3, "failed"],
      [1, "completed"],
    ]);
  });
});

describe("a job that has not ended", () => {
  test("is waited for, and its end is noticed at once", async () => {
    const place = newPlace();
    await place.enqueue("-c", "exit 0");
    const child = start(place, "wait", "1");
    await waiting(child.pid);
    await place.work();
    expect(await child.exited).toBe(0);
  });

  test("and is going to be retried counts as not ended", async () => {
    const place = newPlace();
    await place.enqueue("--retries", "1", "--backoff", "none", "-c", "exit $((LEASE_ATTEMPT == 1 ? 7 : 0))");
    const child = start(place, "wait", "1");
    await waiting(child.pid);
    await place.lease("worker", "--once");
    expect(child.exitCode).toBeNull();
    await place.work();
    expect(await child.exited).toBe(0);
    expect(await place.inspect(1)).toMatchObject({ attempts: 2 });
  });

  test("and was added to the task meanwhile is waited for as well", async () => {
    const place = newPlace();
    await place.enqueue("-t", "T", "-c", '"$LEASE" enqueue -t T --retries 0 -c "exit 9"');
    const child = start(place, "wait", "-t", "T");
    await waiting(child.pid);
    await place.work();
    expect(await child.exited).toBe(9);
  });

  test("is no longer waited for after --timeout, and goes on", async () => {
    const place = newPlace();
    await place.enqueue("--delay", "1h", "--", "true");
    await place.enqueue("--", "true");
    await place.work();
    expect(await place.lease("wait", "1-2", "--timeout", "50ms")).toEqual({
      code: 124,
      stdout: "",
      stderr: "lease: after 50ms 1 of 2 jobs have not ended\n",
    });
    expect(await place.inspect(1)).toMatchObject({ state: "scheduled" });
  });

  test.each<["SIGINT" | "SIGTERM", number]>([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ])("goes on when %s ends the waiting", async (signal, code) => {
    const place = newPlace();
    await place.enqueue("--delay", "1h", "--", "true");
    const child = start(place, "wait", "1");
    await waiting(child.pid);
    child.kill(signal);
    expect(await child.exited).toBe(code);
    expect(await child.stderr.text()).toBe("lease: no longer waiting; the jobs go on\n");
    expect(await place.inspect(1)).toMatchObject({ state: "scheduled" });
  });

  test("costs next to nothing to wait for", async () => {
    const place = newPlace();
    await place.enqueue("--delay", "1h", "--", "true");
    const script = '"$0" wait 1 --timeout 2s; code=$?; times | tail -n 1; exit $code';
    const { code, stdout } = await run(["bash", "-c", script, LEASE], { cwd: place.folder, env: place.env });
    expect(code).toBe(124);
    const [user = 9, system = 9] = [...stdout.matchAll(/0m([\d.]+)s/g)].map((match) => Number(match[1]));
    // Of two seconds; the start is most of it.
    expect(user + system).toBeLessThan(0.5);
  });

  test("is shown with a bar on a terminal, which is gone in the end", async () => {
    const place = newPlace();
    await place.enqueue("-t", "T", "--", "true");
    await place.work();
    await place.enqueue("-t", "T", "-q", "later", "--", "true");
    let screen = "";
    const child = Bun.spawn([LEASE, "wait", "-t", "T"], {
      cwd: place.folder,
      env: environment({ ...place.env, TERM: "xterm-256color", NO_COLOR: "1" }),
      terminal: {
        cols: 100,
        rows: 20,
        data: (_terminal, bytes) => {
          screen += new TextDecoder().decode(bytes);
        },
      },
    });
    open.push(child);
    await until(() => screen.includes("━━━━━━━━━━────────── 1 done, 1 left"));
    await place.work("-q", "later");
    expect(await child.exited).toBe(0);
    expect(screen.endsWith("\r\u001b[2K")).toBe(true);
  });
});

describe("what can't be waited for", () => {
  test("is an answer of no: an unknown id, a task or queue without jobs", async () => {
    const place = newPlace();
    await place.enqueue("--delay", "1h", "--", "true");
    expectRefusal(await place.lease("wait", "1", "99"), 1, "there is no job 99");
    expectRefusal(await place.lease("wait", "--task", "nope"), 1, "there is nothing to wait for with task nope");
    expectRefusal(
      await place.lease("wait", "-q", "nope"),
      1,
      "there is nothing to wait for: queue nope has no jobs so far",
    );
  });

  test("or a usage error", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    expectRefusal(await place.lease("wait"), 2, "wait for what? Name ids (7 9-12), --task or --queue");
    expectRefusal(await place.lease("wait", "1", "-q", "default"), 2, "not both");
    expectRefusal(await place.lease("wait", "x"), 2, "is not a job id");
    expectRefusal(await place.lease("wait", "1", "--timeout", "soon"), 2, '--timeout "soon" is not a duration');
  });
});

test("a wait that nothing moves in says why, once, and goes on", async () => {
  const place = newPlace();
  await place.enqueue("-q", "gpu", "--", "true");
  const child = start(place, "wait", "1");
  const reader = child.stderr.getReader();
  const { value } = await reader.read();
  expect(Buffer.from(value ?? []).toString()).toBe("lease: job 1 is pending: no worker serves queue gpu\n");
  await place.work("-q", "gpu");
  expect(await child.exited).toBe(0);
  expect((await reader.read()).done).toBe(true);
});

test("a wait at a terminal shows what the one job tells about itself", async () => {
  const place = newPlace();
  const script = 'while [ ! -e go ]; do "$LEASE" beat --progress 40 --message linking; sleep 0.1; done';
  await place.enqueue("-c", script);
  const worker = start(place, "worker", "--until-empty");
  let screen = "";
  const data = (_: unknown, bytes: Uint8Array) => void (screen += Buffer.from(bytes).toString());
  const env = environment({ ...place.env, TERM: "xterm" });
  const child = Bun.spawn([LEASE, "wait", "1"], { cwd: place.folder, env, terminal: { cols: 200, rows: 20, data } });
  open.push(child);
  await until(() => screen.includes("40 % linking"));
  expect(Bun.stripANSI(screen)).toMatch(/━+─+ 40 % linking {2}job 1 running \d+s: while/);
  writeFileSync(join(place.folder, "go"), "");
  expect(await child.exited).toBe(0);
  expect(await worker.exited).toBe(0);
});
