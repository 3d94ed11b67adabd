/** The locks of SQLite are those of the process: whoever looks into its files must not end them. */

import { expect, test } from "bun:test";
import { existsSync, readFileSync, statSync } from "node:fs";
import { LEASE, environment, until, usePlaces } from "../cli/lease.ts";

const newPlace = usePlaces();

/** By the kernel's own list: `1: POSIX ADVISORY READ 4711 fe:00:1234 128 128`. */
function locksOn(path: string, pid: number): string[] {
  const { ino } = statSync(path);
  return readFileSync("/proc/locks", "utf8")
    .split("\n")
    .filter((line) => line.includes(` ${pid} `) && line.includes(`:${ino} `));
}

test.if(existsSync("/proc/locks"))(
  "a worker keeps its lock on the index, by which others know that it is there",
  async () => {
    const place = newPlace();
    await place.enqueue("--queue", "other", "--", "true");
    await place.work("-q", "other");
    const worker = Bun.spawn([LEASE, "worker", "--log-format", "json"], {
      cwd: place.folder,
      env: environment(place.env),
      stdout: "ignore",
      stderr: "ignore",
    });
    try {
      // It registers once it is open.
      await until(
        () => place.rows<{ n: number }>("SELECT count(*) AS n FROM workers WHERE stopped_at_ms IS NULL")[0]?.n === 1,
      );
      expect(locksOn(`${place.store}-shm`, worker.pid)).not.toEqual([]);
      // So nobody takes itself for the first, and cuts it.
      for (let look = 0; look < 5; look++) expect(await place.lease("inspect", "1")).toMatchObject({ code: 0 });
      expect(locksOn(`${place.store}-shm`, worker.pid)).not.toEqual([]);
    } finally {
      worker.kill("SIGTERM");
      await worker.exited;
    }
  },
);
