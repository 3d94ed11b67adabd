/** Archives and packages, judged by the tools that will read them; where a machine has none of those, not at all. */

import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import manifest from "../../package.json" with { type: "json" };
import { gzip, tar, type Entry } from "../../scripts/release/archive.ts";
import { formula } from "../../scripts/release/formula.ts";
import { signedAdHoc, unsignedPages } from "../../scripts/release/mach_o.ts";
import { deb, rpm } from "../../scripts/release/packages.ts";
import { sbom } from "../../scripts/release/sbom.ts";
import { pageAlone } from "../../scripts/pack.ts";
import { TARGETS } from "../../scripts/release/targets.ts";
import { ROOT, run } from "../cli/lease.ts";

const folder = mkdtempSync(join(tmpdir(), "lease-release-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const AT_S = 1_800_000_000;
const FILES: Entry[] = [
  { path: "usr/bin/lease", content: Buffer.from("#!/bin/sh\necho 'lease 1.2.3'\n"), executable: true },
  { path: "usr/share/licenses/lease/LICENSE", content: Buffer.from("MIT") },
  { path: "usr/share/man/man1/lease.1.gz", content: gzip(Buffer.from(".TH LEASE 1\n")) },
];
const INFO = { version: "1.2.3", at_s: AT_S };

function file(name: string, bytes: Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

const answerOf = async (...argv: string[]) => {
  const { code, stdout, stderr } = await run(argv, { env: { TZ: "UTC", LC_ALL: "C" } });
  expect({ argv, code, stderr }).toMatchObject({ code: 0 });
  return stdout;
};

/** Tools of the system; `test.if` skips what needs one that is not there, and bun says so. */
const withTool = (...names: string[]) => test.if(names.every((name) => Bun.which(name) !== null));

describe("an archive", () => {
  test("is what tar reads, with modes and times, and the same bytes every time", async () => {
    const made = gzip(tar(FILES, AT_S, "lease-1.2.3-linux-x64/"));
    expect(gzip(tar(FILES, AT_S, "lease-1.2.3-linux-x64/")).equals(made)).toBe(true);
    const listed = await answerOf("tar", "-tvzf", file("a.tar.gz", made));
    expect(listed).toContain("-rwxr-xr-x root/root        29 2027-01-15 08:00 lease-1.2.3-linux-x64/usr/bin/lease\n");
    expect(listed).toContain("drwxr-xr-x root/root         0 2027-01-15 08:00 lease-1.2.3-linux-x64/usr/share/man/\n");
  });

  test("is named so that mise, aqua and ubi know the system", () => {
    // What they look for in a name, in their words for systems and processors.
    const system = { linux: /linux/, darwin: /darwin|macos|osx|apple/ };
    const cpu = { x64: /(?:^|[-_.])(?:x86_64|x64|amd64)(?:[-_.]|$)/, arm64: /(?:^|[-_.])(?:aarch64|arm64)(?:[-_.]|$)/ };
    for (const target of TARGETS) {
      const name = `lease-${manifest.version}-${target.name}.tar.gz`;
      const systems = Object.entries(system).filter(([, pattern]) => pattern.test(name));
      const cpus = Object.entries(cpu).filter(([, pattern]) => pattern.test(name));
      expect([systems.map(([os]) => os), cpus.map(([kind]) => kind)]).toEqual([[target.os], [target.cpu]]);
      expect(name.includes("musl")).toBe(target.libc === "musl");
    }
  });
});

test("a page that is away from the others has no link to what is not beside it", () => {
  for (const path of ["README.md", "docs/library.md"]) {
    const page = pageAlone(path).replaceAll(/^```[^]*?^```$/gm, "");
    const links = [...page.matchAll(/\]\(([^)]+)\)|(?:src|href)="([^"]+)"/g)].map(([, a, b]) => a ?? b ?? "");
    expect(links.length).toBeGreaterThan(1);
    expect(links.filter((link) => !link.startsWith("https://") && !link.startsWith("#"))).toEqual([]);
  }
  expect(pageAlone("README.md")).toContain("/raw/main/docs/images/tour.svg)");
  expect(pageAlone("docs/library.md")).toContain("/blob/main/docs/observability.md#traces)");
});

describe("a package", () => {
  withTool("dpkg-deb")("for Debian is what dpkg-deb reads and unpacks", async () => {
    const made = deb(FILES, { ...INFO, arch: "arm64" });
    expect(deb(FILES, { ...INFO, arch: "arm64" }).equals(made)).toBe(true);
    const path = file("a.deb", made);
    const fields = await answerOf("dpkg-deb", "-f", path, "Package", "Version", "Architecture", "Homepage");
    expect(fields).toBe(`Package: lease\nVersion: 1.2.3\nArchitecture: arm64\nHomepage: ${manifest.homepage}\n`);
    await answerOf("dpkg-deb", "-R", path, join(folder, "deb"));
    expect(await answerOf(join(folder, "deb/usr/bin/lease"))).toBe("lease 1.2.3\n");
    const sums = await run(["md5sum", "-c", "DEBIAN/md5sums"], { cwd: join(folder, "deb") });
    expect(sums).toMatchObject({ code: 0 });
  });

  withTool("rpm")("for RPM is what rpm checks, lists and unpacks", async () => {
    const made = rpm(FILES, { ...INFO, arch: "x86_64" });
    expect(rpm(FILES, { ...INFO, arch: "x86_64" }).equals(made)).toBe(true);
    const path = file("a.rpm", made);
    const checked = await answerOf("rpm", "-Kv", path);
    expect(checked.match(/: OK/g)).toHaveLength(4);
    expect(checked).not.toMatch(/BAD|NOT OK/);
    expect(await answerOf("rpm", "-qp", "--qf", "%{NVRA} %{LICENSE}\n", path)).toBe("lease-1.2.3-1.x86_64 MIT\n");
    const listed = await answerOf("rpm", "-qpl", "--dump", path);
    const [first = ""] = listed.split("\n");
    expect(first).toMatch(/^\/usr\/bin\/lease 29 1800000000 [0-9a-f]{64} 0100755 root root 0 0 0 X$/);
    expect(await answerOf("rpm", "-qp", "--licensefiles", path)).toBe("/usr/share/licenses/lease/LICENSE\n");
  });

  withTool("rpm")("that was changed on the way is noticed", async () => {
    const made = rpm(FILES, { ...INFO, arch: "x86_64" });
    made.writeUInt8(made.readUInt8(made.length - 9) ^ 1, made.length - 9);
    expect((await run(["rpm", "-K", file("b.rpm", made)])).code).not.toBe(0);
  });

  withTool("rpm2cpio", "cpio")("has the files in it that it lists", async () => {
    const path = file("c.rpm", rpm(FILES, { ...INFO, arch: "aarch64" }));
    const listed = await answerOf("sh", "-c", `rpm2cpio ${path} | cpio -t --quiet`);
    expect(listed.trim().split("\n")).toEqual(FILES.map((entry) => `./${entry.path}`));
  });
});

describe("the list of parts", () => {
  test("names every package that is bundled, once, with its digest and licence", () => {
    const { components, serialNumber, metadata } = JSON.parse(sbom({ commit: "c0ffee", at_s: AT_S }));
    const names = (components as { name: string; hashes?: unknown; licenses?: unknown }[]).map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining([...Object.keys(manifest.dependencies), "bun", "sqlite", "tdigest"]));
    expect(new Set(names).size).toBe(names.length);
    for (const part of components.filter((c: { purl: string }) => /npm\/(?!bun@)/.test(c.purl))) {
      expect(part).toMatchObject({ hashes: [{ alg: "SHA-512" }], licenses: [{ license: {} }] });
    }
    expect(serialNumber).toMatch(/^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(metadata.timestamp).toBe("2027-01-15T08:00:00Z");
    expect(sbom({ commit: "c0ffee", at_s: AT_S })).toBe(sbom({ commit: "c0ffee", at_s: AT_S }));
  });
});

describe("the formula", () => {
  const digests = new Map(TARGETS.map(({ name }) => [`lease-1.2.3-${name}.tar.gz`, `digest-of-${name}`]));

  test("has an archive and its digest for each system that brew knows", async () => {
    const text = formula("1.2.3", digests);
    for (const name of ["darwin-arm64", "darwin-x64", "linux-arm64", "linux-x64"]) {
      expect(text).toContain(`/v1.2.3/lease-1.2.3-${name}.tar.gz"\n      sha256 "digest-of-${name}"`);
    }
    if (Bun.which("ruby")) expect(await answerOf("ruby", "-c", file("lease.rb", Buffer.from(text)))).toContain("OK");
  });

  test("is not made for a release that is not whole", () => {
    expect(() => formula("1.2.4", digests)).toThrow("needs lease-1.2.4-darwin-arm64.tar.gz");
  });
});

/** The least that has a place for a signature: a header, two segments and the command, then some pages. */
function machO(pages: number): Buffer {
  const program = Buffer.alloc(pages * 4096 + 100, 7);
  program.fill(0, 0, 32 + 72 + 72 + 16);
  program.writeUInt32LE(0xfeedfacf, 0);
  program.writeUInt32LE(3, 16);
  const segment = (at: number, name: string, offset: number, size: number) => {
    program.writeUInt32LE(0x19, at);
    program.writeUInt32LE(72, at + 4);
    program.write(name, at + 8);
    program.writeBigUInt64LE(BigInt(offset), at + 40);
    program.writeBigUInt64LE(BigInt(size), at + 48);
  };
  segment(32, "__TEXT", 0, 4096);
  segment(104, "__LINKEDIT", 4096, program.length - 4096);
  program.writeUInt32LE(0x1d, 176);
  program.writeUInt32LE(16, 180);
  program.writeUInt32LE(pages * 4096, 184);
  program.writeUInt32LE(100, 188);
  return program;
}

describe("a program for macOS", () => {
  test("is signed page by page, and a changed page shows", () => {
    expect(unsignedPages(machO(3))).toBe(null);
    const signed = signedAdHoc(machO(3), "lease");
    expect(unsignedPages(signed)).toBe(0);
    expect(unsignedPages(signedAdHoc(signed, "lease"))).toBe(0);
    signed.writeUInt8(8, 5000);
    expect(unsignedPages(signed)).toBe(1);
  });

  test("is not taken for one when it is not", () => {
    expect(() => signedAdHoc(Buffer.alloc(64), "lease")).toThrow("no 64-bit Mach-O");
  });
});

test("lease.js is the same in one file, for a Bun that is there", async () => {
  const outfile = join(folder, "lease.js");
  await answerOf(process.execPath, join(ROOT, "scripts/build.ts"), "--script", "--outfile", outfile);
  const env = { LEASE_STORE: join(folder, "store/lease.db") };
  const answer = await run([process.execPath, outfile, "run", "-c", "echo by a script; exit 3"], { env });
  expect(answer).toMatchObject({ code: 3, stdout: "by a script\n" });
  expect((await Bun.file(outfile).text()).startsWith("#!/usr/bin/env bun\n")).toBe(true);
});

test("two builds of the same commit are the same, byte by byte", async () => {
  const digest = async (name: string): Promise<string> => {
    // Its own name is part of an executable.
    const outfile = join(folder, name, "lease");
    await answerOf(process.execPath, join(ROOT, "scripts/build.ts"), "--commit", "c0ffee", "--outfile", outfile);
    const hash = new Bun.CryptoHasher("sha256").update(await Bun.file(outfile).arrayBuffer()).digest("hex");
    expect(await answerOf(outfile, "version", "--json")).toContain('"commit":"c0ffee"');
    return hash;
  };
  expect(await digest("one")).toBe(await digest("two"));
}, 60_000);
