/** install.sh with the files of a release in a folder: what it puts where, and what it refuses. */

import { afterAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import manifest from "../../package.json" with { type: "json" };
import { gzip, tar } from "../../scripts/release/archive.ts";
import { TARGETS } from "../../scripts/release/targets.ts";
import { ROOT, run } from "../cli/lease.ts";

const INSTALL = join(ROOT, "install.sh");
const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** A release whose executable only knows its version. */
function release(version: string, program = `echo lease ${version}`): { from: string; home: string } {
  const folder = mkdtempSync(join(tmpdir(), "lease-install-"));
  folders.push(folder);
  const from = join(folder, "release");
  mkdirSync(from);
  const sums = TARGETS.map(({ name }) => {
    const file = `lease-${version}-${name}.tar.gz`;
    const files = [
      { path: "lease", content: Buffer.from(`#!/bin/sh\n${program} ${name}\n`), executable: true },
      { path: "share/man/man1/lease.1", content: Buffer.from(".TH LEASE 1\n") },
    ];
    const bytes = gzip(tar(files, 0, `lease-${version}-${name}/`));
    writeFileSync(join(from, file), bytes);
    return `${createHash("sha256").update(bytes).digest("hex")}  ${file}\n`;
  });
  writeFileSync(join(from, "SHA256SUMS"), sums.join(""));
  return { from, home: join(folder, "home") };
}

const install = ({ from, home }: { from: string; home: string }, env: Record<string, string> = {}) =>
  run(["sh", INSTALL], { env: { HOME: home, LEASE_FROM: from, ...env } });

const canMount = Bun.spawnSync(["unshare", "--mount", "true"]).exitCode === 0;
if (!canMount) console.warn("SKIPPED: a mount of one's own takes root (unshare --mount)");

describe("install.sh", () => {
  test("puts the executable of this system and its man page below ~/.local, and says so", async () => {
    const place = release("1.2.3");
    const { code, stdout, stderr } = await install(place);
    expect([code, stdout]).toEqual([0, ""]);
    const bin = join(place.home, ".local/bin/lease");
    expect(stderr).toContain("SHA-256 is as the release says");
    expect(stderr).toContain(`installed lease 1.2.3 ${process.platform}-${process.arch}`);
    expect(stderr).toContain(`${join(place.home, ".local/bin")} is not on your PATH`);
    expect(statSync(bin).mode & 0o777).toBe(0o755);
    expect(readFileSync(join(place.home, ".local/share/man/man1/lease.1"), "utf8")).toContain("LEASE");
    // Again, over what is there.
    expect((await install(place)).code).toBe(0);
  });

  test("takes another place, and the version that is asked for", async () => {
    const place = release("2.0.0");
    const prefix = join(place.home, "opt");
    expect((await install(place, { LEASE_PREFIX: prefix, LEASE_VERSION: "2.0.0" })).code).toBe(0);
    expect(existsSync(join(prefix, "bin/lease"))).toBe(true);
    // As its tag is written.
    expect((await install(place, { LEASE_VERSION: "v2.0.0" })).code).toBe(0);
    const other = await install(place, { LEASE_VERSION: "2.0.1" });
    expect(other).toMatchObject({ code: 1, stderr: expect.stringContaining("this release has no 2.0.1 for") });
  });

  test("installs nothing when the digest is another", async () => {
    const place = release("1.2.3");
    const file = join(place.from, `lease-1.2.3-${process.platform}-${process.arch}.tar.gz`);
    writeFileSync(file, Buffer.concat([readFileSync(file), Buffer.from("x")]));
    expect(await install(place)).toMatchObject({ code: 1, stderr: expect.stringContaining("nothing was installed") });
    expect(existsSync(place.home)).toBe(false);
  });

  test("says where it may not write before it fetches anything", async () => {
    const place = release("1.2.3");
    const prefix = join(place.from, "SHA256SUMS");
    const { code, stderr } = await install(place, { LEASE_PREFIX: prefix });
    expect(code).toBe(1);
    expect(stderr).toBe(`install.sh: you may not write to ${prefix}/bin: LEASE_PREFIX=FOLDER names another place\n`);
  });

  test("says so when it does not know where to, and means a folder from here by a name from here", async () => {
    const place = release("1.2.3");
    const script = `unset HOME; exec sh ${INSTALL}`;
    const { code, stderr } = await run(["sh", "-c", script], { env: { LEASE_FROM: place.from } });
    expect([code, stderr]).toEqual([1, "install.sh: HOME is not set: LEASE_PREFIX=FOLDER names a place\n"]);
    const env = { HOME: place.home, LEASE_FROM: place.from, LEASE_PREFIX: "here" };
    const answer = await run(["sh", INSTALL], { cwd: place.from, env });
    expect(answer.stderr).toContain(`export PATH="${place.from}/here/bin:$PATH"`);
  });

  test.if(canMount)("needs no temporary folder that programs may be started from", async () => {
    const place = release("1.2.3");
    const work = join(place.from, "work");
    mkdirSync(work);
    const line = `mount -t tmpfs -o noexec none ${work} && exec sh ${INSTALL}`;
    const env = { HOME: place.home, LEASE_FROM: place.from, TMPDIR: work };
    expect(await run(["unshare", "--mount", "sh", "-c", line], { env })).toMatchObject({ code: 0 });
    expect(readdirSync(join(place.home, ".local/bin"))).toEqual(["lease"]);
  });

  test("leaves what is there when the new one does not run here", async () => {
    const place = release("1.2.3");
    expect((await install(place)).code).toBe(0);
    const { code, stderr } = await install({ ...release("1.2.4", "exit 1"), home: place.home });
    expect([code, stderr]).toEqual([1, expect.stringContaining("does not run on this machine")]);
    const bin = join(place.home, ".local/bin");
    expect(readdirSync(bin)).toEqual(["lease"]);
    expect(readFileSync(join(bin, "lease"), "utf8")).toContain("1.2.3");
  });

  /** A program of the system that says what it is told to. */
  function stub(place: { from: string }, name: string, script: string): string {
    const bin = join(place.from, "bin");
    mkdirSync(bin, { recursive: true });
    writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    return `${bin}:${process.env["PATH"]}`;
  }

  test("knows the C library by what its own tool says, whatever other one is there", async () => {
    const place = release("1.2.3");
    const PATH = stub(place, "ldd", 'echo "$LIBRARY"; exit 1');
    const name = `${process.platform}-${process.arch}`;
    expect((await install(place, { PATH, LIBRARY: "musl libc (x86_64)" })).stderr).toContain(`1.2.3 ${name}-musl as`);
    expect((await install(place, { PATH, LIBRARY: "ldd (GNU libc) 2.36" })).stderr).toContain(`1.2.3 ${name} as`);
  });

  test("knows systems that lease is not built for", async () => {
    const place = release("1.2.3");
    const PATH = stub(place, "uname", 'case $1 in -s) echo "$SYSTEM" ;; -m) echo "$MACHINE" ;; esac');
    const on = (SYSTEM: string, MACHINE: string) => install(place, { SYSTEM, MACHINE, PATH });
    expect((await on("Linux", "riscv64")).stderr).toContain("lease is not built for riscv64");
    expect((await on("MINGW64_NT", "x86_64")).stderr).toContain("on Windows use WSL 2");
    expect((await on("Darwin", "arm64")).stderr).toContain("installed lease 1.2.3 darwin-arm64");
  });

  test("is of one mind with package.json about where releases are", () => {
    const [, repository] = /^repository=(.*)$/m.exec(readFileSync(INSTALL, "utf8")) ?? [];
    expect(`https://github.com/${repository}`).toBe(manifest.homepage);
  });
});
