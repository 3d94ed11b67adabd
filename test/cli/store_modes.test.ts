/** Who may touch a store: it decides what gets executed, so it is its owner's alone, or refused. */

import { describe, expect, test } from "bun:test";
import { chmodSync, chownSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expectRefusal, LEASE, run, until, usePlaces } from "./lease.ts";
import { HAS_USERS, NOBODY, runAs, SOMEBODY } from "./machine.ts";

const newPlace = usePlaces();
const mode = (path: string): string => (statSync(path).mode & 0o7777).toString(8);

describe("a new store", () => {
  test.each(["000", "022", "077"])("is 0600 in folders of 0700 under umask %s", async (umask) => {
    const place = newPlace();
    const store = join(place.folder, "state/lease/lease.db");
    const script = `umask ${umask}; exec "$0" enqueue --store "$1" -- true`;
    expect(await run(["sh", "-c", script, LEASE, store], { cwd: place.folder })).toMatchObject({ stdout: "1\n" });
    const folder = join(place.folder, "state/lease");
    expect([mode(join(place.folder, "state")), mode(folder)]).toEqual(["700", "700"]);
    const modes = readdirSync(folder).map((name) => [name, mode(join(folder, name))]);
    expect(modes.toSorted()).toEqual([
      ["lease.db", "600"],
      ["lease.db-shm", "600"],
      ["lease.db-wal", "600"],
    ]);
  });

  test("is 0600 with all that stands beside it while a worker has it open", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const script = `umask 000; exec "$0" worker --store "$1"`;
    const worker = Bun.spawn(["sh", "-c", script, LEASE, place.store], { stdio: ["ignore", "ignore", "ignore"] });
    try {
      await until(() => place.rows(`SELECT 1 FROM workers WHERE pid = ${worker.pid}`).length > 0);
      const beside = readdirSync(place.folder).filter((name) => name.startsWith("lease.db"));
      const modes = beside.map((name) => [name, mode(join(place.folder, name))]);
      expect(modes).toEqual(beside.map((name) => [name, name.endsWith("-scratch") ? "700" : "600"]));
    } finally {
      worker.kill("SIGTERM");
      expect(await worker.exited).toBe(0);
    }
  });

  test("is 0600 behind a link to where nothing is yet", async () => {
    const place = newPlace();
    symlinkSync(join(place.folder, "target.db"), place.store);
    const answer = await run(["sh", "-c", 'umask 022; exec "$0" enqueue -- true', LEASE], {
      cwd: place.folder,
      env: place.env,
    });
    // Refusing it would be as good.
    if (answer.code !== 0) return expectRefusal(answer, 125, "");
    expect(mode(join(place.folder, "target.db"))).toBe("600");
  });
});

describe("a store that others can write", () => {
  test.each([0o660, 0o620, 0o606, 0o602, 0o666])("is refused with mode %o, unless it is trusted", async (bits) => {
    const place = newPlace();
    await place.enqueue("--", "true");
    chmodSync(place.store, bits);
    const before = place.content();
    for (const command of [["enqueue", "--", "true"], ["worker", "--until-empty"], ["inspect"]]) {
      const answer = await place.lease(...command);
      expectRefusal(answer, 125, /lease\.db can be written by others.*chmod go-w .*lease\.db, or pass --trust-store/);
    }
    expect(place.content()).toEqual(before);
    expect(await place.lease("enqueue", "--trust-store", "--", "true")).toMatchObject({ code: 0, stdout: "2\n" });
    expect(await place.lease("--trust-store", "worker", "--until-empty")).toMatchObject({ code: 0 });
    // Nothing beside the store may be wider than it is.
    for (const name of readdirSync(place.folder)) {
      expect(statSync(join(place.folder, name)).mode & 0o777 & ~bits).toBe(0);
    }
  });

  test.each([0o770, 0o720, 0o707, 0o777])("is refused in a folder of mode %o, unless it is trusted", async (bits) => {
    const place = newPlace();
    const folder = join(place.folder, "shared");
    mkdirSync(folder);
    chmodSync(folder, bits);
    const env = { LEASE_STORE: join(folder, "lease.db") };
    expectRefusal(
      await place.leaseWith({ env }, "enqueue", "--", "true"),
      125,
      /shared can be written by others.*chmod go-w .*shared, or pass --trust-store/,
    );
    expect(readdirSync(folder)).toEqual([]);
    expect(await place.leaseWith({ env }, "enqueue", "--trust-store", "--", "true")).toMatchObject({ stdout: "1\n" });
    expect(mode(join(folder, "lease.db"))).toBe("600");
  });

  test("is refused in a folder like /tmp, where anybody can put a log or a journal beside it", async () => {
    const place = newPlace();
    chmodSync(place.folder, 0o1777);
    expectRefusal(
      await place.lease("enqueue", "--", "true"),
      125,
      /is a folder in which anybody can put files.*in a folder of its own, or pass --trust-store/,
    );
    expect(readdirSync(place.folder)).toEqual([]);
    // Below it, what is ours can't be taken away.
    const env = { LEASE_STORE: join(place.folder, "own/lease.db") };
    expect(await place.leaseWith({ env }, "enqueue", "--", "true")).toMatchObject({ stdout: "1\n" });
    expect(await place.leaseWith({ env }, "enqueue", "--", "true")).toMatchObject({ stdout: "2\n" });
  });

  test("is refused in a folder below one that others can write, who could put another in its place", async () => {
    const place = newPlace();
    const folder = join(place.folder, "open/deep/own");
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const env = { LEASE_STORE: join(folder, "lease.db") };
    expect(await place.leaseWith({ env }, "enqueue", "--", "true")).toMatchObject({ stdout: "1\n" });
    chmodSync(join(place.folder, "open"), 0o777);
    for (const command of [["enqueue", "--", "true"], ["worker", "--until-empty"], ["inspect"]]) {
      expectRefusal(await place.leaseWith({ env }, ...command), 125, /\/open can be written by others.*chmod go-w/);
    }
    chmodSync(join(place.folder, "open"), 0o755);
    expect(await place.leaseWith({ env }, "enqueue", "--", "true")).toMatchObject({ stdout: "2\n" });
  });

  test("is refused by the folder that it is really in, not by that of a link to it", async () => {
    const place = newPlace();
    const open = join(place.folder, "open");
    mkdirSync(open);
    expect(await place.lease("enqueue", "--store", join(open, "lease.db"), "--", "true")).toMatchObject({ code: 0 });
    chmodSync(open, 0o777);
    symlinkSync(join(open, "lease.db"), place.store);
    expectRefusal(await place.lease("enqueue", "--", "true"), 125, "can be written by others");
  });
});

describe.skipIf(!HAS_USERS)("a store of another user", () => {
  const owned = async (folder_uid: number, file_uid: number) => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const folder = join(place.folder, "theirs");
    mkdirSync(folder, { mode: 0o755 });
    const store = join(folder, "lease.db");
    expect(await run([LEASE, "enqueue", "--store", store, "--", "true"])).toMatchObject({ code: 0 });
    for (const name of readdirSync(folder)) {
      chownSync(join(folder, name), file_uid, file_uid);
      chmodSync(join(folder, name), 0o644);
    }
    chownSync(folder, folder_uid, folder_uid);
    return { store, options: { cwd: place.folder, env: { ...place.env, LEASE_STORE: store } } };
  };

  test("is refused, by its folder or by itself, with a word on what to do", async () => {
    const folder = await owned(SOMEBODY, NOBODY);
    expectRefusal(await runAs(NOBODY, [LEASE, "inspect"], folder.options), 125, /theirs belongs to another user/);
    const file = await owned(NOBODY, SOMEBODY);
    const answer = await runAs(NOBODY, [LEASE, "inspect"], file.options);
    expectRefusal(answer, 125, /lease\.db belongs to another user.*use a store of your own, or pass --trust-store/);
  });

  test("is refused when only the log beside it is theirs, which is as good as the store", async () => {
    const place = newPlace();
    // As in /tmp, where everybody can be the first to use a name.
    chmodSync(place.folder, 0o1777);
    writeFileSync(`${place.store}-wal`, "");
    chmodSync(`${place.store}-wal`, 0o666);
    chownSync(`${place.store}-wal`, SOMEBODY, SOMEBODY);
    const options = { cwd: place.folder, env: place.env };
    expectRefusal(await runAs(NOBODY, [LEASE, "enqueue", "--", "true"], options), 125, "");
  });

  test("is read when it is trusted", async () => {
    const { options } = await owned(SOMEBODY, SOMEBODY);
    expect(await runAs(NOBODY, [LEASE, "inspect", "--trust-store"], options)).toMatchObject({ code: 0, stderr: "" });
  });

  test("is taken when it is root's, who can do everything anyway", async () => {
    const { options } = await owned(0, 0);
    expect(await runAs(NOBODY, [LEASE, "inspect"], options)).toMatchObject({ code: 0, stderr: "" });
  });

  test("is refused by root as well, who would run a stranger's commands as root", async () => {
    for (const [folder_uid, file_uid] of [
      [SOMEBODY, SOMEBODY],
      [0, SOMEBODY],
      [SOMEBODY, 0],
    ] as const) {
      const { options } = await owned(folder_uid, file_uid);
      const answer = await run([LEASE, "worker", "--until-empty"], options);
      expectRefusal(answer, 125, "belongs to another user");
    }
  });
});
