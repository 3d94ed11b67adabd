/** install.sh with the files of a release in a folder: what it puts where, and what it refuses. */

import { afterAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
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
function release(version: string): { from: string; home: string } {
  const folder = mkdtempSync(join(tmpdir(), "lease-install-"));
  folders.push(folder);
  const from = join(folder, "release");
  mkdirSync(from);
  const sums = TARGETS.map(({ name }) => {
    const file = `lease-${version}-${name}.tar.gz`;
    const files = [
      { path: "lease", content: Buffer.from(`#!/bin/sh\necho lease ${version} ${name}\n`), executable: true },
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

  test("knows systems that lease is not built for", async () => {
    const place = release("1.2.3");
    const bin = join(place.from, "bin");
    mkdirSync(bin);
    writeFileSync(join(bin, "uname"), '#!/bin/sh\ncase $1 in -s) echo "$SYSTEM" ;; -m) echo "$MACHINE" ;; esac\n', {
      mode: 0o755,
    });
    const on = (SYSTEM: string, MACHINE: string) =>
      install(place, { SYSTEM, MACHINE, PATH: `${bin}:${process.env["PATH"]}` });
    expect((await on("Linux", "riscv64")).stderr).toContain("lease is not built for riscv64");
    expect((await on("MINGW64_NT", "x86_64")).stderr).toContain("on Windows use WSL 2");
    expect((await on("Darwin", "arm64")).stderr).toContain("installed lease 1.2.3 darwin-arm64");
  });

  test("is of one mind with package.json about where releases are", () => {
    const [, repository] = /^repository=(.*)$/m.exec(readFileSync(INSTALL, "utf8")) ?? [];
    expect(`https://github.com/${repository}`).toBe(manifest.homepage);
  });
});
