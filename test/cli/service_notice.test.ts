/** What a worker tells a service manager, heard at a real socket: that it is ready, what it does, that it is not frozen. */

import { afterEach, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { environment, LEASE, until, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();
const LISTENER = join(import.meta.dir, "../support/datagrams.ts");
const open: Bun.Subprocess[] = [];
afterEach(async () => {
  for (const child of open) child.kill("SIGKILL");
  await Promise.all(open.splice(0).map((child) => child.exited));
});

/** A manager that listens at `address`; `heard` are its messages so far. */
async function manager(address: string) {
  const child = Bun.spawn([process.execPath, LISTENER, address], { stdout: "pipe", stderr: "inherit" });
  open.push(child);
  let text = "";
  void (async () => {
    for await (const bytes of child.stdout) text += Buffer.from(bytes).toString();
  })();
  const lines = () => text.split("\n").filter((line) => line.startsWith('"'));
  await until(() => text.startsWith("listening"));
  const heard = () => lines().map((line) => JSON.parse(line) as string);
  return { heard, beats: () => heard().filter((message) => message === "WATCHDOG=1").length };
}

function worker(place: Place, env: Record<string, string>, ...args: string[]) {
  const child = Bun.spawn([LEASE, "worker", "--poll", "20ms", ...args], {
    cwd: place.folder,
    env: environment({ ...place.env, ...env }),
    stdout: "ignore",
    stderr: "ignore",
  });
  open.push(child);
  return child;
}

const GO = "while [ ! -e go ]; do sleep 0.02; done";

describe.each(["a path", "a name without a file"])("a worker whose manager listens at %s", (kind) => {
  const addressOf = (place: Place) => (kind === "a path" ? join(place.folder, "notify") : `@lease-${place.folder}`);

  test("says that it is ready, and that it stops while its job may still end", async () => {
    const place = newPlace();
    await place.enqueue("-q", "mail", "-c", `touch began; ${GO}`);
    const { heard } = await manager(addressOf(place));
    const child = worker(place, { NOTIFY_SOCKET: addressOf(place) }, "-q", "mail");
    await until(() => heard().length > 0);
    expect(heard()[0]).toMatch(/^READY=1\nSTATUS=serves mail: \d running, 0 done, 0 failed$/);
    await until(() => Bun.spawnSync(["test", "-e", join(place.folder, "began")]).exitCode === 0);
    child.kill("SIGTERM");
    await until(() => heard().includes("STOPPING=1\nSTATUS=stops: 1 running, 0 done, 0 failed"));
    writeFileSync(join(place.folder, "go"), "");
    expect(await child.exited).toBe(0);
    expect((await place.inspect(1)).state).toBe("completed");
  });
});

describe("a manager that wants to know whether a worker is frozen", () => {
  const WATCHDOG = { WATCHDOG_USEC: "300000" };

  test("hears of one that is busy, and nothing of one that is frozen", async () => {
    const place = newPlace();
    const address = join(place.folder, "notify");
    const { heard, beats } = await manager(address);
    for (let flood = 0; flood < 3; flood++) await place.enqueue("-c", "yes flood");
    const child = worker(place, { NOTIFY_SOCKET: address, ...WATCHDOG }, "-j", "3");
    await until(() => heard().length > 0);
    // Three per deadline; busy with all that the jobs print it may leave out one or two, but not a whole deadline's.
    const ready_at = performance.now();
    await until(() => beats() >= 10);
    expect(performance.now() - ready_at).toBeLessThan(10 * 300);
    child.kill("SIGSTOP");
    await until(() => readFileSync(`/proc/${child.pid}/stat`, "latin1").includes(") T "));
    const elsewhere = newPlace();
    const other = await manager(join(elsewhere.folder, "notify"));
    worker(elsewhere, { NOTIFY_SOCKET: join(elsewhere.folder, "notify"), ...WATCHDOG });
    await until(() => other.beats() > 0);
    const frozen_at = beats();
    // In the time in which a worker that is not frozen says so often enough for two deadlines.
    await until(() => other.beats() > 6);
    expect(beats()).toBe(frozen_at);
    child.kill("SIGCONT");
    await until(() => beats() > frozen_at);
  });

  test("hears nothing when it means another process", async () => {
    const place = newPlace();
    const address = join(place.folder, "notify");
    const { heard, beats } = await manager(address);
    const env = { NOTIFY_SOCKET: address, WATCHDOG_USEC: "30000", WATCHDOG_PID: "1" };
    await place.enqueue("--", "sleep", "0.3");
    await worker(place, env, "--until-empty").exited;
    expect(heard()[0]).toStartWith("READY=1");
    expect(beats()).toBe(0);
  });
});

describe("the variables of a service", () => {
  test("are not for its jobs", async () => {
    const place = newPlace();
    const address = join(place.folder, "notify");
    await manager(address);
    const id = await place.enqueue("-c", 'echo "[$NOTIFY_SOCKET$WATCHDOG_USEC$WATCHDOG_PID]"');
    await worker(place, { NOTIFY_SOCKET: address, WATCHDOG_USEC: "60000000", WATCHDOG_PID: "1" }, "--until-empty")
      .exited;
    expect(await place.log(id)).toBe("[]\n");
  });

  test("change nothing when nobody listens there, or it is no address", async () => {
    const place = newPlace();
    for (const address of [join(place.folder, "nobody"), "nonsense", `/${"x".repeat(300)}`]) {
      const id = await place.enqueue("--", "true");
      expect(await worker(place, { NOTIFY_SOCKET: address, WATCHDOG_USEC: "junk" }, "--until-empty").exited).toBe(0);
      expect((await place.inspect(id)).state).toBe("completed");
    }
  });
});
