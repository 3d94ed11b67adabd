/**
 * A second name of a store has a second write-ahead log, and what is acknowledged by one name is lost by the other. Also what
 * others put beside a store, which SQLite reads as part of it.
 */

import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { chmodSync, chownSync, linkSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expectRefusal, LEASE, run, usePlaces, type Place } from "./lease.ts";
import { HAS_MOUNTS, HAS_USERS, NOBODY, runAs, SOMEBODY, withMounts } from "./machine.ts";

const newPlace = usePlaces();

/** One that goes the quick way, one that goes the long way, and one of each kind of the others. */
const COMMANDS = [
  ["enqueue", "--", "true"],
  ["enqueue", "--key", "k", "--", "true"],
  ["worker", "--until-empty"],
  ["watchdog", "--once"],
  ["inspect"],
  ["wait", "1"],
  ["run", "--", "true"],
] as const;

describe("a store with two hard links", () => {
  test("is refused by both names, on trust as well, and taken again when one is gone", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const second = join(place.folder, "second.db");
    linkSync(place.store, second);
    for (const command of COMMANDS) {
      for (const store of [place.store, second]) {
        const answer = await place.leaseWith({ env: { LEASE_STORE: store } }, ...command);
        expectRefusal(answer, 125, /has 2 names \(hard links\).*write-ahead log.*find \/ -xdev -samefile .*lease copy/);
      }
    }
    expectRefusal(await place.lease("enqueue", "--trust-store", "--", "true"), 125, "has 2 names");
    rmSync(second);
    expect(await place.enqueue("--", "true")).toBe(2);
  });

  test("is the same store by a symbolic link, which leads to one log", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    symlinkSync(place.store, join(place.folder, "link.db"));
    const env = { LEASE_STORE: join(place.folder, "link.db") };
    expect(await place.leaseWith({ env }, "enqueue", "--", "true")).toMatchObject({ stdout: "2\n" });
  });
});

describe.skipIf(!HAS_MOUNTS)("a store in a container", () => {
  test.each(["plain", "with a blank and an é"])(
    "is refused when the file alone is mounted there, and taken when its folder is: %s",
    async (name) => {
      const place = newPlace();
      await place.enqueue("--", "true");
      mkdirSync(join(place.folder, name));
      writeFileSync(join(place.folder, name, "alone.db"), "", { mode: 0o600 });
      mkdirSync(join(place.folder, "whole"));
      const commands = COMMANDS.map((words, index) => `answer ${index} ${words.join(" ")}`).join("\n");
      const script = `
        mount --bind lease.db "${name}/alone.db"
        export LEASE_STORE="$PWD/${name}/alone.db"
        ${commands}
        umount "${name}/alone.db"
        mkdir inside
        mv lease.db lease.db-wal lease.db-shm inside/
        mount --bind inside whole
        LEASE_STORE=$PWD/whole/lease.db answer whole enqueue -- true
        LEASE_STORE=$PWD/inside/lease.db answer inside enqueue -- true
      `;
      const answers = await withMounts(script, { cwd: place.folder, env: place.env });
      for (const index of COMMANDS.keys()) {
        const answer = answers[String(index)];
        expect(answer).toBeDefined();
        if (answer !== undefined)
          expectRefusal(answer, 125, /is mounted as a file by itself.*mount the folder that it is in, not the file/);
      }
      expect(answers).toMatchObject({ whole: { code: 0, stdout: "2\n" }, inside: { code: 0, stdout: "3\n" } });
    },
  );
});

/** A journal that puts all pages of `database` in the place of those of the store that it is found beside. */
function journalOf(database: Uint8Array): Uint8Array {
  const page = 4_096;
  const sector = 512;
  const pages = database.length / page;
  const bytes = new Uint8Array(sector + pages * (page + 8));
  const view = new DataView(bytes.buffer);
  bytes.set([0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
  [pages, 7, pages, sector, page].forEach((word, index) => view.setUint32(8 + 4 * index, word));
  for (let index = 0; index < pages; index++) {
    const at = sector + index * (page + 8);
    const content = database.subarray(index * page, (index + 1) * page);
    view.setUint32(at, index + 1);
    bytes.set(content, at + 4);
    let sum = 7;
    for (let i = page - 200; i > 0; i -= 200) sum += content[i] ?? 0;
    view.setUint32(at + 4 + page, sum);
  }
  return bytes;
}

/** Of a store whose one job makes a file. */
async function evilJournal(mark: string): Promise<Uint8Array> {
  const evil = newPlace();
  await evil.enqueue("--", "touch", mark);
  foldBack(evil);
  return journalOf(readFileSync(evil.store));
}

/** So that all of a store is in one file. */
function foldBack(place: Place): void {
  const database = new Database(place.store);
  database.run("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
}

describe("a journal that somebody put beside a store", () => {
  test("would be taken for the store's own, so that it matters whose it is", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    foldBack(place);
    const mark = join(place.folder, "mark");
    writeFileSync(`${place.store}-journal`, await evilJournal(mark), { mode: 0o600 });
    await place.lease("worker", "--until-empty");
    expect(await Bun.file(mark).exists()).toBe(true);
  });

  test.skipIf(!HAS_USERS)("is refused when it is another user's, and their command is not run", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    foldBack(place);
    const mark = join(place.folder, "mark");
    writeFileSync(`${place.store}-journal`, await evilJournal(mark), { mode: 0o644 });
    chownSync(`${place.store}-journal`, SOMEBODY, SOMEBODY);
    const before = place.content();
    for (const command of COMMANDS)
      expectRefusal(await place.lease(...command), 125, /lease\.db-journal belongs to another user/);
    expect(place.content()).toEqual(before);
    expect(await Bun.file(mark).exists()).toBe(false);
  });

  test.skipIf(!HAS_USERS)("in a folder like /tmp is refused with the folder, whoever comes", async () => {
    const place = newPlace();
    const shared = join(place.folder, "shared");
    mkdirSync(shared);
    const store = join(shared, "jobs.db");
    chownSync(shared, NOBODY, NOBODY);
    const options = { cwd: "/", env: { LEASE_STORE: store } };
    expect(await runAs(NOBODY, [LEASE, "enqueue", "--", "true"], options)).toMatchObject({ stdout: "1\n" });
    chownSync(shared, 0, 0);
    chmodSync(shared, 0o1777);
    const journal = join(newPlace().folder, "journal");
    writeFileSync(journal, await evilJournal("/nowhere"), { mode: 0o644 });
    const planted = await runAs(SOMEBODY, ["cp", journal, `${store}-journal`], { cwd: "/" });
    expect(planted).toMatchObject({ code: 0, stderr: "" });
    for (const command of COMMANDS) {
      const answer = await runAs(NOBODY, [LEASE, ...command], options);
      expectRefusal(answer, 125, /shared is a folder in which anybody can put files/);
    }
  });

  test("is refused when it is a pipe, and not waited for", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    expect(await run(["mkfifo", "-m", "600", `${place.store}-journal`])).toMatchObject({ code: 0 });
    for (const command of COMMANDS)
      expectRefusal(await place.lease(...command), 125, /lease\.db-journal is not a regular file/);
  });
});

describe.skipIf(!HAS_USERS)("a store below a folder of another user", () => {
  test("is refused, for they can put another in its place", async () => {
    const place = newPlace();
    const theirs = join(place.folder, "theirs");
    mkdirSync(join(theirs, "ours"), { recursive: true });
    const env = { LEASE_STORE: join(theirs, "ours/lease.db") };
    expect(await place.leaseWith({ env }, "enqueue", "--", "true")).toMatchObject({ stdout: "1\n" });
    chownSync(theirs, SOMEBODY, SOMEBODY);
    for (const command of COMMANDS)
      expectRefusal(await place.leaseWith({ env }, ...command), 125, /theirs belongs to another user/);
    const trusted = await place.leaseWith({ env }, "enqueue", "--trust-store", "--", "true");
    expect(trusted).toMatchObject({ code: 0, stdout: "2\n" });
  });
});
