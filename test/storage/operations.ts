/** What commands do to the files of a store, each with what has to be there. */

import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { BINARY } from "../support/process.ts";
import type { Operation } from "./inject.ts";

const STORE_FILES = ["lease.db", "lease.db-wal", "lease.db-shm", "lease.db-journal"];
/** The folder too: it is synced when a store is made. */
const ALL_FILES = [...STORE_FILES, "."];

function lease(folder: string, ...words: string[]): void {
  const { exitCode, stderr } = Bun.spawnSync([BINARY, ...words], {
    cwd: folder,
    env: { ...process.env, NO_COLOR: "1" },
  });
  if (exitCode !== 0 && exitCode !== 1) throw new Error(`lease ${words.join(" ")}: ${stderr.toString()}`);
}

/** So many jobs have been acknowledged in it. */
export const IN_STORE = 16;
const FINISHED = 6;

function store(folder: string): void {
  const numbers = (count: number) => Array.from({ length: count }, (_, index) => String(index)).join("\n");
  writeFileSync(join(folder, "numbers"), numbers(FINISHED));
  writeFileSync(join(folder, "more"), numbers(IN_STORE - FINISHED));
  lease(folder, "enqueue", "--store", "lease.db", "--from", "numbers", "--lines", "--", "echo", "{}");
  lease(folder, "worker", "--store", "lease.db", "--until-empty", "-j", "2");
  lease(folder, "enqueue", "--store", "lease.db", "--from", "more", "--lines", "--", "echo", "{}");
}

const MANY = 400;

export const OPERATIONS: readonly Operation[] = [
  {
    name: "the first enqueue, which makes the store",
    prepare: () => {},
    words: ["enqueue", "--store", "lease.db", "--", "true"],
    files: ALL_FILES,
  },
  { name: "an enqueue", prepare: store, words: ["enqueue", "--store", "lease.db", "--", "true"], files: ALL_FILES },
  {
    name: "an enqueue of many",
    prepare(folder) {
      store(folder);
      const line = JSON.stringify({ argv: ["echo", "x".repeat(2_000)] });
      writeFileSync(join(folder, "bulk"), `${line}\n`.repeat(MANY));
    },
    words: ["enqueue", "--store", "lease.db", "--from", "bulk"],
    files: ALL_FILES,
  },
  {
    name: "a job that is run and settled",
    prepare: store,
    // It tries to write an end for as long as it has the lease.
    words: ["worker", "--store", "lease.db", "--once", "--no-sweep", "--lease", "3s", "--drain", "1s"],
    files: STORE_FILES,
  },
  {
    name: "a prune",
    prepare: store,
    words: ["prune", "--store", "lease.db", "--older-than", "0", "--yes"],
    files: STORE_FILES,
  },
  {
    name: "a migration",
    prepare(folder) {
      const released = readFileSync(join(import.meta.dir, "../compat/stores/sqlite_4.db.gz"));
      writeFileSync(join(folder, "lease.db"), Bun.gunzipSync(new Uint8Array(released)));
      chmodSync(join(folder, "lease.db"), 0o600);
    },
    words: ["inspect", "--store", "lease.db"],
    files: ALL_FILES,
  },
  {
    name: "a copy",
    prepare: store,
    words: ["copy", "--store", "lease.db", "--to", "copy.db", "--force"],
    files: ["copy.db", "copy.db-wal", "copy.db-shm", "copy.db-journal", "."],
  },
];
