/** The log of a role: for a person at a terminal, for a pipe, and for a program. */

import { beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expectRefusal, inTerminal, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();
const ESCAPE = "\u001b";
/** Clears the screen and sets the title. */
const NASTY = `${ESCAPE}[2J${ESCAPE}]0;owned\u0007`;
const PLAIN_LINE = /^\d{4}-\d\d-\d\dT[\d:.]+Z (?:debug|info |warn |error) \S/;
const WORK = ["worker", "--until-empty", "-v"];

/** Two jobs, one of which fails with words in its folder's name that a terminal, or consola, would take for its own. */
async function withJobs(): Promise<Place> {
  const place = newPlace();
  await place.enqueue("--", "true");
  await place.enqueue("--retries", "0", "--cwd", `/no such _folder_ at 100%s ${NASTY}`, "--", "true");
  return place;
}

interface Event {
  schema: number;
  time: string;
  level: string;
  role: string;
  event: string | null;
  message: string;
  job: number | null;
  worker: string | null;
  [field: string]: unknown;
}

const FIELDS = ["schema", "time", "level", "role", "event", "message", "job", "attempt", "token", "queue", "worker"];

function eventsOf(stderr: string): Event[] {
  expect(stderr).toEndWith("\n");
  return stderr
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Event);
}

describe("at a terminal", () => {
  test("it has colours, and the time at the side", async () => {
    const { screen } = await inTerminal(await withJobs(), WORK);
    expect(screen).toMatch(/job 1: completed {5,}.*\d:\d\d:\d\d/);
    expect(screen).toContain(`${ESCAPE}[33m`);
    expect(screen).not.toMatch(/^\d{4}-/m);
  });

  test.each([{ NO_COLOR: "1" }, { TERM: "dumb" }])("it has none with %j", async (env) => {
    const { screen } = await inTerminal(await withJobs(), WORK, { env });
    expect(screen).toMatch(/^\[debug\] job 1: completed$/m);
    expect(screen.replaceAll(`\r${ESCAPE}[2K`, "")).not.toContain(ESCAPE);
  });

  test.each([{}, { NO_COLOR: "1" }])("a job's words are shown as they are, and not obeyed, with %j", async (env) => {
    const { screen } = await inTerminal(await withJobs(), WORK, { env, cols: 300 });
    expect(Bun.stripANSI(screen)).toContain(String.raw`/no such _folder_ at 100%s \x1b[2J\x1b]0;owned\x07`);
    expect(screen).not.toContain(`${ESCAPE}[2J`);
    expect(screen).not.toContain(`${ESCAPE}]`);
  });

  test("what a job printed last is told without the colours that it had", async () => {
    const place = newPlace();
    await place.enqueue("--retries", "0", "-c", String.raw`printf '\033[31mno disk\033[0m\n'; exit 1`);
    const { stderr } = await place.lease("worker", "--until-empty");
    expect(stderr).toContain("failed for good: exit code 1 (no disk)");
  });

  test("warnings stand among the other lines, without empty ones around them", async () => {
    expect((await inTerminal(await withJobs(), WORK)).screen).not.toMatch(/\n\n/);
  });
});

describe("in a pipe", () => {
  test("each event is a line with its time and its level, also with a colour that is wanted", async () => {
    for (const color of ["auto", "always"]) {
      const { stderr } = await (await withJobs()).lease(...WORK, "--color", color, "--log-format", "pretty");
      const lines = stderr.trimEnd().split("\n");
      expect(lines.pop()).toStartWith("1 done, 1 failed");
      expect(lines.filter((line) => / job \d: (completed|failed)/.test(line))).toHaveLength(2);
      for (const line of lines) expect(line).toMatch(PLAIN_LINE);
    }
  });
});

describe("as JSON", () => {
  let place: Place;
  beforeAll(async () => {
    place = await withJobs();
  });

  test("each event is an object, and nothing else is written", async () => {
    const { code, stdout, stderr } = await place.lease(...WORK, "--log-format", "json");
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    const events = eventsOf(stderr);
    for (const event of events) {
      expect(Object.keys(event).slice(0, FIELDS.length)).toEqual(FIELDS);
      expect(event).toMatchObject({ schema: 1, role: "worker" });
      expect(event.time).toBe(new Date(event.time).toISOString());
    }
    const ended = events.filter(({ event }) => event === "ended");
    expect(ended.map(({ level, job, state, cause }) => [level, job, state, cause])).toEqual([
      ["info", 1, "completed", "success"],
      ["warn", 2, "failed", "not_found"],
    ]);
    expect(ended[1]?.message).toContain(`_folder_ at 100%s ${NASTY}`);
    expect(events.find(({ message }) => message.startsWith("1 done, 1 failed"))).toMatchObject({ job: null });
  });

  test("each step of a job is an event with its fields, and so are start and stop of the worker", async () => {
    const own = newPlace();
    await own.enqueue("-q", "mail", "--", "sh", "-c", "echo one; sleep 0.3; echo two");
    const work = ["worker", "-q", "mail", "--until-empty", "--lease", "1s", "--interval", "100ms"];
    const { stderr } = await own.lease(...work, "-v", "--log-format", "json");
    const events = eventsOf(stderr).filter(({ event }) => event !== null);
    const worker = events[0]?.worker;
    expect(worker).toBeString();
    const names = ["worker_started", "acquired", "started", "beat", "extended", "ended", "worker_stopped"];
    expect([...new Set(events.map(({ event }) => event))].filter((name) => names.includes(name ?? ""))).toEqual(names);
    for (const event of events) expect(event.worker).toBe(worker as string);
    const steps = events.filter(({ job }) => job !== null);
    for (const step of steps) expect(step).toMatchObject({ job: 1, attempt: 1, token: 1, queue: "mail" });
    expect(events.find(({ event }) => event === "acquired")?.["wait_ms"]).toBeNumber();
    expect(events.find(({ event }) => event === "ended")?.["run_ms"]).toBeGreaterThanOrEqual(300);
  });

  test("a recovery names the job and the worker that had it", async () => {
    const own = newPlace();
    const id = await own.enqueue("--", "sh", "-c", "kill -9 $PPID");
    await own.lease("worker", "--once", "--no-sweep", "--name", "first");
    const { stderr } = await own.lease("watchdog", "--once", "--log-format", "json");
    const recovered = eventsOf(stderr).find(({ event }) => event === "recovered");
    expect(recovered).toMatchObject({ level: "info", job: id, attempt: 1, token: 1, queue: "default", cause: "lost" });
    expect(recovered?.message).toContain(`of worker ${String(recovered?.worker)}`);
  });

  test("it is the same at a terminal", async () => {
    await place.lease("retry", "2");
    const { screen } = await inTerminal(place, [...WORK, "--log-format=json"]);
    expect(screen).not.toContain(ESCAPE);
    expect(eventsOf(screen).filter(({ event }) => event === "ended")).toMatchObject([{ level: "warn", job: 2 }]);
  });

  test("a variable or lease.toml asks for it as well, and the flag decides", async () => {
    const work = async (env: Record<string, string>, ...args: string[]) => {
      await place.lease("retry", "1");
      return (await place.leaseWith({ env }, ...WORK, ...args)).stderr;
    };
    expect(eventsOf(await work({ LEASE_WORKER_LOG_FORMAT: "json" })).length).toBeGreaterThan(2);
    const toml = join(place.folder, "json.toml");
    writeFileSync(toml, '[worker]\nlog_format = "json"\n', { mode: 0o600 });
    expect(eventsOf(await work({ LEASE_CONFIG: toml })).length).toBeGreaterThan(2);
    expect(await work({ LEASE_CONFIG: toml }, "--log-format", "pretty")).toMatch(PLAIN_LINE);
  });

  test("another name for it is refused", async () => {
    expectRefusal(
      await place.lease("worker", "--log-format", "jsn"),
      2,
      '--log-format can\'t be "jsn"; did you mean json?',
    );
    const env = { LEASE_WATCHDOG_LOG_FORMAT: "xml" };
    expectRefusal(await place.leaseWith({ env }, "watchdog", "--once"), 2, "LEASE_WATCHDOG_LOG_FORMAT can't be");
  });

  test("that the work is elsewhere is an event as well", async () => {
    const own = newPlace();
    await own.enqueue("-q", "mail", "--", "true");
    const { stderr } = await own.lease(...WORK, "--log-format", "json");
    expect(eventsOf(stderr).at(-1)?.message).toContain("jobs wait in mail (1)");
  });

  test("a watchdog has it too", async () => {
    const own = newPlace();
    await own.enqueue("--", "sh", "-c", "kill -9 $PPID");
    await own.lease("worker", "--once", "--no-sweep");
    const { stderr } = await own.lease("watchdog", "--once", "--log-format", "json");
    const events = eventsOf(stderr);
    expect(events.length).toBeGreaterThan(0);
    for (const event of events) expect(event).toMatchObject({ schema: 1, role: "watchdog" });
  });
});
