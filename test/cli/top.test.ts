/** `lease top` in a real terminal: what is shown at any size, and what its keys do. */

import { afterEach, describe, expect, test } from "bun:test";
import { environment, LEASE, until, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();
const open: { kill: (signal: "SIGKILL") => void }[] = [];
afterEach(() => {
  for (const child of open.splice(0)) child.kill("SIGKILL");
});

/** The last picture that was drawn. */
function top(place: Place, cols: number, rows: number, env: Record<string, string> = {}) {
  let raw = "";
  const data = (_: unknown, bytes: Uint8Array) => void (raw += Buffer.from(bytes));
  const all = environment({ TERM: "xterm", ...place.env, ...env });
  const child = Bun.spawn([LEASE, "top"], { cwd: place.folder, env: all, terminal: { cols, rows, data } });
  open.push(child);
  const picture = () => raw.slice(raw.lastIndexOf("\u001b[H") + 3);
  const lines = () => Bun.stripANSI(picture()).split("\r\n");
  const shows = (text: string) => until(() => lines().join("\n").includes(text));
  return { child, lines, shows, raw: () => raw, press: (keys: string) => void child.terminal?.write(keys) };
}

async function somePlace(): Promise<Place> {
  const place = newPlace();
  await place.enqueue("--retries", "0", "-c", "echo bad magic number >&2; exit 3");
  await place.work();
  await place.enqueue("-q", "gpu", "--", "./train.sh", "--epochs", "9");
  await place.enqueue("-q", "mail", "--", "./send.sh", "bob@example.com");
  return place;
}

describe("lease top", () => {
  test.each([
    [40, 12],
    [80, 24],
    [200, 60],
  ])("fits into %d columns and %d rows", async (cols, rows) => {
    const place = await somePlace();
    const { child, lines, shows, press } = top(place, cols, rows);
    await shows("pending");
    expect(lines().filter((line) => Bun.stringWidth(line) > cols)).toEqual([]);
    expect(lines().length).toBeLessThanOrEqual(rows);
    await shows("./send.sh");
    press("q");
    expect(await child.exited).toBe(0);
  });

  test("shows why a job waits, filters by any text, and has the log of one", async () => {
    const place = await somePlace();
    const { child, lines, shows, press } = top(place, 110, 20);
    await shows("no worker serves queue gpu");
    press("6/magic");
    await shows("/magic");
    await until(() => lines().some((line) => line.includes("failed")) && !lines().join("").includes("train.sh"));
    press("\r\r");
    await shows("job 1 failed");
    await shows("bad magic number");
    press("\u001b");
    await shows("[all]");
    press("q");
    expect(await child.exited).toBe(0);
  });

  test("raises, pauses, cancels and runs again, asking where it can't be taken back", async () => {
    const place = await somePlace();
    const { child, shows, press } = top(place, 110, 20);
    await shows("train.sh");
    press("j+");
    await shows("job 2 has priority 10");
    press("p");
    await shows("queue gpu is paused");
    press("cn");
    press("c");
    await shows("cancel job 2? y/n");
    press("y");
    await shows("job 2 cancelled");
    expect((await place.inspect(2)).state).toBe("cancelled");
    press("4");
    await shows("[failed]");
    press("r");
    await shows("run job 1 again? y/n");
    press("y");
    await shows("job 1 pending");
    press("\u0003");
    expect(await child.exited).toBe(130);
  });

  test("says in words what can't be done, and offers nothing that can't", async () => {
    const place = newPlace();
    await place.enqueue("--key", "k", "--retries", "0", "--", "false");
    await place.work();
    await place.enqueue("--key", "k", "--", "true");
    const { child, shows, press } = top(place, 40, 12);
    await shows("pending");
    press("4");
    await shows("[failed]");
    press("c");
    await shows("job 1 has ended");
    press("r");
    await shows("run job 1 again? y/n");
    press("y");
    await shows("job 1 can't run again while another");
    press("q");
    expect(await child.exited).toBe(0);
  });

  test("leaves no room beside ids that are short", async () => {
    const place = newPlace();
    await place.enqueue("--", "./twenty-letters-long");
    const { child, lines, shows, press } = top(place, 46, 12);
    await shows("./twenty-letters-long");
    expect(lines()[2]).toStartWith("  ID STATE");
    press("q");
    expect(await child.exited).toBe(0);
  });

  test("has no colours with NO_COLOR, and gives the terminal back as it was", async () => {
    const place = await somePlace();
    const { child, raw, shows, press } = top(place, 80, 24, { NO_COLOR: "1" });
    await shows("pending");
    press("q");
    await child.exited;
    expect(raw()).not.toContain("\u001b[3");
    expect(raw()).toContain("\u001b[?1049l");
  });

  test("is what lease inspect prints where nobody can press a key", async () => {
    const place = await somePlace();
    const { code, stdout } = await place.lease("top");
    expect(code).toBe(0);
    expect(stdout).toBe((await place.lease("inspect")).stdout);
  });
});
