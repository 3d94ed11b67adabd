/** A full disk: whoever asks is told, nothing that was acknowledged is lost, and it goes on when there is space again. */

import { describe, expect, test } from "bun:test";
import { closeSync, mkdtempSync, openSync, rmSync, rmdirSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inSite, until } from "../support/process.ts";
import type { Site } from "../support/process.ts";

const MIB = 1024 * 1024;

function mount(): string | null {
  const place = mkdtempSync(join(tmpdir(), "lease-disk-"));
  const { exitCode } = Bun.spawnSync(["mount", "-t", "tmpfs", "-o", `size=${16 * MIB},mode=700`, "tmpfs", place]);
  if (exitCode === 0) return place;
  rmdirSync(place);
  return null;
}

function unmount(place: string): void {
  // Lazily: the engine closes a file only when the last of its statements has been collected.
  Bun.spawnSync(["umount", "--lazy", place]);
  rmdirSync(place);
}

const first = mount();
if (first === null) console.warn("SKIPPED: test/chaos/disk.test.ts needs to mount a small tmpfs, which takes root");
else unmount(first);

/** A scenario whose store is on a small disk of its own. */
function onSmallDisk(title: string, body: (site: Site, disk: string) => Promise<void>): void {
  const run = async () => {
    const disk = mount();
    if (disk === null) throw new Error("a tmpfs could be mounted a moment ago, and now it can't");
    try {
      await inSite((site) => body(site, disk), disk);
    } finally {
      unmount(disk);
    }
  };
  test.concurrent.skipIf(first === null)(title, run, 30_000);
}

/** Writes until nothing fits any more; the returned function makes room again. */
function fill(disk: string): () => void {
  const path = join(disk, "ballast");
  const file = openSync(path, "w");
  const block = new Uint8Array(4096);
  try {
    for (;;) writeSync(file, block);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
  }
  closeSync(file);
  return () => rmSync(path);
}

describe("on a full disk", () => {
  onSmallDisk(
    "enqueue says so and exits with 125, and what it had acknowledged is there and runs",
    async (site, disk) => {
      await Bun.write(site.path("input"), "x".repeat(200 * 1024));
      await Bun.write(join(disk, "ballast"), new Uint8Array(11 * MIB));
      const acknowledged: number[] = [];
      const refused = await until("enqueue is refused", async () => {
        const ended = await site.run(["enqueue", "--input", "@input", "--", "wc", "-c"]);
        if (ended.code === 0) acknowledged.push(Number(ended.stdout));
        return ended.code === 0 ? null : ended;
      });
      expect(refused).toMatchObject({ code: 125, stdout: "" });
      expect(refused.stderr).toMatch(/^lease: .*the disk is full.*\n$/);
      expect(acknowledged.length).toBeGreaterThan(3);
      const queued = await site.store.list({ limit: 1_000, newest_first: false });
      expect(queued.map(({ id }) => id)).toEqual(acknowledged);

      rmSync(join(disk, "ballast"));
      acknowledged.push(await site.enqueue(["--input", "@input"], "wc", "-c"));
      expect(await site.worker("--until-empty").ended).toMatchObject({ code: 0 });
      for (const job of await site.store.jobs(acknowledged)) expect(job?.state.name).toBe("completed");
      for (const id of acknowledged) expect((await site.run(["logs", String(id)])).stdout.trim()).toBe("204800");
    },
  );

  onSmallDisk(
    "a store can't be made, which is told and leaves nothing that stands in the way later",
    async (site, disk) => {
      const free = fill(disk);
      const location = join(disk, "other.db");
      const refused = await site.spawn(["lease", "enqueue", "--store", location, "--", "true"]).ended;
      expect(refused).toMatchObject({ code: 125, stdout: "" });
      expect(refused.stderr).toMatch(/^lease: .*the disk is full.*\n$/);
      free();
      const { code, stdout } = await site.spawn(["lease", "enqueue", "--store", location, "--", "true"]).ended;
      expect({ code, stdout }).toEqual({ code: 0, stdout: "1\n" });
    },
  );

  onSmallDisk("a running job goes on, and its end is written when there is space again", async (site, disk) => {
    const id = await site.script(["--lease", "6s"], "until [ -e go ]; do echo tick; sleep 0.1; done; echo end");
    const worker = await site.workerReady("--lease", "6s");
    await site.childOf(id);
    const free = fill(disk);
    await worker.line(/could not be extended.*in a row/);
    await Bun.write(site.path("go"), "");
    await site.gone(id);
    await worker.line(/end could not be written, trying again/);
    free();
    const job = await site.reaches(id, "completed", { within_ms: 8_000 });
    expect(job).toMatchObject({ attempts: 1, exit_code: 0 });
    expect(job.history[0]).toMatchObject({ last_line: "end" });
    const { stdout } = await site.run(["logs", String(id)]);
    expect(stdout).toMatch(/^(tick\n)+end\n$/);
    expect((await worker.end()).code).toBe(0);
  });

  onSmallDisk("a worker waits for space before it takes the next job", async (site, disk) => {
    const id = await site.enqueue(["--delay", "1s"], "true");
    const worker = await site.workerReady();
    const free = fill(disk);
    await worker.line(/disk is full/);
    await Bun.sleep(500);
    expect(worker.over).toBe(false);
    free();
    expect(await site.reaches(id, "completed")).toMatchObject({ attempts: 1 });
    expect((await worker.end()).code).toBe(0);
  });

  onSmallDisk("a worker that can't even register says so and exits with 125", async (site, disk) => {
    const free = fill(disk);
    const { code, stderr } = await site.worker("--until-empty").ended;
    expect(code).toBe(125);
    expect(stderr).toMatch(/^lease: .*the disk is full.*\n$/);
    free();
  });

  onSmallDisk("a --log-dir that is full costs no job its run: the log in the store is whole", async (site) => {
    const logs = mount();
    if (logs === null) throw new Error("a second tmpfs can't be mounted");
    try {
      fill(logs);
      const id = await site.enqueue(["--lease", "5s", "--retries", "0"], "seq", "100000");
      const worker = site.worker("--until-empty", "--log-dir", logs);
      expect((await worker.ended).code).toBe(0);
      expect(await site.job(id)).toMatchObject({ state: "completed", attempts: 1 });
      expect((await site.run(["logs", String(id)])).stdout.length).toBe(588_895);
    } finally {
      unmount(logs);
    }
  });
});
