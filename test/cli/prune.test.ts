/** `lease prune`: what goes, what stays, and when nothing does. */

import { describe, expect, test } from "bun:test";
import { environment, expectRefusal, LEASE, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();

/** Jobs 1 to 5: completed, failed (task T), cancelled, completed (queue mail), pending. */
async function some(): Promise<Place> {
  const place = newPlace();
  await place.enqueue("-c", "echo printed");
  await place.enqueue("-t", "T", "--retries", "0", "--", "false");
  await place.enqueue("--delay", "1h", "--", "true");
  await place.lease("cancel", "3");
  await place.enqueue("-q", "mail", "--", "true");
  await place.work("-q", "*");
  await place.enqueue("--", "true");
  return place;
}

const ids = (place: Place) => place.rows<{ id: number }>("SELECT id FROM jobs ORDER BY id").map(({ id }) => id);

describe("lease prune", () => {
  test.each<[string[], number[]]>([
    [["--older-than", "0"], [5]],
    [
      ["--older-than", "1h"],
      [1, 2, 3, 4, 5],
    ],
    [
      ["--status", "completed"],
      [2, 3, 5],
    ],
    [
      ["--status", "failed,cancelled", "--older-than", "0"],
      [1, 4, 5],
    ],
    [
      ["--queue", "mail"],
      [1, 2, 3, 5],
    ],
    [
      ["-t", "T"],
      [1, 3, 4, 5],
    ],
    [
      ["-t", "T", "--status", "completed"],
      [1, 2, 3, 4, 5],
    ],
  ])("%p leaves %p", async (args, left) => {
    const place = await some();
    const gone = 5 - left.length;
    expect(await place.lease("prune", ...args, "--yes")).toEqual({
      code: 0,
      stdout: `${gone} ${gone === 1 ? "job" : "jobs"} deleted\n`,
      stderr: "",
    });
    expect(ids(place)).toEqual(left);
  });

  test("takes along all that belongs to a job", async () => {
    const place = await some();
    await place.lease("prune", "--older-than", "0", "--yes");
    const left = place.rows(`SELECT (SELECT count(*) FROM attempts) AS attempts, (SELECT count(*) FROM logs) AS logs,
      (SELECT count(*) FROM checkpoints) AS checkpoints`);
    expect(left).toEqual([{ attempts: 0, logs: 0, checkpoints: 0 }]);
    expect(place.rows("PRAGMA foreign_key_check")).toEqual([]);
  });

  test("goes on until all are gone, however many there are", async () => {
    const place = await some();
    place.rows(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1203)
      INSERT INTO jobs (state, queue, priority, run_at_ms, retries, created_at_ms, finished_at_ms, argv, cwd)
      SELECT 'cancelled', 'old', 0, 0, 3, 0, 0, '["true"]', '/' FROM n`);
    expect(await place.lease("prune", "-q", "old", "--yes")).toMatchObject({ stdout: "1203 jobs deleted\n" });
    expect(ids(place)).toEqual([1, 2, 3, 4, 5]);
  });

  test("where nobody is at a terminal, as in cron, needs no --yes", async () => {
    const place = await some();
    expect(await place.lease("prune", "--older-than", "0")).toMatchObject({ code: 0, stdout: "4 jobs deleted\n" });
  });

  test("--dry-run tells what would go", async () => {
    const place = await some();
    expect(await place.lease("prune", "--older-than", "0", "--dry-run")).toEqual({
      code: 0,
      stdout: "would delete 4 jobs (2 completed, 1 failed, 1 cancelled); --yes does it\n",
      stderr: "",
    });
    expect(await place.lease("prune", "--older-than", "1d", "-n")).toMatchObject({ stdout: "nothing to delete\n" });
    expect(ids(place)).toEqual([1, 2, 3, 4, 5]);
  });

  test("at a terminal only tells, unless it is told --yes", async () => {
    const place = await some();
    const atTerminal = async (...args: string[]) => {
      let screen = "";
      const closed = Promise.withResolvers<void>();
      const child = Bun.spawn([LEASE, "prune", ...args], {
        cwd: place.folder,
        env: environment(place.env),
        terminal: {
          data: (_terminal, bytes) => {
            screen += new TextDecoder().decode(bytes);
          },
          exit: () => closed.resolve(),
        },
      });
      await child.exited;
      await closed.promise;
      return screen;
    };
    expect(await atTerminal("--status", "failed")).toBe("would delete 1 job (1 failed); --yes does it\r\n");
    expect(ids(place)).toEqual([1, 2, 3, 4, 5]);
    expect(await atTerminal("--status", "failed", "-y")).toBe("1 job deleted\r\n");
    expect(ids(place)).toEqual([1, 3, 4, 5]);
  });

  test("--json has the counts, and how many went", async () => {
    const place = await some();
    const json = async (...args: string[]) =>
      JSON.parse((await place.lease("prune", ...args, "--json")).stdout) as unknown;
    expect(await json("--older-than", "0", "--dry-run")).toEqual({
      schema: 1,
      dry_run: true,
      completed: 2,
      failed: 1,
      cancelled: 1,
      deleted: 0,
    });
    expect(await json("--status", "failed")).toMatchObject({ dry_run: false, completed: 0, failed: 1, deleted: 1 });
  });

  test("never takes everything by accident, and refuses what it does not understand", async () => {
    const place = await some();
    expectRefusal(await place.lease("prune"), 2, "prune what?");
    expectRefusal(await place.lease("prune", "--yes"), 2, "prune what?");
    expectRefusal(await place.lease("prune", "--older-than", "old"), 2, '--older-than "old" is not a duration');
    expectRefusal(await place.lease("prune", "--older-than", "-1d"), 2, "negative");
    expectRefusal(await place.lease("prune", "--status", "running"), 2, "use completed, failed, cancelled");
    expectRefusal(await place.lease("prune", "--older-than", "0", "--yes", "--dry-run"), 2, "not both");
    expectRefusal(await place.lease("prune", "7"), 2, "takes no words");
    expect(ids(place)).toEqual([1, 2, 3, 4, 5]);
  });
});
