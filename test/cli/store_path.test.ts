/**
 * Paths that can't be a store, and stores that can't be used: every command says so in one line, exits with 125, and
 * leaves what it found as it found it.
 */

import { Database } from "bun:sqlite";
import { beforeAll, describe, expect, test } from "bun:test";
import {
  closeSync,
  copyFileSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { contentOf, expectRefusal, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();

/** One that makes a store, one that only reads, one that runs what it finds, one that changes a job. */
const COMMANDS = [
  ["enqueue", "--", "true"],
  ["inspect"],
  ["worker", "--until-empty"],
  ["watchdog", "--once"],
  ["cancel", "1"],
  ["logs", "1"],
] as const;

/** A healthy store with some jobs, in one file without a log beside it. */
async function healthy(): Promise<Place> {
  const place = newPlace();
  for (let n = 0; n < 5; n++) await place.enqueue("--input", "x".repeat(5_000), "--", "true");
  const database = new Database(place.store);
  database.run("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
  return place;
}

async function expectUnusable(
  path: string,
  message: string | RegExp,
  commands: readonly (readonly string[])[] = COMMANDS,
): Promise<void> {
  const place = newPlace();
  for (const command of commands) {
    const answer = await place.leaseWith({ env: { LEASE_STORE: path } }, ...command);
    expectRefusal(answer, 125, message);
  }
}

describe("a store that is no file", () => {
  test("is refused when it is a folder, with a word on what to name instead", async () => {
    const place = newPlace();
    await expectUnusable(place.folder, `store ${place.folder} is a folder: name a file in it`);
    await expectUnusable(`${place.folder}/`, "is a folder");
    expect(contentOf(place.folder)).toEqual({});
  });

  test("is refused when it is a device", async () => {
    await expectUnusable("/dev/null", "is not a regular file");
  });

  test("is refused when part of its path is a file", async () => {
    const place = newPlace();
    writeFileSync(join(place.folder, "file"), "text");
    await expectUnusable(join(place.folder, "file/lease.db"), "part of the path is a file");
    expect(contentOf(place.folder)).toEqual({ file: expect.any(String) });
  });

  test("is refused when its name is longer than the system takes", async () => {
    await expectUnusable(join(newPlace().folder, "n".repeat(300)), /can't be/);
  });

  test("is refused when a link leads to itself", async () => {
    const place = newPlace();
    symlinkSync("loop", join(place.folder, "loop"));
    await expectUnusable(join(place.folder, "loop"), /can't be/);
  });
});

describe("a store that is not there", () => {
  test("is made by what brings jobs or waits for them, and its folders with it", async () => {
    for (const command of [COMMANDS[0], COMMANDS[2], COMMANDS[3]]) {
      const place = newPlace();
      const store = join(place.folder, "some/where/lease.db");
      const answer = await place.leaseWith({ env: { LEASE_STORE: store } }, ...command);
      expect({ command, ...answer }).toMatchObject({ code: 0, stderr: "" });
      expect(Object.keys(contentOf(place.folder))).toContain("some/where/lease.db");
    }
  });

  test("is an answer with code 1 for what asks about jobs, and is not made by asking", async () => {
    const place = newPlace();
    for (const command of [["inspect"], ["inspect", "1"], ["logs", "1"], ["cancel", "1"], ["retry", "1"]]) {
      const answer = await place.leaseWith({ env: { LEASE_STORE: join(place.folder, "x/lease.db") } }, ...command);
      expectRefusal(answer, 1, /there is no store at .*x\/lease\.db yet: enqueue a job/);
    }
    expect(contentOf(place.folder)).toEqual({});
  });
});

describe("a file that is not a store", () => {
  test("is refused when it is text, or noise, and stays as it was", async () => {
    const place = newPlace();
    writeFileSync(join(place.folder, "text"), "Dear diary, this is not a database.\n".repeat(200), { mode: 0o600 });
    writeFileSync(join(place.folder, "noise"), crypto.getRandomValues(new Uint8Array(8_192)), { mode: 0o600 });
    writeFileSync(join(place.folder, "zeros"), new Uint8Array(8_192), { mode: 0o600 });
    const before = contentOf(place.folder);
    for (const name of ["text", "noise", "zeros"]) {
      await expectUnusable(join(place.folder, name), "is not a lease store: name another file with --store");
    }
    expect(contentOf(place.folder)).toEqual(before);
  });

  test("is refused when it is another program's database, and stays as it was", async () => {
    const place = newPlace();
    const file = join(place.folder, "other.db");
    const other = new Database(file);
    other.run("CREATE TABLE bookmarks (url TEXT)");
    other.run("PRAGMA user_version = 1");
    other.close();
    const before = contentOf(place.folder);
    await expectUnusable(file, "belongs to another program: name another file with --store");
    expect(contentOf(place.folder)).toEqual(before);
  });

  test("becomes one when it is empty: somebody just touched it", async () => {
    const place = newPlace();
    writeFileSync(place.store, "", { mode: 0o600 });
    expect(await place.enqueue("--", "true")).toBe(1);
  });
});

describe("a store of a later lease", () => {
  test("is refused by every command, which says what it has and what this lease knows", async () => {
    const place = await healthy();
    const database = new Database(place.store);
    database.run("PRAGMA user_version = 99");
    database.close();
    const before = readFileSync(place.store);
    await expectUnusable(place.store, /has schema 99 and this lease knows \d+: use a newer lease/);
    expect(readFileSync(place.store).equals(before)).toBe(true);
  });
});

describe("a damaged store", () => {
  let sound: Place;
  beforeAll(async () => {
    sound = await healthy();
  });

  function damaged(damage: (file: string) => void): string {
    const file = join(newPlace().folder, "lease.db");
    copyFileSync(sound.store, file);
    damage(file);
    return file;
  }

  function overwrite(from: number, bytes: Uint8Array): (file: string) => void {
    return (file) => {
      const fd = openSync(file, "r+");
      writeSync(fd, bytes, 0, bytes.length, from);
      closeSync(fd);
    };
  }

  const PAGE = 4_096;
  const noise = crypto.getRandomValues(new Uint8Array(20 * PAGE));

  test.each([
    ["whose pages were overwritten", overwrite(PAGE, noise)],
    ["whose pages were emptied", overwrite(PAGE, new Uint8Array(20 * PAGE))],
    ["that was cut off", (file: string) => truncateSync(file, 5 * PAGE)],
    ["whose schema was overwritten", overwrite(200, noise.slice(0, PAGE - 200))],
  ] as const)("%s is refused with a word on how to salvage it, and not touched", async (_how, damage) => {
    const file = damaged(damage);
    const before = readFileSync(file);
    await expectUnusable(file, /is damaged: .*\.recover/, COMMANDS.slice(0, 3));
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  test.each([
    ["its log", "-shm"],
    ["the index of its log", "-wal"],
  ])("of which nothing is left but %s is not taken for a new one", async (_what, gone) => {
    const place = newPlace();
    await place.enqueue("--", "true");
    truncateSync(place.store, 0);
    rmSync(place.store + gone);
    await expectUnusable(place.store, /is empty, but has been one: .*put back a copy, or remove/, COMMANDS.slice(0, 3));
    expect(readFileSync(place.store)).toHaveLength(0);
  });

  test("whose header was overwritten is no database any more", async () => {
    await expectUnusable(damaged(overwrite(0, noise.slice(0, 16))), "is not a lease store");
  });
});

describe("a store by a relative path", () => {
  test("is the same from wherever the job asks for it", async () => {
    const place = newPlace();
    mkdirSync(join(place.folder, "below"));
    const args = ["--store", "rel.db", "--cwd", "below", "-c", '"$LEASE" beat && pwd && echo "$LEASE_STORE"'];
    expect(await place.lease("enqueue", ...args)).toMatchObject({ code: 0, stdout: "1\n" });
    expect(await place.lease("worker", "--store", "rel.db", "--until-empty")).toMatchObject({ code: 0 });
    const { stdout } = await place.lease("logs", "--store", "rel.db", "1");
    expect(stdout).toBe(`${place.folder}/below\n${place.folder}/rel.db\n`);
  });
});
