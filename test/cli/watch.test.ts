/** `lease inspect --watch`, in a terminal and in a pipe. */

import { afterEach, describe, expect, test } from "bun:test";
import { environment, LEASE, until, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();

const ESCAPE = "\u001b";
const ENTER = `${ESCAPE}[?1049h${ESCAPE}[?25l`;
const LEAVE = `${ESCAPE}[?25h${ESCAPE}[?1049l`;
const HOME = `${ESCAPE}[H`;

const open: { kill: (signal: "SIGKILL") => void }[] = [];
afterEach(() => {
  for (const child of open.splice(0)) child.kill("SIGKILL");
});

/** A watch in a terminal of its own. */
class Live {
  written = "";
  readonly #child;
  readonly #closed = Promise.withResolvers<void>();

  constructor(place: Place, args: readonly string[], size = { cols: 80, rows: 20 }, env: Record<string, string> = {}) {
    const decoder = new TextDecoder();
    this.#child = Bun.spawn([LEASE, "inspect", ...args, "--watch"], {
      cwd: place.folder,
      env: environment({ ...place.env, TERM: "xterm-256color", ...env }),
      terminal: {
        ...size,
        data: (_terminal, bytes) => {
          this.written += decoder.decode(bytes, { stream: true });
        },
        exit: () => this.#closed.resolve(),
      },
    });
    open.push(this.#child);
  }

  /** The last whole picture, line by line, without colours. */
  get lines(): string[] {
    const frames = this.written.split(`${ESCAPE}[?2026h${HOME}`).slice(1);
    const last = frames.findLast((frame) => frame.includes(`${ESCAPE}[?2026l`)) ?? "";
    const drawn = last.slice(0, last.indexOf(`${ESCAPE}[?2026l`));
    const lines = drawn.replace(`\r\n${ESCAPE}[J`, "").split("\r\n");
    return lines.map((line) => Bun.stripANSI(line.replaceAll(`${ESCAPE}[K`, "")).trimEnd());
  }

  shows(what: string | RegExp): Promise<void> {
    return until(() => this.lines.some((line) => (typeof what === "string" ? line.includes(what) : what.test(line))));
  }

  press(keys: string): void {
    this.#child.terminal?.write(keys);
  }

  resize(cols: number, rows: number): void {
    this.#child.terminal?.resize(cols, rows);
  }

  signal(name: "SIGTERM" | "SIGINT"): void {
    this.#child.kill(name);
  }

  async ended(): Promise<number> {
    const code = await this.#child.exited;
    await this.#closed.promise;
    return code;
  }
}

describe("in a terminal", () => {
  test("a change of the store is shown in place, on a screen of its own", async () => {
    const place = newPlace();
    await place.enqueue("--", "first");
    const live = new Live(place, ["jobs"]);
    await live.shows("first");
    await place.enqueue("--", "second");
    await live.shows("second");
    expect(live.lines[0]).toMatch(/^lease inspect jobs {2}.*, q quits$/);
    live.press("q");
    expect(await live.ended()).toBe(0);
    expect(live.written.startsWith(ENTER)).toBe(true);
    expect(live.written.trimEnd().endsWith(LEAVE)).toBe(true);
    // Nothing outside of it, before or after.
    expect(live.written.split(ENTER)).toHaveLength(2);
  });

  test("time goes on without any change", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const live = new Live(place, ["jobs"]);
    await live.shows(/ [1-9]\d*s ago/);
    live.press("q");
    await live.ended();
  });

  test.each<[string, (live: Live) => void, number]>([
    ["q", (live) => live.press("q"), 0],
    ["Q", (live) => live.press("Q"), 0],
    ["Esc", (live) => live.press(ESCAPE), 0],
    ["Ctrl-C", (live) => live.press("\u0003"), 130],
    ["SIGTERM", (live) => live.signal("SIGTERM"), 143],
    ["SIGINT", (live) => live.signal("SIGINT"), 130],
  ])("%s ends it and gives the terminal back", async (_name, end, code) => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const live = new Live(place, []);
    await live.shows("Workers");
    end(live);
    expect(await live.ended()).toBe(code);
    expect(live.written).toContain(LEAVE);
  });

  test("an arrow key or any other does not end it", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const live = new Live(place, ["jobs"]);
    await live.shows("true");
    live.press(`${ESCAPE}[A`);
    live.press("x");
    await place.enqueue("--", "later");
    await live.shows("later");
    live.press("q");
    expect(await live.ended()).toBe(0);
  });

  test("what was not even asked for is counted too", async () => {
    const place = newPlace();
    await place.leaseWith({ stdin: "x\n".repeat(300) }, "enqueue", "--from", "-", "--lines", "--", "true");
    const live = new Live(place, ["jobs"], { cols: 80, rows: 24 });
    // Beside the jobs a head, an empty line, titles, a rule, and this.
    await live.shows("… 281 more");
    live.press("q");
    expect(await live.ended()).toBe(0);
  });

  test("what does not fit is counted, and a terminal that grows shows more of it", async () => {
    const place = newPlace();
    for (let n = 0; n < 12; n++) await place.enqueue("--", "echo", `job-${n}`, "a".repeat(200));
    const live = new Live(place, ["jobs"], { cols: 50, rows: 10 });
    await live.shows("… 7 more");
    expect(live.lines).toHaveLength(10);
    for (const line of live.lines) expect(Bun.stringWidth(line)).toBeLessThanOrEqual(50);
    live.resize(120, 30);
    await live.shows("job-0");
    expect(live.lines).toHaveLength(16);
    expect(live.lines[3]).toBe("─".repeat(120));
    live.resize(30, 4);
    await until(() => live.lines.length === 4);
    for (const line of live.lines) expect(Bun.stringWidth(line)).toBeLessThanOrEqual(30);
    live.press("q");
    expect(await live.ended()).toBe(0);
  });

  test.each([["queues"], ["workers"], ["leases"], ["checkpoints"], ["1"]])("works for inspect %s", async (name) => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const live = new Live(place, [name]);
    await live.shows(`lease inspect ${name}`);
    live.press("q");
    expect(await live.ended()).toBe(0);
  });

  test("the page of a job follows what it prints, through to its end", async () => {
    const place = newPlace();
    await place.enqueue("-c", "echo one; read -r word < pipe; echo two");
    await Bun.$`mkfifo ${place.folder}/pipe`;
    const worker = Bun.spawn([LEASE, "worker", "--once"], {
      cwd: place.folder,
      env: environment(place.env),
      stdout: "ignore",
      stderr: "ignore",
    });
    const live = new Live(place, ["1"]);
    await live.shows("│ one");
    await Bun.$`echo go > ${place.folder}/pipe`;
    await live.shows("│ two");
    await live.shows("Job 1  completed");
    live.press("q");
    expect(await live.ended()).toBe(0);
    expect(await worker.exited).toBe(0);
  });

  test("a job that is not there is told on the screen that people keep", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const live = new Live(place, ["7"]);
    expect(await live.ended()).toBe(1);
    expect(live.written).toBe("lease: there is no job 7\r\n");
  });

  test("one that can't move its cursor gets lines instead", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const live = new Live(place, ["jobs"], { cols: 80, rows: 20 }, { TERM: "dumb" });
    await until(() => live.written.includes("true"));
    live.signal("SIGINT");
    expect(await live.ended()).toBe(130);
    expect(live.written).not.toContain(ESCAPE);
  });
});

describe("in a pipe", () => {
  async function stream(place: Place, ...args: string[]) {
    const child = Bun.spawn([LEASE, "inspect", ...args, "--watch"], {
      cwd: place.folder,
      env: environment(place.env),
      stdout: "pipe",
      stderr: "inherit",
    });
    open.push(child);
    const seen = { text: "" };
    void (async () => {
      for await (const bytes of child.stdout) seen.text += new TextDecoder().decode(bytes);
    })();
    return { seen, child };
  }

  test("it is printed again when something has changed, with an empty line between", async () => {
    const place = newPlace();
    await place.enqueue("--delay", "1d", "--", "first");
    const { seen, child } = await stream(place, "jobs");
    await until(() => seen.text.includes("first"));
    await place.enqueue("--delay", "1d", "--", "second");
    await until(() => seen.text.includes("second"));
    child.kill("SIGINT");
    expect(await child.exited).toBe(130);
    const frames = seen.text.split("\n\n");
    expect(frames).toHaveLength(2);
    expect(frames[0]).not.toContain("second");
    expect(seen.text).not.toContain(ESCAPE);
  });

  test("--json follows a job, one object for each change", async () => {
    const place = newPlace();
    await place.enqueue("--delay", "1d", "--", "true");
    const { seen, child } = await stream(place, "1", "--json");
    await until(() => seen.text.includes('"scheduled"'));
    await place.lease("cancel", "1");
    await until(() => seen.text.includes('"cancelled"'));
    child.kill("SIGTERM");
    expect(await child.exited).toBe(143);
    const states = seen.text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => (JSON.parse(line) as { state: string }).state);
    expect(states).toEqual(["scheduled", "cancelled"]);
  });
});
