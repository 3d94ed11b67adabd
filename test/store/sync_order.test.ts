/**
 * What was told to be done is on disk by then: seen in the system calls, the sync comes before the answer. When a store is
 * made, so does that of its folder and of the folders above it that were made for it: else a power failure could take
 * the file away with all that was synced into it.
 */

import { describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";

const LEASE = resolve(process.env["LEASE_BIN"] ?? join(import.meta.dir, "../../dist/lease"));
const SOURCE = join(import.meta.dir, "../../src/main.ts");
const STRACE = Bun.which("strace");
/** What says nothing answers by how it ends. */
const ENDS_WELL = /^0\)/;
const CALLS = "trace=exit_group,write,writev,pwrite64,pwritev,fsync,fdatasync,mkdir,mkdirat,openat";
const TIMEOUT_MS = 60_000;

interface Call {
  name: string;
  /** Of the file that it is about, without the store's folder. */
  path: string;
  text: string;
}

/** The calls of a command, in order, up to where it says what is in `answer`. */
function traced(
  folder: string,
  command: readonly string[],
  answer: RegExp,
  env: Record<string, string> = {},
): { before: Call[]; said: boolean } {
  const log = join(folder, "trace");
  const { stderr } = Bun.spawnSync([STRACE ?? "strace", "-f", "-y", "-e", CALLS, "-o", log, ...command], {
    cwd: folder,
    env: { ...process.env, ...env },
  });
  const calls = readFileSync(log, "utf8")
    .split("\n")
    .flatMap((line): Call[] => {
      const match = /^\d+ +(\w+)\((?:\d+<([^>]*)>|[^"]*"([^"]*)"|(?=\d))(.*)/.exec(line);
      return match === null ? [] : [{ name: match[1]!, path: match[2] ?? match[3] ?? "", text: match[4]! }];
    });
  const said = calls.findIndex(({ name, text }) => /^(?:write|exit_group)/.test(name) && answer.test(text));
  if (said < 0) console.error(stderr.toString());
  return { before: calls.slice(0, said < 0 ? undefined : said), said: said >= 0 };
}

const isSync = ({ name }: Call) => name === "fsync" || name === "fdatasync";

/**
 * Whether the WAL was written and not synced since. As long as it is there it outranks what a command copies from it into
 * the database when it ends, so that copy need not be synced.
 */
function isUnsynced(calls: readonly Call[], store: string): boolean {
  const of_wal = calls.filter(({ path, name }) => path === `${store}-wal` && name !== "openat");
  return of_wal.length === 0 || !isSync(of_wal.at(-1)!);
}

/** Whether a folder was synced behind the making of what is in it. */
function isNamed(calls: readonly Call[], folder: string, name: string): boolean {
  const path = join(folder, name);
  const made = calls.findIndex(
    (call) => call.path === path && (call.name.startsWith("mkdir") || call.text.includes("O_CREAT")),
  );
  return made >= 0 && calls.slice(made).some((call) => isSync(call) && call.path === folder);
}

const KINDS: [string, string[]][] = [["from source", [process.execPath, SOURCE]]];
if (existsSync(LEASE)) KINDS.push(["compiled", [LEASE]]);
else console.warn("SKIPPED: the order of syncs and answers of the compiled lease; build it first");

/** The whole command looks for files that it has open; a plain line has no time for that. */
const isWhole = (calls: readonly Call[]) => calls.some(({ path }) => path === "/proc/self/fd");

describe.each(KINDS)("what was said to be done is on disk (%s)", (kind, lease) => {
  const check = STRACE === null ? test.skip : test;
  if (STRACE === null) console.warn("SKIPPED: the order of syncs and answers is not tried; install strace");

  const inFolder = (work: (folder: string) => void) => () => {
    const folder = mkdtempSync(join(tmpdir(), "lease-sync-"));
    try {
      work(folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  };

  check(
    "an id is printed when its commit, the file, its folder and the folders made for it are synced",
    inFolder((folder) => {
      const store = join(folder, "a", "b", "lease.db");
      const enqueue = [...lease, "enqueue", "--store", store, "--", "true"];
      const { before, said } = traced(folder, enqueue, /"1\\n"/);
      expect(said).toBe(true);
      expect(isUnsynced(before, store)).toBe(false);
      expect(before.some((call) => isSync(call) && call.path === store)).toBe(true);
      expect(isNamed(before, join(folder, "a", "b"), "lease.db")).toBe(true);
      expect(isNamed(before, join(folder, "a", "b"), "lease.db-wal")).toBe(true);
      expect(isNamed(before, join(folder, "a"), "b")).toBe(true);
      expect(isNamed(before, folder, "a")).toBe(true);
    }),
    TIMEOUT_MS,
  );

  check(
    "so is each one behind it, a whole bulk, and what a person was told of a job",
    inFolder((folder) => {
      const store = join(folder, "lease.db");
      const run = (...words: string[]) => [...lease, ...words, "--store", store];
      Bun.spawnSync([...lease, "enqueue", "--store", store, "--", "true"]);
      writeFileSync(join(folder, "jobs"), '{"argv":["true"]}\n{"argv":["true"]}\n');
      const commands: [string[], RegExp, is_plain?: true][] = [
        [[...lease, "enqueue", "--store", store, "--", "true"], /"2\\n"/, true],
        [[...lease, "enqueue", "--store", store, "-c", "true | true"], /"3\\n"/, true],
        [[...lease, "enqueue", "--store", store, "--after", "1", "--", "true"], /"4\\n"/, true],
        [[...lease, "enqueue", "--store", store, "--retry-on", "lost", "--", "true"], /"5\\n"/],
        [run("enqueue", "--from", join(folder, "jobs")), /"6[\\n-]/],
        [run("cancel", "1"), /"(job )?1|cancelled/],
      ];
      for (const [command, answer, is_plain] of commands) {
        const { before, said } = traced(folder, command, answer);
        expect({ command, said }).toEqual({ command, said: true });
        expect(isUnsynced(before, store)).toBe(false);
        expect({ command, whole: isWhole(before) }).toEqual({ command, whole: !is_plain || kind !== "compiled" });
      }
    }),
    TIMEOUT_MS,
  );

  check(
    "so is what a job says of itself",
    async () => {
      const folder = mkdtempSync(join(tmpdir(), "lease-sync-"));
      try {
        const path = join(folder, "lease.db");
        Bun.spawnSync([...lease, "enqueue", "--store", path, "--", "true"]);
        const store = await openSqlite(path, { clock: systemClock, random: systemRandom });
        const holder = { holder: "test", host: "test", lease_ms: 3_600_000, queues: null, task: null, count: 1 };
        const [grant] = await store.acquire(holder);
        const env = { LEASE_JOB_ID: "1", LEASE_TOKEN: String(grant?.job.token), LEASE_STORE_ID: await store.storeId() };
        await store.close({ exiting: true });
        for (const words of [
          ["beat", "--store", path, "--progress", "40"],
          ["checkpoint", "--store", path, "page 7"],
        ]) {
          const { before, said } = traced(folder, [...lease, ...words], ENDS_WELL, env);
          expect({ words, said }).toEqual({ words, said: true });
          expect(isUnsynced(before, path)).toBe(false);
          expect({ words, whole: isWhole(before) }).toEqual({ words, whole: kind !== "compiled" });
        }
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    },
    TIMEOUT_MS,
  );
});
