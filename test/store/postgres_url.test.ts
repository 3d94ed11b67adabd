/** Where a PostgreSQL store is and who asks: the URL, the variables, the file of passwords. */

import { describe, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LeaseError } from "../../src/core/errors.ts";
import { findPassword, parseTarget } from "../../src/store/postgres/session/url.ts";

const NO_HOME = { HOME: "/nowhere" };
const target = (url: string, env: Record<string, string> = {}) => parseTarget(url, { ...NO_HOME, ...env });

function refusal(url: string): string {
  try {
    target(url);
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
      ssl: false,
      connect_timeout_ms: 3_000,
    });
  });

  test("may leave everything to what other programs use", () => {
    const env = { PGHOST: "h", PGPORT: "1234", PGUSER: "u", PGPASSWORD: "p", PGDATABASE: "d", PGSSLMODE: "disable" };
    const { host, port, user, password, database, schema, ssl } = target("postgres://", env);
    expect([host, port, user, password, database, schema, ssl]).toEqual(["h", 1_234, "u", "p", "d", "lease", false]);
  });

  test("comes before what other programs use", () => {
    const env = { PGHOST: "h", PGPORT: "1", PGUSER: "u", PGPASSWORD: "p", PGDATABASE: "d" };
    const { host, port, user, password, database } = target("postgres://a:b@c:2/e", env);
    expect([host, port, user, password, database]).toEqual(["c", 2, "a", "b", "e"]);
  });

  test("has the user's own database, and this machine, where nobody says another", () => {
    expect(target("postgres://me@")).toMatchObject({ host: "localhost", port: 5_432, database: "me" });
  });

  test("can name a socket's folder", () => {
    const found = target("postgres://me@/db?host=/run/postgresql");
    expect(found).toMatchObject({ host: "/run/postgresql", ssl: false });
    expect(found.location).toBe("postgres://me@/db?host=/run/postgresql");
  });

  test("can name an address in brackets", () => {
    expect(target("postgres://me@[::1]:7/db")).toMatchObject({ host: "::1", port: 7 });
    expect(target("postgres://me@[::1]:7/db").location).toBe("postgres://me@[::1]:7/db");
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
    ["postgres://me:hush@h/db?sslmode=verify-full&sslrootcert=/nowhere", "sslrootcert can't be read"],
    ["postgres://me:hu%sh@h/db", "write %25"],
  ])("that can't be used is refused without being repeated: %s", (url, why) => {
    expect(refusal(url)).toContain(why);
    expect(refusal(url)).not.toContain("hush");
  });

  test("asks for encryption as libpq does", () => {
    const ssl = (mode: string) => target(`postgres://h/db?sslmode=${mode}`).ssl;
    expect(ssl("prefer")).toBe("prefer");
    expect(ssl("allow")).toBe("prefer");
    expect(ssl("require")).toBe("require");
    expect(ssl("verify-full")).toEqual({});
    expect(ssl("verify-ca")).toMatchObject({ checkServerIdentity: expect.any(Function) });
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
    expect(target("postgres://u@h/d", { HOME: folder }).password).toBe("");
    rmSync(folder, { recursive: true });
  });
});
