/**
 * The library as an npm package, in dist/npm/queue: ESM for Bun, and for what has node:sqlite (Deno, Node), with types.
 * Nothing is left of `#platform` for a user to map. Publishing is somebody else's: this only makes the folder.
 */

import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import manifest from "../package.json" with { type: "json" };
import { schemaOf } from "../src/store/sqlite/exact_schema.ts";
import { SCHEMA_VERSION } from "../src/store/sqlite/quick_enqueue.ts";

const ROOT = resolve(import.meta.dir, "..");
const ENTRIES = ["index", "testing"] as const;
/** What the bundle leaves to be installed. */
const EXTERNAL = ["postgres", "valibot"] as const;

/** Makes the package in `folder`. */
export async function packLibrary(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await bundle(join(folder, "bun"), "bun", ["bun"]);
  await bundle(join(folder, "node"), "node", ["deno", "node"]);
  types(join(folder, "types"));
  for (const name of ["LICENSE", "README.md"]) cpSync(join(ROOT, name), join(folder, name));
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(packageJson(), null, 2)}\n`);
}

async function bundle(outdir: string, target: "bun" | "node", conditions: string[]): Promise<void> {
  const result = await Bun.build({
    entrypoints: ENTRIES.map((entry) => join(ROOT, "src", `${entry}.ts`)),
    outdir,
    target,
    conditions,
    format: "esm",
    splitting: true,
    external: [...EXTERNAL],
    define: {
      LEASE_VERSION: JSON.stringify(manifest.version),
      LEASE_SCHEMA: JSON.stringify(schemaOf(SCHEMA_VERSION)),
    },
    naming: { entry: "[name].js", chunk: "chunk-[hash].js" },
  });
  if (!result.success) throw new AggregateError(result.logs, `the bundle for ${target} failed`);
}

/** Declarations of what the entries reach, and of nothing else. */
export function types(outdir: string): void {
  const made = join(ROOT, "dist", "types");
  const emitted = join(made, "src");
  rmSync(made, { recursive: true, force: true });
  const config = join(ROOT, "tsconfig.types.json");
  const { exitCode, stdout } = Bun.spawnSync([process.execPath, "node_modules/typescript/bin/tsc", "-p", config], {
    cwd: ROOT,
    env: { ...process.env, BUN_BE_BUN: "1" },
  });
  if (exitCode !== 0) throw new Error(`the declarations could not be made:\n${stdout.toString()}`);
  const seen = new Set<string>();
  const take = (path: string): void => {
    if (seen.has(path) || !existsSync(join(emitted, path))) return;
    seen.add(path);
    const text = readFileSync(join(emitted, path), "utf8");
    const target = join(outdir, path);
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, text.replaceAll(/(from |import\()"(\.[^"]*)\.ts"/g, '$1"$2.js"'));
    for (const [, , specifier = ""] of text.matchAll(/(from |import\()"(\.[^"]*)\.ts"/g)) {
      take(join(dirname(path), `${specifier}.d.ts`));
    }
  };
  for (const entry of ENTRIES) take(`${entry}.d.ts`);
}

function packageJson(): object {
  const { version, license } = manifest;
  const conditions = (entry: string) => ({
    types: `./types/${entry}.d.ts`,
    bun: `./bun/${entry}.js`,
    deno: `./node/${entry}.js`,
    default: `./node/${entry}.js`,
  });
  return {
    name: "@lease/queue",
    version,
    description: "A durable job queue in SQLite or PostgreSQL: leases, heartbeats, recovery without a daemon",
    keywords: ["queue", "jobs", "sqlite", "postgresql", "lease", "worker"],
    license,
    type: "module",
    sideEffects: false,
    engines: { bun: ">=1.3", deno: ">=2.4", node: ">=24" },
    exports: { ".": conditions("index"), "./testing": conditions("testing") },
    files: ["bun", "node", "types"],
    dependencies: Object.fromEntries(EXTERNAL.map((name) => [name, manifest.dependencies[name]])),
  };
}

if (import.meta.main) {
  const folder = join(ROOT, "dist", "npm", "queue");
  await packLibrary(folder);
  console.log(`${folder}: @lease/queue ${manifest.version}`);
}
