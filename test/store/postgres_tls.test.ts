/** Encrypted connections as libpq makes them, against a server with a certificate of a real authority. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LeaseError } from "../../src/core/errors.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import { newJob } from "../support/jobs.ts";
import { newSchema, startPostgres, type Server } from "../support/postgres.ts";
import { Proxy } from "../support/proxy.ts";

setDefaultTimeout(30_000);

const clearing: (() => unknown)[] = [];
afterAll(async () => {
  for (const clear of clearing.toReversed()) await clear();
});

const notices: string[] = [];

/** Says whether the connection is encrypted, by what the server says of it. */
async function use(url: string): Promise<boolean> {
  notices.length = 0;
  const env = { HOME: "/nowhere" };
  const options = { clock: systemClock, random: systemRandom, retry_limit_ms: 500, env };
  const store = await openPostgres(url, { ...options, notice: (text) => notices.push(text) });
  try {
    await store.enqueue([newJob()]);
    // The listener is a connection of its own.
    store.watch(() => {})();
    const found = await store.diagnose();
    return found.some(({ name, value }) => name === "connection" && value.startsWith("encrypted"));
  } finally {
    await store.close();
  }
}

async function refusal(url: string): Promise<LeaseError> {
  const error = await use(url).then(
    () => null,
    (reason: unknown) => reason,
  );
  if (error instanceof LeaseError) return error;
  throw new Error(`expected a LeaseError, got ${String(error)}`);
}

function openssl(...words: string[]): void {
  const made = Bun.spawnSync(["openssl", ...words]);
  if (!made.success) throw new Error(made.stderr.toString());
}

/** An authority, and a certificate of it for `localhost` alone. */
function certificates(folder: string, name: string) {
  const path = (file: string) => join(folder, `${name}.${file}`);
  const [root, root_key, key, request, cert] = ["root", "rootkey", "key", "csr", "crt"].map(path) as [
    string,
    ...string[],
  ];
  const authority = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", `/CN=${name} authority`];
  openssl("req", ...authority, "-keyout", String(root_key), "-out", root);
  openssl(
    "req",
    "-newkey",
    "rsa:2048",
    "-nodes",
    "-subj",
    "/CN=localhost",
    "-keyout",
    String(key),
    "-out",
    String(request),
  );
  writeFileSync(path("ext"), "subjectAltName=DNS:localhost\n");
  const signed = ["-CA", root, "-CAkey", String(root_key), "-CAcreateserial", "-days", "2", "-extfile", path("ext")];
  openssl("x509", "-req", "-in", String(request), ...signed, "-out", String(cert));
  return { root, key: String(key), cert: String(cert) };
}

const OPENSSL = Bun.which("openssl");
if (OPENSSL === null) console.warn("SKIPPED: encrypted connections, for which this test needs openssl");

describe.skipIf(OPENSSL === null)("an encrypted connection", () => {
  let server: Server;
  let by_name: string;
  let by_address: string;
  let root: string;
  let other_root: string;

  beforeAll(async () => {
    const folder = mkdtempSync(join(tmpdir(), "lease-tls-"));
    clearing.push(() => rmSync(folder, { recursive: true, force: true }));
    const own = certificates(folder, "own");
    root = own.root;
    other_root = certificates(folder, "other").root;
    chmodSync(folder, 0o755);
    if (process.getuid?.() === 0) {
      const owner = Number(Bun.spawnSync(["id", "-u", "postgres"]).stdout.toString());
      for (const file of [own.key, own.cert]) chownSync(file, owner, 0);
    }
    server = await startPostgres(["ssl=on", `ssl_cert_file=${own.cert}`, `ssl_key_file=${own.key}`]);
    clearing.push(() => server.stop());
    by_address = server.url;
    by_name = server.url.replace("127.0.0.1", "localhost");
  });

  test("is made wherever the server offers it, unless somebody does not want it", async () => {
    for (const query of ["", "?sslmode=allow", "?sslmode=prefer", "?sslmode=require"]) {
      expect([query, await use(`${by_address}${query}`), notices]).toEqual([query, true, []]);
    }
    expect([await use(`${by_address}?sslmode=disable`), notices]).toEqual([false, []]);
  });

  test("by verify-full needs the right authority and the right name", async () => {
    expect(await use(`${by_name}?sslmode=verify-full&sslrootcert=${root}`)).toBe(true);
    const wrong_name = await refusal(`${by_address}?sslmode=verify-full&sslrootcert=${root}`);
    expect([wrong_name.code, wrong_name.exit_code]).toEqual(["store_untrusted", 125]);
    expect(wrong_name.message).toContain("no certificate that can be trusted");
    const wrong_authority = await refusal(`${by_name}?sslmode=verify-full&sslrootcert=${other_root}`);
    expect(wrong_authority.code).toBe("store_untrusted");
    expect((await refusal(`${by_name}?sslmode=verify-full`)).code).toBe("store_untrusted");
    expect((await refusal(`${by_name}?sslrootcert=system`)).code).toBe("store_untrusted");
  });

  test("by verify-ca needs the right authority alone", async () => {
    expect(await use(`${by_address}?sslmode=verify-ca&sslrootcert=${root}`)).toBe(true);
    expect((await refusal(`${by_address}?sslmode=verify-ca&sslrootcert=${other_root}`)).code).toBe("store_untrusted");
  });

  test("by require checks the authority where one is named", async () => {
    expect(await use(`${by_address}?sslmode=require&sslrootcert=${root}`)).toBe(true);
    const error = await refusal(`${by_address}?sslmode=require&sslrootcert=${other_root}`);
    expect([error.code, error.message.includes("secret")]).toEqual(["store_untrusted", false]);
  });

  test("is not mistaken for one by what somebody puts behind the server's yes", async () => {
    const stuffed = createServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", () => socket.write("SE\0\0\0\x08\0\0"));
    });
    await new Promise<void>((resolve) => stuffed.listen(0, "127.0.0.1", resolve));
    clearing.push(() => stuffed.close());
    const { port } = stuffed.address() as { port: number };
    const error = await refusal(`postgres://me@127.0.0.1:${port}/db?sslmode=require`);
    expect(error.message).toContain("answers to encryption with something else");
  });

  test("that is cut is made again as it was", async () => {
    const proxy = await Proxy.before(server.port);
    clearing.push(() => proxy.close());
    const url = `${by_name}?sslmode=verify-full&sslrootcert=${root}`.replace(`:${server.port}`, `:${proxy.port}`);
    const store = await openPostgres(url, { clock: systemClock, random: systemRandom });
    await store.enqueue([newJob()]);
    proxy.cut();
    expect(await store.now()).toBeGreaterThan(0);
    await store.close();
  });
});

describe("a server that does not encrypt", () => {
  test("is used by prefer, which says so once, and of this machine only if it was asked for", async () => {
    const schema = await newSchema();
    clearing.push(() => schema.drop());
    expect([await use(`${schema.url}&sslmode=prefer`), notices.length]).toEqual([false, 1]);
    expect(notices[0]).toContain("is not encrypted, as the server at 127.0.0.1 does not offer it");
    expect(notices[0]).not.toContain("secret");
    expect([await use(schema.url), notices]).toEqual([false, []]);
  });

  test("is refused by everything that insists", async () => {
    const schema = await newSchema();
    clearing.push(() => schema.drop());
    for (const mode of ["require", "verify-ca", "verify-full"]) {
      const error = await refusal(`${schema.url}&sslmode=${mode}`);
      expect([mode, error.code]).toEqual([mode, "store_untrusted"]);
      expect(error.message).toContain("does not encrypt");
    }
  });
});
