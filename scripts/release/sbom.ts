/** What is in a release, as CycloneDX has it (1.6, JSON): the packages that are bundled, the runtime and its SQLite. */

import { Database } from "bun:sqlite";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import manifest from "../../package.json" with { type: "json" };

const ROOT = resolve(import.meta.dir, "../..");

interface Installed {
  name: string;
  version: string;
  license?: string;
  dependencies?: Record<string, string>;
}

/** As Node finds it: beside the one that asks, or above. */
function installed(name: string, asked_by: string): { about: Installed; folder: string } {
  for (let folder = asked_by; ; folder = dirname(folder)) {
    const found = join(folder, "node_modules", name);
    if (existsSync(found))
      return { about: JSON.parse(readFileSync(join(found, "package.json"), "utf8")), folder: found };
    if (folder === dirname(folder)) throw new Error(`${name} is not installed: run scripts/setup.sh`);
  }
}

/** bun.lock is JSON but for its last commas: `"name": ["name@1.2.3", "", {}, "sha512-…"]`. */
function digests(): Map<string, string> {
  const lock = readFileSync(join(ROOT, "bun.lock"), "utf8");
  const rows = lock.matchAll(/: \["([^"]+@[^"@]+)", .*"sha512-([^"]+)"\]/g);
  return new Map([...rows].map(([, id = "", base64 = ""]) => [id, Buffer.from(base64, "base64").toString("hex")]));
}

function components(): object[] {
  const known = digests();
  const found = new Map<string, object>();
  const take = (name: string, asked_by: string): void => {
    const { about, folder } = installed(name, asked_by);
    const id = `${about.name}@${about.version}`;
    if (found.has(id)) return;
    const purl = `pkg:npm/${about.name.replace("@", "%40")}@${about.version}`;
    const sha512 = known.get(id);
    found.set(id, {
      type: "library",
      "bom-ref": purl,
      name: about.name,
      version: about.version,
      purl,
      ...(about.license ? { licenses: [{ license: { id: about.license } }] } : {}),
      ...(sha512 ? { hashes: [{ alg: "SHA-512", content: sha512 }] } : {}),
    });
    for (const next of Object.keys(about.dependencies ?? {})) take(next, folder);
  };
  for (const name of Object.keys(manifest.dependencies)) take(name, ROOT);
  return [...found.keys()].toSorted().map((id) => found.get(id) ?? {});
}

function runtime(): object[] {
  const database = new Database(":memory:");
  const { version: sqlite } = database.query("SELECT sqlite_version() AS version").get() as { version: string };
  database.close();
  const bun = manifest.devDependencies.bun;
  return [
    { type: "platform", "bom-ref": `pkg:npm/bun@${bun}`, name: "bun", version: bun, purl: `pkg:npm/bun@${bun}` },
    {
      type: "library",
      "bom-ref": `pkg:generic/sqlite@${sqlite}`,
      name: "sqlite",
      version: sqlite,
      purl: `pkg:generic/sqlite@${sqlite}`,
      licenses: [{ license: { id: "blessing" } }],
      description: "Part of the runtime; on macOS that of the system is used.",
    },
  ];
}

export function sbom({ commit, at_s }: { commit: string; at_s: number }): string {
  const parts = [...components(), ...runtime()] as { "bom-ref": string }[];
  const purl = `pkg:npm/%40lease/cli@${manifest.version}`;
  const [a, b, c, d, e] = createHash("sha256")
    .update(commit + JSON.stringify(parts))
    .digest("hex")
    .replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, "$1 $2 5$3 8$4 $5")
    .split(" ");
  const document = {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${a}-${b}-${c}-${d}-${e}`,
    version: 1,
    metadata: {
      timestamp: new Date(at_s * 1_000).toISOString().replace(".000Z", "Z"),
      component: {
        type: "application",
        "bom-ref": purl,
        name: "lease",
        version: manifest.version,
        purl,
        licenses: [{ license: { id: manifest.license } }],
        properties: [{ name: "lease:commit", value: commit }],
      },
    },
    components: parts,
    dependencies: [{ ref: purl, dependsOn: parts.map((part) => part["bom-ref"]) }],
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}
