/** Where a PostgreSQL store is and who asks: the URL, the variables, the file of passwords. */

import { describe, expect, test } from "bun:test";
import { chmodSync, chownSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LeaseError } from "../../src/core/errors.ts";
import { findPassword } from "../../src/store/postgres/session/password.ts";
import { parseTarget } from "../../src/store/postgres/session/url.ts";

const NO_HOME = { HOME: "/nowhere" };
/** With its only host beside the rest. */
function target(url: string, env: Record<string, string> = {}) {
  const found = parseTarget(url, { ...NO_HOME, ...env });
  expect(found.hosts).toHaveLength(1);
  return { ...found, ...(found.hosts[0] as (typeof found.hosts)[0]) };
}

const places = (url: string, env: Record<string, string> = {}) =>
  parseTarget(url, { ...NO_HOME, ...env }).hosts.map(({ host, port }) => `${host} ${port}`);

function refusal(url: string): string {
  try {
    parseTarget(url, NO_HOME);
  } catch (error) {
    if (error instanceof LeaseError && error.exit_code === 2) return error.message;
    throw error;
  }
  throw new Error("it was accepted");
}

describe("a store's URL", () => {
  test("says everything", () => {
    const url = "postgresql://m%40e:p%3Aw%2F@db.example:6000/my%20db?schema=Jobs_1&sslmode=disable&connect_timeout=3";
    expect(target(url)).toMatchObject({
      host: "db.example",
      port: 6_000,
      database: "my db",
      user: "m@e",
      password: "p:w/",
      schema: "Jobs_1",
      tls: { mode: "disable" },
      connect_timeout_ms: 3_000,
    });
  });

  test("may leave everything to what other programs use", () => {
    const env = { PGHOST: "h", PGPORT: "1234", PGUSER: "u", PGPASSWORD: "p", PGDATABASE: "d", PGSSLMODE: "disable" };
    const { host, port, user, password, database, schema, tls } = target("postgres://", env);
    expect([host, port, user, password, database, schema]).toEqual(["h", 1_234, "u", "p", "d", "lease"]);
    expect(tls.mode).toBe("disable");
  });

  test("comes before what other programs use", () => {
    const env = { PGHOST: "h", PGPORT: "1", PGUSER: "u", PGPASSWORD: "p", PGDATABASE: "d" };
    const { host, port, user, password, database } = target("postgres://a:b@c:2/e", env);
    expect([host, port, user, password, database]).toEqual(["c", 2, "a", "b", "e"]);
  });

  test("has the user's own database, and this machine, where nobody says another", () => {
    expect(target("postgres://me@")).toMatchObject({ host: "localhost", port: 5_432, database: "me" });
  });

  test("is for the user whose process it is, whatever the environment says or leaves out", () => {
    const own = Bun.spawnSync(["id", "-un"]).stdout.toString().trim();
    expect(target("postgres://h")).toMatchObject({ user: own, database: own });
    expect(target("postgres://h", { USER: "somebody" })).toMatchObject({ user: own });
  });

  test("can name a socket's folder", () => {
    const found = target("postgres://me@/db?host=/run/postgresql");
    expect(found).toMatchObject({ host: "/run/postgresql" });
    expect(found.location).toBe("postgres://me@/db?host=/run/postgresql");
  });

  test("can name an address in brackets", () => {
    expect(target("postgres://me@[::1]:7/db")).toMatchObject({ host: "::1", port: 7 });
    expect(target("postgres://me@[::1]:7/db").location).toBe("postgres://me@[::1]:7/db");
  });

  test("can name several hosts, each with its port or that of all", () => {
    expect(places("postgres://me@a:1,b,[::1]:3/db")).toEqual(["a 1", "b 5432", "::1 3"]);
    expect(places("postgres://me@a,b/db", { PGPORT: "7" })).toEqual(["a 7", "b 7"]);
    expect(places("postgres://me@/db?host=a,b&port=1,2")).toEqual(["a 1", "b 2"]);
    expect(places("postgres://", { PGHOST: "a,b", PGPORT: "1,2" })).toEqual(["a 1", "b 2"]);
    expect(places("postgres://%2Frun%2Fpostgresql/db")).toEqual(["/run/postgresql 5432"]);
    expect(parseTarget("postgres://me:hush@a:1,b:2/db", NO_HOME).location).toBe("postgres://me@a:1,b:2/db");
  });

  test("of several hosts means the one that takes writes, unless it says otherwise", () => {
    const writable = (url: string) => parseTarget(url, NO_HOME).writable;
    expect(writable("postgres://a/db")).toBe(false);
    expect(writable("postgres://a,b/db")).toBe(true);
    expect(writable("postgres://a,b/db?target_session_attrs=any")).toBe(false);
    expect(writable("postgres://a/db?target_session_attrs=read-write")).toBe(true);
    expect(parseTarget("postgres://a/db", { ...NO_HOME, PGTARGETSESSIONATTRS: "primary" }).writable).toBe(true);
  });

  test("has the password of each host from the file", () => {
    const folder = mkdtempSync(join(tmpdir(), "lease-pgpass-"));
    writeFileSync(join(folder, ".pgpass"), "a:*:*:*:one\nb:*:*:*:two\n", { mode: 0o600 });
    const { hosts } = parseTarget("postgres://u@a,b,c/d", { HOME: folder });
    expect(hosts.map(({ password }) => password)).toEqual(["one", "two", ""]);
    rmSync(folder, { recursive: true });
  });

  test("is printed without its password, and with its schema where that is not the usual one", () => {
    expect(target("postgres://me:hush@h/db").location).toBe("postgres://me@h:5432/db");
    expect(target("postgres://me:hush@h/db?schema=other&sslmode=require").location).toBe(
      "postgres://me@h:5432/db?schema=other",
    );
  });

  test.each([
    ["postgres://me:hush@h:x/db", "it is not one"],
    ["postgres://me:hush@h:0/db", "port 0"],
    ["postgres://me:hush@h/db?shema=x", 'unknown parameter "shema"'],
    ["postgres://me:hush@h/db?schema=", "is not a name"],
    ["postgres://me:hush@h/db?schema=a.b", "is not a name"],
    [`postgres://me:hush@h/db?schema=${"x".repeat(64)}`, "is not a name"],
    ["postgres://me:hush@h/db?schema=pg_temp", "reserved"],
    ["postgres://me:hush@h/db?sslmode=maybe", "sslmode"],
    ["postgres://me:hush@h/db?owner=", "is not a name"],
    ["postgres://me:hush@a:1,b:x/db", "it is not one"],
    ["postgres://me:hush@a,b,c/db?port=1,2", "3 hosts and 2 ports"],
    ["postgres://me:hush@a/db?target_session_attrs=standby", "target_session_attrs"],
    ["postgres://me:hush@a/db?sslmode=require&sslrootcert=system", "too weak"],
    ["postgres://me:hush@h/db?sslmode=verify-full&sslrootcert=/nowhere", "sslrootcert can't be read"],
    ["postgres://me:hu%sh@h/db", "write %25"],
  ])("that can't be used is refused without being repeated: %s", (url, why) => {
    expect(refusal(url)).toContain(why);
    expect(refusal(url)).not.toContain("hush");
  });

  test("asks for encryption as libpq does", () => {
    const folder = mkdtempSync(join(tmpdir(), "lease-root-"));
    const root = join(folder, "root.crt");
    writeFileSync(root, "certificate");
    const tls = (query: string, env = {}) => target(`postgres://h/db?${query}`, env).tls;
    expect(tls("")).toEqual({ mode: "prefer", asked: false, verify: false, files: {} });
    expect(tls("sslmode=require").verify).toBe(false);
    expect(tls(`sslmode=require&sslrootcert=${root}`)).toMatchObject({ verify: true, files: { ca: "certificate" } });
    expect(tls("sslmode=verify-ca").verify).toBe(true);
    expect(tls("sslrootcert=system")).toEqual({ mode: "verify-full", asked: false, verify: true, files: {} });
    mkdirSync(join(folder, ".postgresql"));
    copyFileSync(root, join(folder, ".postgresql/root.crt"));
    expect(tls("sslmode=require", { HOME: folder })).toMatchObject({ verify: true, files: { ca: "certificate" } });
    rmSync(folder, { recursive: true });
  });

  test("takes no key that others can read", () => {
    const folder = mkdtempSync(join(tmpdir(), "lease-key-"));
    const key = join(folder, "client.key");
    writeFileSync(key, "key", { mode: 0o600 });
    const url = `postgres://h/db?sslmode=require&sslkey=${key}`;
    expect(target(url).tls.files.key).toBe("key");
    chmodSync(key, 0o644);
    expect(refusal(url)).toContain("can be read by others: chmod 600");
    rmSync(folder, { recursive: true });
  });
});

describe("~/.pgpass", () => {
  const who = { host: "h", port: 5_432, database: "d", user: "u" };

  test("gives the password of the first line that fits", () => {
    const lines = ["# h:5432:d:u:comment", "h:5432:other:u:no", "*:*:d:u:yes", "h:5432:d:u:later"];
    expect(findPassword(lines.join("\n"), who)).toBe("yes");
    expect(findPassword("other:*:*:*:no", who)).toBeNull();
    expect(findPassword("", who)).toBeNull();
  });

  test("may hold colons and backslashes, with a backslash before them or in the password", () => {
    expect(findPassword("h:5432:d:u:a\\:b\\\\c", who)).toBe("a:b\\c");
    expect(findPassword("h:5432:d:u:a:b", who)).toBe("a:b");
    expect(findPassword("h:5432:a\\:b:u:yes", { ...who, database: "a:b" })).toBe("yes");
  });

  test("counts a socket's folder as this machine", () => {
    expect(findPassword("localhost:5432:d:u:yes", { ...who, host: "/run/postgresql" })).toBe("yes");
  });

  test("is read where nobody else says a password, and only if nobody else can read it", () => {
    const folder = mkdtempSync(join(tmpdir(), "lease-pgpass-"));
    const file = join(folder, ".pgpass");
    writeFileSync(file, "h:5432:d:u:from the file\n", { mode: 0o600 });
    expect(target("postgres://u@h/d", { HOME: folder }).password).toBe("from the file");
    expect(target("postgres://u@h/d", { HOME: folder, PGPASSWORD: "variable" }).password).toBe("variable");
    expect(target("postgres://u:url@h/d", { HOME: folder, PGPASSWORD: "variable" }).password).toBe("url");
    expect(target("postgres://u@h/d", { PGPASSFILE: file }).password).toBe("from the file");
    chmodSync(file, 0o644);
    expect(target("postgres://u@h/d", { HOME: folder })).toMatchObject({
      password: "",
      remarks: [`${file} is not used: others can read it; chmod 600 ${file}`],
    });
    // Who needs no password from it is not bothered.
    expect(target("postgres://u:url@h/d", { HOME: folder }).remarks).toEqual([]);
    rmSync(folder, { recursive: true });
  });

  test.skipIf(process.getuid?.() !== 0)("is not read when it belongs to another user", () => {
    const folder = mkdtempSync(join(tmpdir(), "lease-pgpass-"));
    const file = join(folder, ".pgpass");
    writeFileSync(file, "h:5432:d:u:planted\n", { mode: 0o600 });
    chownSync(file, 65_534, 65_534);
    const { password, remarks } = target("postgres://u@h/d", { HOME: folder });
    expect([password, remarks[0]]).toEqual(["", expect.stringContaining("belongs to another user")]);
    rmSync(folder, { recursive: true });
  });
});
