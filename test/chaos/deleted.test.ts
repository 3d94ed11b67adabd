/**
 * A store that is deleted or replaced while it is in use, its log as well: whoever has it open must not go on with files
 * that nobody else can see. Workers kill their jobs, because others may be given them.
 */

import { describe, expect } from "bun:test";
import { copyFileSync, existsSync, linkSync, readdirSync, readlinkSync, renameSync, rmSync } from "node:fs";
import { BINARY, scenario, until, type Program, type Site } from "../support/process.ts";

const REPLACED = /\nlease: store \S+gone\.db was deleted or replaced .*: start again to use what is there now\n$/;
/** It is to be noticed within a second; the rest is for a machine that does a lot else. */
const SOON_MS = 4_000;

const WAYS: [string, (store: string) => void][] = [
  ["deleted with all that is beside it", (store) => remove(store, "", "-wal", "-shm")],
  ["deleted by itself", (store) => remove(store, "")],
  ["left without its log", (store) => remove(store, "-wal")],
  ["left without its shared memory", (store) => remove(store, "-shm")],
  [
    "replaced by an older copy",
    (store) => {
      copyFileSync(store, `${store}.old`);
      renameSync(`${store}.old`, store);
    },
  ],
];

function remove(store: string, ...suffixes: string[]): void {
  for (const suffix of suffixes) rmSync(store + suffix, { force: true });
}

async function endsSoon(program: Program, since_ms: number) {
  const ended = await program.ended;
  expect(performance.now() - since_ms).toBeLessThan(SOON_MS);
  expect({ words: program.words[1], code: ended.code, stderr: ended.stderr }).toMatchObject({ code: 125 });
  return `\n${ended.stderr}`;
}

/** A store that may go, beside the site's own. */
function victim(site: Site) {
  const store = site.path("gone.db");
  return {
    store,
    lease: (command: string, ...words: string[]) => site.spawn([BINARY, command, "--store", store, ...words]),
  };
}

/** And listens: what happens to a store while it is being opened is another story. */
async function hasOpened(program: Program, store: string): Promise<void> {
  const files = () => {
    if (program.over) throw new Error(`${program.words.join(" ")} ended: ${program.stderr}`);
    return readdirSync(`/proc/${program.pid}/fd`).map((fd) => linkOf(`/proc/${program.pid}/fd/${fd}`));
  };
  await until(`${program.words[1]} has opened the store`, () => {
    const open = files();
    return open.includes(`${store}-wal`) && open.includes("anon_inode:inotify");
  });
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

const isAlive = (pid: number): boolean => existsSync(`/proc/${pid}`);

describe("a store that is not there any more", () => {
  for (const [how, spoil] of WAYS) {
    scenario(`${how}: its worker kills its jobs and exits with 125 and what to do`, async (site) => {
      const { store, lease } = victim(site);
      const script = `echo $$ > ${site.path("pid")}; echo go; exec sleep 1000`;
      expect((await lease("enqueue", "--lease", "10m", "-c", script).ended).code).toBe(0);
      // Nothing is asked of the store by a worker whose slots are full, and hardly anything by its poll.
      const worker = lease("worker", "--poll", "10m");
      const pid = await until("the job runs", () => Number(site.text("pid")) || undefined);
      spoil(store);
      const stderr = await endsSoon(worker, performance.now());
      expect(stderr).toMatch(/job 1: lost its lease \(store \S+ was deleted or replaced .*\); killing it\n/);
      expect(stderr).toMatch(REPLACED);
      expect(isAlive(pid)).toBe(false);
    });
  }

  scenario("has everybody else who stays end with 125 as well", async (site) => {
    const { store, lease } = victim(site);
    expect((await lease("enqueue", "-q", "nobody", "--", "true").ended).code).toBe(0);
    const roles = [
      lease("worker", "--poll", "10m"),
      lease("watchdog", "--every", "10m"),
      lease("wait", "1"),
      lease("logs", "-f", "1"),
      lease("inspect", "--watch"),
      lease("run", "--lease", "10m", "-c", `echo $$ > ${site.path("pid")}; exec sleep 1000`),
    ];
    const pid = await until("the job of run runs", () => Number(site.text("pid")) || undefined);
    for (const role of roles) await hasOpened(role, store);
    remove(store, "", "-wal", "-shm");
    const since_ms = performance.now();
    for (const role of roles) expect(await endsSoon(role, since_ms)).toMatch(REPLACED);
    expect(isAlive(pid)).toBe(false);
  });

  scenario("is not confused with one that got a second name, which nobody can use", async (site) => {
    const worker = await site.workerReady();
    const second = `${site.location}.second`;
    linkSync(site.location, second);
    const refused = await site.spawn([BINARY, "enqueue", "--store", second, "--", "true"]).ended;
    expect(refused).toMatchObject({ code: 125, stderr: expect.stringContaining("has 2 names") });
    rmSync(second);
    await site.reaches(await site.enqueue([], "true"), "completed");
    expect((await worker.end()).code).toBe(0);
  });
});
