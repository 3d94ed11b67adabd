// Makes everything that a release consists of, from the commit that is checked out. The same commit gives the same bytes.
//
// Publishing is somebody else's: .github/workflows/release.yml does it.

import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { join, resolve } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import manifest from "../package.json" with { type: "json" };
import { packCommand, packLibrary, pageAlone } from "./pack.ts";
import { gzip, tar, type Entry } from "./release/archive.ts";
import { formula } from "./release/formula.ts";
import { deb, MAINTAINER, rpm } from "./release/packages.ts";
import { sbom } from "./release/sbom.ts";
import { TARGETS, targetNamed, type Target } from "./release/targets.ts";

const USAGE = `bun scripts/release.ts                      dist/release: archives, .deb, .rpm, npm packages, lease.js, install.sh,
                                            a Homebrew formula, SBOM, SHA256SUMS
bun scripts/release.ts --target linux-x64   only what is made for this system; can be repeated
bun scripts/release.ts --out DIR            there instead`;

const ROOT = resolve(import.meta.dir, "..");

interface Origin {
  commit: string;
  /** When that was made. */
  at_s: number;
}

function ran(argv: readonly string[], cwd = ROOT, env: Readonly<Record<string, string>> = {}): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync([...argv], { cwd, env: { ...process.env, ...env } });
  if (exitCode !== 0) throw new Error(`${argv.join(" ")} ended with ${exitCode}:\n${stderr.toString()}`);
  return stdout.toString();
}

function origin(): Origin {
  const [commit = "", at = "0"] = ran(["git", "log", "-1", "--format=%H %ct"]).trim().split(" ");
  return { commit, at_s: Number(at) };
}

/** What goes along with the executable, wherever it is installed. */
interface Companions {
  man: Buffer;
  bash: Buffer;
  zsh: Buffer;
  fish: Buffer;
  license: Buffer;
  readme: Buffer;
  changelog: Buffer;
}

function companions(work: string, { at_s }: Origin): Companions {
  const man = join(work, "lease.1");
  ran([process.execPath, "scripts/man.ts", "--outfile", man], ROOT, { SOURCE_DATE_EPOCH: String(at_s) });
  const completion = (shell: string) => Buffer.from(ran([process.execPath, "src/main.ts", "completions", shell]));
  return {
    man: readFileSync(man),
    bash: completion("bash"),
    zsh: completion("zsh"),
    fish: completion("fish"),
    license: readFileSync(join(ROOT, "LICENSE")),
    readme: Buffer.from(pageAlone("README.md")),
    changelog: readFileSync(join(ROOT, "CHANGELOG.md")),
  };
}

function compiled(target: Target, { commit }: Origin, work: string): Buffer {
  const outfile = join(work, `lease-${target.name}`);
  const flags = ["--target", target.bun, "--commit", commit, "--outfile", outfile];
  ran([process.execPath, "scripts/build.ts", ...flags]);
  return readFileSync(outfile);
}

/** Under a folder of its own, with what a package of the system would put into its places. */
function archive(program: Buffer, with_it: Companions): Entry[] {
  return [
    { path: "lease", content: program, executable: true },
    { path: "LICENSE", content: with_it.license },
    { path: "README.md", content: with_it.readme },
    { path: "share/man/man1/lease.1", content: with_it.man },
    { path: "share/bash-completion/completions/lease", content: with_it.bash },
    { path: "share/zsh/site-functions/_lease", content: with_it.zsh },
    { path: "share/fish/vendor_completions.d/lease.fish", content: with_it.fish },
  ];
}

function installedFiles(program: Buffer, with_it: Companions, kind: "deb" | "rpm", { at_s }: Origin): Entry[] {
  const zsh = kind === "deb" ? "vendor-completions" : "site-functions";
  const papers: Entry[] =
    kind === "deb"
      ? [
          { path: "usr/share/doc/lease/NEWS.gz", content: gzip(with_it.changelog) },
          { path: "usr/share/doc/lease/changelog.gz", content: gzip(debianChangelog(at_s)) },
          { path: "usr/share/doc/lease/copyright", content: copyright(with_it.license, at_s) },
        ]
      : [{ path: "usr/share/licenses/lease/LICENSE", content: with_it.license }];
  return [
    { path: "usr/bin/lease", content: program, executable: true },
    { path: "usr/share/bash-completion/completions/lease", content: with_it.bash },
    ...papers,
    { path: "usr/share/fish/vendor_completions.d/lease.fish", content: with_it.fish },
    { path: "usr/share/man/man1/lease.1.gz", content: gzip(with_it.man) },
    { path: `usr/share/zsh/${zsh}/_lease`, content: with_it.zsh },
  ];
}

/** In the form that Debian's tools read. */
function copyright(license: Buffer, at_s: number): Buffer {
  const [head = "", holder = "", ...terms] = license.toString().trim().split("\n\n");
  const text = [head, ...terms].join("\n\n").replaceAll(/^$/gm, ".").replaceAll(/^/gm, " ");
  return Buffer.from(
    `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n` +
      `Files: *\nCopyright: ${new Date(at_s * 1_000).getUTCFullYear()} ${holder.replace(/^Copyright \(c\) /i, "")}\nLicense: MIT\n${text}\n`,
  );
}

function debianChangelog(at_s: number): Buffer {
  const date = new Date(at_s * 1_000).toUTCString().replace("GMT", "+0000");
  const entry = `lease (${manifest.version}) unstable; urgency=medium\n\n  * What is new is in NEWS.gz.`;
  return Buffer.from(`${entry}\n\n -- ${MAINTAINER}  ${date}\n`);
}

async function release(out: string, targets: readonly Target[]): Promise<void> {
  const { version } = manifest;
  const from = origin();
  const work = join(out, ".work");
  rmSync(out, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  const put = (name: string, bytes: Uint8Array | string) => {
    writeFileSync(join(out, name), bytes);
    console.log(`${name}  ${(Buffer.byteLength(bytes) / 1e6).toFixed(1)} MB`);
  };

  const with_it = companions(work, from);
  for (const target of targets) {
    const program = compiled(target, from, work);
    const name = `lease-${version}-${target.name}`;
    put(`${name}.tar.gz`, gzip(tar(archive(program, with_it), from.at_s, `${name}/`)));
    const info = { version, at_s: from.at_s };
    if (target.deb) {
      const files = installedFiles(program, with_it, "deb", from);
      put(`lease_${version}_${target.deb}.deb`, deb(files, { ...info, arch: target.deb }));
    }
    if (target.rpm) {
      const files = installedFiles(program, with_it, "rpm", from);
      put(`lease-${version}-1.${target.rpm}.rpm`, rpm(files, { ...info, arch: target.rpm }));
    }
  }

  ran([process.execPath, "scripts/build.ts", "--script", "--commit", from.commit, "--outfile", join(work, "lease.js")]);
  put("lease.js", readFileSync(join(work, "lease.js")));
  put("install.sh", readFileSync(join(ROOT, "install.sh")));
  put("lease.cdx.json", sbom(from));
  await npmPackages(out, work, targets);
  const sums = digestsOf(out);
  if (TARGETS.every(({ name }) => sums.has(`lease-${version}-${name}.tar.gz`))) put("lease.rb", formula(version, sums));
  put("SHA256SUMS", [...digestsOf(out)].map(([name, digest]) => `${digest}  ${name}\n`).join(""));
  rmSync(work, { recursive: true });
}

async function npmPackages(out: string, work: string, targets: readonly Target[]): Promise<void> {
  const folder = join(work, "npm");
  await packLibrary(join(folder, "queue"));
  packCommand(folder, (target) => {
    const built = join(work, `lease-${target.name}`);
    return targets.includes(target) && existsSync(built) ? built : null;
  });
  for (const name of readdirSync(folder).toSorted()) {
    const tarball = ran(["npm", "pack", "--silent", "--pack-destination", work], join(folder, name)).trim();
    cpSync(join(work, tarball), join(out, tarball));
    console.log(tarball);
  }
}

function digestsOf(folder: string): Map<string, string> {
  const names = readdirSync(folder).filter((name) => !name.startsWith(".") && name !== "SHA256SUMS");
  const digest = (name: string) =>
    createHash("sha256")
      .update(readFileSync(join(folder, name)))
      .digest("hex");
  return new Map(names.toSorted().map((name) => [name, digest(name)]));
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { out: { type: "string" }, target: { type: "string", multiple: true }, help: { type: "boolean" } },
  });
  if (values.help) console.log(USAGE);
  else {
    const targets = values.target?.map((name) => targetNamed(name)) ?? TARGETS;
    await release(resolve(values.out ?? join(ROOT, "dist/release")), targets);
  }
}
