/** Disks that are full or read-only, permissions that are missing: said in one line, and no job is lost over it. */

import { describe, expect, test } from "bun:test";
import { chmodSync, chownSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expectRefusal, LEASE, run, usePlaces, type Answer } from "./lease.ts";
import { HAS_MOUNTS, HAS_USERS, NOBODY, runAs, withMounts } from "./machine.ts";

const newPlace = usePlaces();

/** Reports of a script that asserts nothing itself. */
const get = (answers: Record<string, Answer>, name: string): Answer => {
  const answer = answers[name];
  if (answer === undefined) throw new Error(`the script has no answer "${name}"`);
  return answer;
};

describe.skipIf(!HAS_MOUNTS)("a full disk", () => {
  test("does not keep a run that is told to end, though the end of its job can't be written", async () => {
    const place = newPlace();
    mkdirSync(join(place.folder, "disk"));
    await withMounts(
      `
      mount -t tmpfs -o size=512k,mode=700 tmpfs disk
      export LEASE_STORE=$PWD/disk/lease.db
      printf '#!/bin/sh\ntouch up; while [ ! -e go ]; do sleep 0.02; done\n' >job; chmod +x job
      { code=0; sh -c 'echo $$ >pid; exec "$LEASE" run -- ./job' 2>said || code=$?; echo $code >code; } &
      while [ ! -e up ]; do sleep 0.02; done
      dd if=/dev/zero of=disk/fill bs=1k 2>/dev/null || true
      touch go
      while ! grep -q 'could not be written' said; do sleep 0.02; done
      while [ ! -s code ]; do kill -TERM $(cat pid) 2>/dev/null || true; sleep 0.1; done
      answer after inspect 1 --json
    `,
      { cwd: place.folder, env: place.env },
    );
    expect(readFileSync(join(place.folder, "code"), "utf8")).toBe("143\n");
  });

  test("refuses new jobs, keeps and shows the old ones, and takes new ones when there is room again", async () => {
    const place = newPlace();
    mkdirSync(join(place.folder, "disk"));
    const answers = await withMounts(
      `
      mount -t tmpfs -o size=512k,mode=700 tmpfs disk
      export LEASE_STORE=$PWD/disk/lease.db
      head -c 400000 /dev/zero | tr "\\0" x >large
      answer first enqueue -- echo kept
      answer large enqueue --input @large -- cat
      dd if=/dev/zero of=disk/fill bs=1k 2>/dev/null || true
      answer full enqueue -- true
      answer cancel cancel 1
      answer worker worker --until-empty
      answer watchdog watchdog --once
      answer inspect inspect 1 --json
      mkdir disk/x; answer new enqueue --store disk/x/new.db -- true
      rm disk/fill
      answer again enqueue -- true
      answer work worker --until-empty
      answer log logs 1
    `,
      { cwd: place.folder, env: place.env },
    );
    expect(get(answers, "first")).toEqual({ code: 0, stdout: "1\n", stderr: "" });
    for (const name of ["large", "full", "cancel", "worker"]) {
      expectRefusal(get(answers, name), 125, /lease\.db can't grow: the disk is full; free some space/);
    }
    expectRefusal(get(answers, "new"), 125, /disk is full/);
    expect(JSON.parse(get(answers, "inspect").stdout)).toMatchObject({ id: 1, state: "pending" });
    expect(get(answers, "again")).toEqual({ code: 0, stdout: "2\n", stderr: "" });
    expect(get(answers, "work")).toMatchObject({ code: 0 });
    expect(get(answers, "log").stdout).toBe("kept\n");
  });

  test("is named as such however little room there was to make a store in, and a later try succeeds", async () => {
    const place = newPlace();
    mkdirSync(join(place.folder, "disk"));
    // The last ones before a store fits; below, not even the shared memory beside it does.
    const rooms = [0, 4, 40, 60, 80, 100, 120, 140];
    const answers = await withMounts(
      rooms
        .map(
          (kb) => `
          mount -t tmpfs -o size=512k,mode=700 tmpfs disk
          head -c ${(512 - kb) * 1024} /dev/zero >disk/fill
          answer full${kb} enqueue --store disk/lease.db -- true
          rm disk/fill
          answer again${kb} enqueue --store disk/lease.db -- true
          umount disk
        `,
        )
        .join("\n"),
      { cwd: place.folder, env: place.env },
    );
    for (const kb of rooms) expect(get(answers, `again${kb}`)).toEqual({ code: 0, stdout: "1\n", stderr: "" });
    const said = rooms.map((kb) => [kb, get(answers, `full${kb}`).stderr]);
    expect(said).toEqual(rooms.map((kb) => [kb, expect.stringContaining("the disk is full")]));
    for (const kb of rooms) expectRefusal(get(answers, `full${kb}`), 125, "");
  });

  test("leaves no scratch folder of the worker that could not start", async () => {
    const place = newPlace();
    mkdirSync(join(place.folder, "disk"));
    mkdirSync(join(place.folder, "tmp"));
    const answers = await withMounts(
      `
      mount -t tmpfs -o size=256k,mode=700 tmpfs disk
      answer first enqueue --store disk/lease.db -- true
      dd if=/dev/zero of=disk/fill bs=1k 2>/dev/null || true
      export TMPDIR=$PWD/tmp
      answer worker worker --store disk/lease.db --until-empty
      ls tmp >left
    `,
      { cwd: place.folder, env: place.env },
    );
    expectRefusal(get(answers, "worker"), 125, "the disk is full");
    expect(await Bun.file(join(place.folder, "left")).text()).toBe("");
  });
});

describe.skipIf(!HAS_MOUNTS)("a read-only disk", () => {
  test("refuses what writes, still shows what is there, and has lost nothing when it is writable again", async () => {
    const place = newPlace();
    mkdirSync(join(place.folder, "disk"));
    const answers = await withMounts(
      `
      mount -t tmpfs -o size=2m,mode=700 tmpfs disk
      export LEASE_STORE=$PWD/disk/lease.db
      answer first enqueue -- echo kept
      mount -o remount,ro disk
      answer enqueue enqueue -- true
      answer cancel cancel 1
      answer worker worker --until-empty
      answer new enqueue --store disk/new.db -- true
      answer folder enqueue --store disk/new/new.db -- true
      answer inspect inspect 1 --json
      mount -o remount,rw disk
      answer work worker --until-empty
      answer log logs 1
    `,
      { cwd: place.folder, env: place.env },
    );
    for (const name of ["enqueue", "cancel", "worker"]) {
      expectRefusal(get(answers, name), 125, /lease\.db is read-only: check the permissions/);
    }
    for (const name of ["new", "folder"]) {
      expectRefusal(get(answers, name), 125, "can't be created: the file system is read-only");
    }
    expect(JSON.parse(get(answers, "inspect").stdout)).toMatchObject({ id: 1, state: "pending" });
    expect(get(answers, "work")).toMatchObject({ code: 0 });
    expect(get(answers, "log").stdout).toBe("kept\n");
  });
});

describe.skipIf(!HAS_USERS)("missing permissions", () => {
  const ownedByNobody = async () => {
    const place = newPlace();
    const folder = join(place.folder, "own");
    mkdirSync(folder, { mode: 0o700 });
    chownSync(folder, NOBODY, NOBODY);
    const store = join(folder, "lease.db");
    const lease = (...args: string[]) =>
      runAs(NOBODY, [LEASE, ...args], { cwd: place.folder, env: { ...place.env, LEASE_STORE: store, TMPDIR: folder } });
    expect(await lease("enqueue", "--", "echo", "kept")).toEqual({ code: 0, stdout: "1\n", stderr: "" });
    return { folder, store, lease };
  };

  test("a file that may not be written refuses jobs and still shows them", async () => {
    const { store, lease } = await ownedByNobody();
    chmodSync(store, 0o400);
    expectRefusal(await lease("enqueue", "--", "true"), 125, /lease\.db is read-only: check the permissions/);
    expect(await lease("inspect", "1")).toMatchObject({ code: 0, stderr: "" });
    chmodSync(store, 0o600);
    // SQLite has given the store's mode to the log beside it, and takes that back only now.
    await lease("inspect");
    expect(await lease("enqueue", "--", "true")).toMatchObject({ stdout: "2\n" });
  });

  test("a folder that may not be written refuses jobs", async () => {
    const { folder, store, lease } = await ownedByNobody();
    for (const beside of [`${store}-wal`, `${store}-shm`]) rmSync(beside);
    chmodSync(folder, 0o500);
    expectRefusal(await lease("enqueue", "--", "true"), 125, /lease\.db is read-only: check the permissions/);
    expectRefusal(
      await lease("enqueue", "--store", join(folder, "new.db"), "--", "true"),
      125,
      "new.db can't be created: permission denied",
    );
    chmodSync(folder, 0o700);
    expect(await lease("enqueue", "--", "true")).toMatchObject({ stdout: "2\n" });
  });

  test("a folder that may not be entered, and a file that may not be read, are told apart from missing ones", async () => {
    const { folder, store, lease } = await ownedByNobody();
    chmodSync(folder, 0o000);
    expectRefusal(await lease("inspect"), 125, "can't be reached: permission denied");
    chmodSync(folder, 0o700);
    chmodSync(store, 0o000);
    expectRefusal(await lease("inspect"), 125, "can't be opened: check the path and its permissions");
  });
});

describe("stdout on a full disk", () => {
  test.each(["enqueue -- true", "inspect", "logs 1", "run -- echo hi", "version"])(
    "is what `%s` names",
    async (words) => {
      const place = newPlace();
      await place.enqueue("--", "echo", "hi");
      await place.work();
      const answer = await run(["sh", "-c", `"$LEASE" ${words} >/dev/full`], { cwd: place.folder, env: place.env });
      expectRefusal(answer, 125, /^lease: stdout can't be written: ENOSPC/);
    },
  );
});
