/** Where the store is, and what can happen to it there: a small disk that fills up, a lock, a server that dies, a network. */

import { Database } from "bun:sqlite";
import { chmodSync, closeSync, cpSync, mkdirSync, openSync, readdirSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { startPostgres } from "../../test/support/postgres.ts";
import { Proxy } from "../../test/support/proxy.ts";
import type { World } from "./world.ts";

export type Fault = readonly [weight: number, name: string, fault: () => Promise<void> | void];

export interface Ground {
  kind: string;
  faults: readonly Fault[];
  /** Nothing happens to it any more. */
  calm(): Promise<void> | void;
  /** Other users look at it as well. */
  open(): void;
  /** A copy of it, beside the ledger. */
  keep(): Promise<void> | void;
  end(): Promise<void>;
}

const DISK_MIB = 128;

export function sqliteGround(world: World): Ground {
  const disk = join(world.folder, "disk");
  mkdirSync(disk);
  const mounted =
    process.platform === "linux" &&
    Bun.spawnSync(["mount", "-t", "tmpfs", "-o", `size=${DISK_MIB}m,mode=777`, "tmpfs", disk]).exitCode === 0;
  if (!mounted) console.warn("SKIPPED: a disk that is full, for which a small tmpfs is mounted as root");
  chmodSync(disk, 0o777);
  world.store = join(disk, "lease.db");
  world.ways = [world.store];
  const ballast = join(disk, "ballast");
  return {
    kind: "SQLite",
    faults: [
      ...(mounted ? [[1, "full disk", () => fill(world, ballast)] as const] : []),
      [1, "locked store", () => hold(world, "BEGIN IMMEDIATE", 2_500)],
      [1, "reader that pins the log", () => hold(world, "BEGIN; SELECT count(*) FROM jobs", 5_000)],
    ],
    calm: () => rmSync(ballast, { force: true }),
    open() {
      for (const name of readdirSync(disk)) {
        if (name.startsWith("lease.db") && !name.endsWith("scratch")) chmodSync(join(disk, name), 0o666);
      }
    },
    keep: () => cpSync(disk, join(world.folder, "kept"), { recursive: true }),
    async end() {
      if (mounted) Bun.spawnSync(["umount", "--lazy", disk]);
    },
  };
}

async function fill(world: World, path: string): Promise<void> {
  const file = openSync(path, "w");
  const block = new Uint8Array(65_536);
  try {
    for (;;) writeSync(file, block);
  } catch {
    // That was the last block.
  }
  closeSync(file);
  await Bun.sleep(world.chance.next() * 2_500);
  rmSync(path, { force: true });
}

async function hold(world: World, sql: string, most_ms: number): Promise<void> {
  const database = new Database(world.store);
  try {
    database.run("PRAGMA busy_timeout = 2000");
    database.run(sql);
    await Bun.sleep(world.chance.next() * most_ms);
  } catch {
    // Somebody else had it all the time.
  } finally {
    database.close();
  }
}

/** A server of our own with one that follows it, both behind a network of our own for some of the fleet. */
export async function postgresGround(world: World): Promise<Ground> {
  const primary = await startPostgres();
  const standby = await primary.follow();
  const proxies = [await Proxy.before(primary.port), await Proxy.before(standby.port)];
  const url = (ports: readonly number[]) =>
    `postgres://lease:secret@${ports.map((port) => `127.0.0.1:${port}`).join(",")}/postgres?target_session_attrs=read-write`;
  const direct = [primary.port, standby.port];
  world.store = url(direct);
  // Of the commands most go the straight way, or all would wait for the network.
  world.ways = [world.store, world.store, world.store, url(proxies.map(({ port }) => port))];
  let promoted = false;
  const unlessPromoted = (fault: () => Promise<void>) => async () => void (promoted || (await fault()));
  const after = async (most_ms: number, work: () => void) => {
    await Bun.sleep(world.chance.next() * most_ms);
    work();
  };
  const network = (fault: (proxy: Proxy) => void) => () => proxies.forEach(fault);
  const started = performance.now();
  return {
    kind: "PostgreSQL",
    faults: [
      [
        1,
        "server restarted",
        unlessPromoted(async () => {
          await primary.stop();
          await after(2_000, () => {});
          await primary.start();
        }),
      ],
      [
        1,
        "server crashed",
        unlessPromoted(async () => {
          await primary.crash();
          await after(1_000, () => {});
          await primary.start();
        }),
      ],
      [
        3,
        "partition",
        async () => {
          network((proxy) => proxy.fallSilent())();
          await after(
            6_000,
            network((proxy) => proxy.recover()),
          );
        },
      ],
      [3, "connections cut", network((proxy) => proxy.cut())],
      [3, "answers lost", network((proxy) => proxy.loseAnswers())],
      [
        1,
        "failover",
        unlessPromoted(async () => {
          // Once, and not at the beginning: afterwards there is one server, and nobody starts another.
          if (performance.now() - started < world.length_ms / 2) return;
          promoted = true;
          await primary.crash();
          await standby.promote();
          world.count("failovers");
        }),
      ],
    ],
    calm: network((proxy) => proxy.recover()),
    open: () => {},
    async keep() {
      await world.lease(["copy", "--to", join(world.folder, "kept.db"), "--force"]);
    },
    async end() {
      for (const proxy of proxies) proxy.close();
      await standby.stop();
      if (!promoted) await primary.stop();
    },
  };
}

/** Somebody else's store: nothing is done to it but by its users. */
export function givenGround(world: World, url: string): Ground {
  world.store = url;
  world.ways = [url];
  return {
    kind: url.includes("://") ? "PostgreSQL" : "SQLite",
    faults: [],
    calm: () => {},
    open: () => {},
    keep: () => {},
    end: async () => {},
  };
}
