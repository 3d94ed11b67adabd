/**
 * What a power failure leaves: the WAL, which every commit synced, and of the database file only what was synced, which
 * in the worst case is its first page from when it was made. An acknowledged enqueue must be in that.
 */

import { describe, expect, test } from "bun:test";
import { Database } from "bun:sqlite";
import { copyFileSync, mkdtempSync, rmSync, statSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const LEASE = resolve(process.env["LEASE_BIN"] ?? join(import.meta.dir, "../../dist/lease"));

function inFolder(work: (folder: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), "lease-power-"));
  try {
    work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function enqueue(store: string): number {
  const { stdout } = Bun.spawnSync([LEASE, "enqueue", "--store", store, "--", "true"]);
  return Number(stdout.toString());
}

/** The store as it would be found after the failure: the WAL whole, the database as `database` was. */
function afterFailure(folder: string, store: string, database: string): number[] {
  const found = join(folder, "found.db");
  copyFileSync(database, found);
  copyFileSync(`${store}-wal`, `${found}-wal`);
  rmSync(`${found}-shm`, { force: true });
  const connection = new Database(found);
  try {
    expect(connection.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
    return connection
      .query<{ id: number }, []>("SELECT id FROM jobs ORDER BY id")
      .all()
      .map(({ id }) => id);
  } finally {
    connection.close();
  }
}

describe("an enqueue that was acknowledged", () => {
  test("is in the WAL when nothing of the database but its first page was synced", () =>
    inFolder((folder) => {
      const store = join(folder, "lease.db");
      const ids = [enqueue(store), enqueue(store), enqueue(store)];
      const first_page = join(folder, "first.db");
      copyFileSync(store, first_page);
      truncateSync(first_page, 4_096);
      expect(statSync(`${store}-wal`).size).toBeGreaterThan(0);
      expect(afterFailure(folder, store, first_page)).toEqual(ids);
    }));

  test("is there whichever of the unsynced pages had reached the disk, also across a WAL that was begun anew", () =>
    inFolder((folder) => {
      const store = join(folder, "lease.db");
      const ids: number[] = [];
      let synced = "";
      let longest = 0;
      for (let round = 0; round < 60; round++) {
        ids.push(enqueue(store));
        const size = statSync(`${store}-wal`).size;
        // A WAL that became shorter was folded back with a sync: from here on the database is what it was then.
        if (size < longest || synced === "") {
          synced = join(folder, `synced-${round}.db`);
          copyFileSync(store, synced);
        }
        longest = size;
        if (round % 10 === 9) expect(afterFailure(folder, store, synced)).toEqual(ids);
      }
    }));
});
