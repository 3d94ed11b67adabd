/**
 * A store that is put back from a backup knows nothing of what was granted since, and counts tokens from where it was. What
 * ran in between is stopped before its job runs again, and what it says is refused, though its token is the current one.
 */

import { constants, Database } from "bun:sqlite";
import { describe, expect } from "bun:test";
import { copyFileSync, existsSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { BINARY, scenario, until, type Site } from "../support/process.ts";

const WAYS: [string, (backup: string, store: string) => void][] = [
  [
    "after all of it was removed",
    (backup, store) => {
      remove(store, "", "-wal", "-shm");
      copyFileSync(backup, store);
    },
  ],
  [
    "into the same file, and the log removed",
    (backup, store) => {
      copyFileSync(backup, store);
      remove(store, "-wal", "-shm");
    },
  ],
  [
    "by a rename, and the log removed",
    (backup, store) => {
      renameSync(backup, store);
      remove(store, "-wal", "-shm");
    },
  ],
];

function remove(store: string, ...suffixes: string[]): void {
  for (const suffix of suffixes) rmSync(store + suffix, { force: true });
}

/** Notes who runs, and goes on for as long as it is let. */
const JOB = (site: Site) =>
  `echo "$$ $LEASE_TOKEN $LEASE_STORE_ID" >> ${site.path("runs")}; while echo x; do sleep 0.1; done`;

const runsOf = (site: Site) =>
  site.lines("runs").map((line) => {
    const [pid = "", token = "", store_id = ""] = line.split(" ");
    return { pid: Number(pid), token, store_id };
  });

/** One that was killed may wait for whoever has become its parent. */
function lives({ pid }: { pid: number }): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

/** The store, a backup of it from before anything ran, and a job that was left running since by a worker that died. */
async function withOrphan(site: Site) {
  const [store, backup] = [site.path("back.db"), site.path("backup.db")];
  const lease = (command: string, ...words: string[]) => site.spawn([BINARY, command, "--store", store, ...words]);
  expect((await lease("enqueue", "--", "true").ended).code).toBe(0);
  expect((await lease("worker", "--until-empty").ended).code).toBe(0);
  expect((await lease("enqueue", "--lease", "10m", "--", "sh", "-c", JOB(site)).ended).code).toBe(0);
  const database = new Database(store);
  database.fileControl(constants.SQLITE_FCNTL_PERSIST_WAL, 1);
  database.run(`VACUUM INTO '${backup}'`);
  database.close();
  const first = lease("worker");
  const orphan = await until("the job runs", () => runsOf(site)[0]);
  await until("it is noted", async () => /pid/.test((await lease("inspect", "2", "--json").ended).stdout));
  await first.end("SIGKILL");
  return { store, backup, lease, orphan };
}

describe("a store that is put back from a backup", () => {
  for (const [how, restore] of WAYS) {
    scenario(`${how}: no two attempts with one token are accepted`, async (site) => {
      const { store, backup, lease, orphan } = await withOrphan(site);
      restore(backup, store);
      const second = lease("worker");
      const next = await until("the job runs again", () => runsOf(site)[1]);
      // Counted from where the backup was: the token is the same, and the life is not.
      expect(next.token).toBe(orphan.token);
      expect(next.store_id).not.toBe(orphan.store_id);
      expect(next.store_id.split("+")[0]).toBe(orphan.store_id.split("+")[0] as string);
      expect(lives(orphan)).toBe(false);
      const saidBy = ({ token, store_id }: { token: string; store_id: string }, ...words: string[]) =>
        site.spawn([BINARY, ...words], {
          env: { LEASE_STORE: store, LEASE_JOB_ID: "2", LEASE_TOKEN: token, LEASE_STORE_ID: store_id },
        }).ended;
      for (const words of [
        ["beat", "--message", "late"],
        ["checkpoint", "late"],
        ["guard", "--", "true"],
      ]) {
        const late = await saidBy(orphan, ...words);
        expect(late).toMatchObject({ code: 4, stderr: expect.stringContaining("put back to an earlier state") });
        expect(await saidBy(next, ...words.map((word) => word.replace("late", "in time")))).toMatchObject({ code: 0 });
      }
      const inspected = JSON.parse((await lease("inspect", "2", "--json").ended).stdout);
      expect(inspected).toMatchObject({ message: "in time" });
      expect(inspected.checkpoints.map(({ text }: { text: string }) => text)).not.toContain("late");
      expect((await lease("doctor").ended).stdout).toMatch(/restore +put back from a copy, noticed \d{4}-/);
      expect((await lease("cancel", "2").ended).code).toBe(0);
      expect((await second.end()).code).toBe(0);
    });
  }

  scenario("beside the log of the one that was there is refused, and nothing is mixed", async (site) => {
    const { store, backup, lease } = await withOrphan(site);
    const copy = `${backup}.2`;
    const age_ms = () => statSync(copy).birthtimeMs - statSync(`${store}-wal`).birthtimeMs;
    // Younger than a second they may have been copied together.
    await until("the copy is younger by more than a second", () => {
      rmSync(copy, { force: true });
      copyFileSync(backup, copy);
      return age_ms() > 1_000;
    });
    renameSync(copy, store);
    for (const words of [["enqueue", "--", "true"], ["worker", "--until-empty"], ["inspect"]] as const) {
      const answer = await lease(...(words as unknown as [string, ...string[]])).ended;
      expect(answer).toMatchObject({
        code: 125,
        stderr: expect.stringMatching(/log beside store \S+ belongs to another file: .*remove/),
      });
    }
    remove(store, "-wal", "-shm");
    expect((await lease("inspect").ended).code).toBe(0);
    // What is left of the other life goes when its job has its turn.
    const worker = lease("worker");
    await until("the job runs again", () => runsOf(site)[1]);
    expect((await lease("cancel", "2").ended).code).toBe(0);
    expect((await worker.end()).code).toBe(0);
  });

  scenario("under a running worker has that one stop its jobs, and keeps what is in it whole", async (site) => {
    const { store, backup, lease, orphan } = await withOrphan(site);
    const second = lease("worker");
    const next = await until("the job was recovered and runs again", () => runsOf(site)[1]);
    expect(next.token).toBe("2");
    copyFileSync(backup, store);
    remove(store, "-wal", "-shm");
    const { code, stderr } = await second.ended;
    expect({ code, stderr }).toMatchObject({ code: 125, stderr: expect.stringContaining("was deleted or replaced") });
    expect([orphan, next].filter(lives)).toEqual([]);
    const database = new Database(store);
    expect(database.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
    expect(database.query("SELECT state, token FROM jobs ORDER BY id").all()).toEqual([
      { state: "completed", token: 1 },
      { state: "pending", token: 0 },
    ]);
    database.close();
  });

  scenario("is not what happens when the log alone is deleted: what was acknowledged is saved", async (site) => {
    const store = site.path("back.db");
    const lease = (command: string, ...words: string[]) => site.spawn([BINARY, command, "--store", store, ...words]);
    const worker = lease("worker", "-q", "other");
    await until("the worker has it open", () => existsSync(`${store}-wal`));
    for (let n = 1; n <= 3; n++) expect((await lease("enqueue", "--", "true").ended).stdout).toBe(`${n}\n`);
    remove(store, "-wal");
    expect((await worker.ended).code).toBe(125);
    expect((await lease("worker", "--until-empty").ended).code).toBe(0);
    expect((await lease("inspect", "--json").ended).stdout).toContain('"completed":3');
  });
});
