/** Many processes at once, and processes that die at any moment: what was acknowledged is there, once, and sound. */

import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { environment, LEASE, run, until, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();

const sound = (place: Place) => expect(place.rows("PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);

describe("many that enqueue at once", () => {
  test("4 × 250 processes get 1000 ids of their own, and every one is there", async () => {
    const place = newPlace();
    const script = 'n=0; while [ $n -lt 250 ]; do "$0" enqueue -q "$1" -- echo "$n" || exit 1; n=$((n+1)); done';
    const options = { cwd: place.folder, env: place.env, within_ms: 120_000 };
    const answers = await Promise.all(
      ["a", "b", "c", "d"].map((queue) => run(["sh", "-c", script, LEASE, queue], options)),
    );
    expect(answers.map(({ code, stderr }) => ({ code, stderr }))).toEqual(answers.map(() => ({ code: 0, stderr: "" })));
    const ids = answers.flatMap(({ stdout }) => stdout.trim().split("\n").map(Number));
    expect(ids.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 1_000 }, (_, index) => index + 1));
    const jobs = place.rows<{ queue: string; jobs: number; words: number }>(
      "SELECT queue, count(*) AS jobs, count(DISTINCT argv) AS words FROM jobs GROUP BY queue ORDER BY queue",
    );
    expect(jobs).toEqual(["a", "b", "c", "d"].map((queue) => ({ queue, jobs: 250, words: 250 })));
    sound(place);
  }, 120_000);

  test("find the same store when none was there before", async () => {
    for (let round = 0; round < 10; round++) {
      const place = newPlace();
      const answers = await Promise.all(Array.from({ length: 8 }, () => place.lease("enqueue", "--", "true")));
      expect(answers.map(({ stderr }) => stderr)).toEqual(answers.map(() => ""));
      expect(answers.map(({ stdout }) => Number(stdout)).toSorted()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    }
  });

  test("with the same key leave one job", async () => {
    const place = newPlace();
    const answers = await Promise.all(
      Array.from({ length: 16 }, () => place.lease("enqueue", "-k", "K", "--", "true")),
    );
    expect(answers).toEqual(answers.map(() => ({ code: 0, stdout: "1\n", stderr: "" })));
    expect(place.rows("SELECT count(*) AS jobs FROM jobs")).toEqual([{ jobs: 1 }]);
  });
});

describe("a store that somebody has locked", () => {
  test("lets an enqueue wait for its turn, and readers read", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const stuck = new Database(place.store);
    stuck.run("BEGIN EXCLUSIVE");
    const child = Bun.spawn([LEASE, "enqueue", "--", "true"], {
      cwd: place.folder,
      env: environment(place.env),
      stdout: "pipe",
    });
    // It has opened the store, and can only be waiting.
    await until(() => hasMapped(child.pid, `${place.store}-shm`));
    expect(await place.inspect(1)).toMatchObject({ state: "pending" });
    expect(child.exitCode).toBeNull();
    stuck.run("ROLLBACK");
    stuck.close();
    expect(await child.stdout.text()).toBe("2\n");
    expect(await child.exited).toBe(0);
  });
});

describe("an enqueue that is killed at any moment", () => {
  /** Kills each process a little later in its life than the one before. */
  async function killed(
    count: number,
    longest_ms: number,
    start: (n: number) => Bun.Subprocess<"ignore", "pipe", "ignore">,
  ) {
    const outputs: string[] = [];
    const one = async (n: number) => {
      const child = start(n);
      const timer = setTimeout(() => child.kill("SIGKILL"), (longest_ms * n) / count);
      outputs.push(await child.stdout.text());
      await child.exited;
      clearTimeout(timer);
    };
    for (let n = 0; n < count; n += 4) await Promise.all([n, n + 1, n + 2, n + 3].map(one));
    return outputs;
  }

  const enqueue = (place: Place) =>
    Bun.spawn([LEASE, "enqueue", "--input", "x".repeat(20_000), "--", "true"], {
      cwd: place.folder,
      env: environment(place.env),
      stdio: ["ignore", "pipe", "ignore"],
    });

  test("has either not happened or is there: every id that was printed exists, and the store is sound", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const outputs: string[] = [];
    // How long one takes depends on what else goes on here: the moments spread until some are on either side of a commit.
    for (let longest_ms = 30; longest_ms < 2_000 && !outputs.some(Boolean); longest_ms *= 2)
      outputs.push(...(await killed(200, longest_ms, () => enqueue(place))));
    const printed = outputs.join("").trim().split("\n").map(Number);
    const stored = place.rows<{ id: number }>("SELECT id FROM jobs").map(({ id }) => id);
    expect(printed.filter((id) => !stored.includes(id))).toEqual([]);
    expect(new Set(printed).size).toBe(printed.length);
    expect(printed.length).toBeWithin(1, outputs.length);
    expect(place.rows("SELECT count(*) AS jobs FROM inputs")).toEqual([{ jobs: stored.length - 1 }]);
    sound(place);
    expect(await place.enqueue("--", "true")).toBeGreaterThan(Math.max(...stored));
  });

  test("while it makes the store leaves one that the next can use", async () => {
    const places = Array.from({ length: 60 }, () => newPlace());
    await killed(60, 20, (n) => enqueue(places[n] as Place));
    const answers = await Promise.all(places.map((place) => place.lease("enqueue", "--", "true")));
    expect(answers.filter(({ code, stderr }) => code !== 0 || stderr !== "")).toEqual([]);
    for (const place of places) sound(place);
  });
});

/** The shared memory stays mapped while a store is open, whatever files come and go. */
function hasMapped(pid: number, path: string): boolean {
  try {
    return readFileSync(join("/proc", String(pid), "maps"), "utf8").includes(path);
  } catch {
    return false;
  }
}
