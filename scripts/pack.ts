/**
 * The npm packages, as folders. The library, @lease/queue: ESM for Bun, and for what has node:sqlite (Deno, Node), with
 * types; nothing is left of `#platform` for a user to map. JSR has the same. The command, @lease/cli: a launcher, and the
 * executables as packages of which npm installs the one that fits; no script runs when they are installed.
 * Publishing is somebody else's.
 *
 *   bun scripts/pack.ts   → dist/npm/queue, dist/npm/jsr
 */

import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import manifest from "../package.json" with { type: "json" };
import { schemaOf } from "../src/store/sqlite/exact_schema.ts";
import { SCHEMA_VERSION } from "../src/store/sqlite/quick_enqueue.ts";
import { TARGETS, type Target } from "./release/targets.ts";

const ROOT = resolve(import.meta.dir, "..");
const ENTRIES = ["index", "testing"] as const;
/** What the bundle leaves to be installed. */
const EXTERNAL = ["postgres", "valibot"] as const;
const { version, license, homepage, repository } = manifest;

/** Makes the package in `folder`. */
export async function packLibrary(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await bundle(join(folder, "bun"), "bun", ["bun"]);
  await bundle(join(folder, "node"), "node", ["deno", "node"]);
  types(join(folder, "types"));
  cpSync(join(ROOT, "LICENSE"), join(folder, "LICENSE"));
  writeFileSync(join(folder, "README.md"), pageAlone("docs/library.md").replace(/^# .*/, "# @lease/queue"));
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(packageJson(), null, 2)}\n`);
}

/** A page of ours for where the others are not: its links lead to the repository. */
export function pageAlone(path: string): string {
  const there = (to: string) =>
    `${homepage}/${/\.(?:svg|webp)$/.test(to) ? "raw" : "blob"}/main/${join(dirname(path), to)}`;
  return readFileSync(join(ROOT, path), "utf8")
    .replaceAll(/\]\((?!https:|#)([^)]+)\)/g, (_link, to: string) => `](${there(to)})`)
    .replaceAll(/ src="(?!https:)([^"]+)"/g, (_picture, to: string) => ` src="${there(to)}"`);
}

/** What the front page says first: in a sentence, and in commands. */
function inShort(): string {
  const readme = readFileSync(join(ROOT, "README.md"), "utf8");
  const [, sentence] = /^\*\*([^*]+)\*\*$/m.exec(readme) ?? [];
  const [commands] = /^```sh\n[^]*?^```$/m.exec(readme) ?? [];
  if (sentence === undefined || commands === undefined)
    throw new Error("README.md does not begin as it did: see scripts/pack.ts");
  return `${sentence.replaceAll("\n", " ")}\n\n${commands}`;
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
    homepage,
    repository,
    type: "module",
    sideEffects: false,
    engines: { bun: ">=1.3", deno: ">=2.4", node: ">=24" },
    exports: { ".": conditions("index"), "./testing": conditions("testing") },
    files: ["bun", "node", "types"],
    dependencies: Object.fromEntries(EXTERNAL.map((name) => [name, manifest.dependencies[name]])),
  };
}

/** Makes `cli`, and `cli-SYSTEM` for each that there is a program for. */
export function packCommand(folder: string, programOf: (target: Target) => string | null): void {
  const about = { version, license, homepage, repository };
  const made = (name: string, more: object, files: Readonly<Record<string, string>>, text: string): void => {
    const place = join(folder, name);
    rmSync(place, { recursive: true, force: true });
    mkdirSync(join(place, "bin"), { recursive: true });
    for (const [to, from] of Object.entries(files)) {
      cpSync(from, join(place, to));
      chmodSync(join(place, to), 0o755);
    }
    cpSync(join(ROOT, "LICENSE"), join(place, "LICENSE"));
    writeFileSync(join(place, "README.md"), `# @lease/${name}\n\n${text}\n\nSee <${homepage}>.\n`);
    const manifest_text = JSON.stringify({ name: `@lease/${name}`, ...about, ...more, files: ["bin"] }, null, 2);
    writeFileSync(join(place, "package.json"), `${manifest_text}\n`);
  };
  made(
    "cli",
    {
      description: manifest.description,
      keywords: ["queue", "jobs", "cron", "worker", "sqlite", "postgresql", "lease"],
      bin: { lease: "bin/lease.cjs" },
      engines: { node: ">=18" },
      optionalDependencies: Object.fromEntries(TARGETS.map(({ name }) => [`@lease/cli-${name}`, version])),
    },
    { "bin/lease.cjs": join(ROOT, "scripts/npm/launcher.cjs") },
    `${inShort()}\n\n\`npx @lease/cli enqueue -- ./build.sh\`, or \`npm install -g @lease/cli\` and then \`lease\`.`,
  );
  for (const target of TARGETS) {
    const program = programOf(target);
    if (program === null) continue;
    const system = `lease for ${target.name}${target.os === "darwin" ? " (a preview)" : ""}`;
    made(
      `cli-${target.name}`,
      {
        description: `${system}; installed by @lease/cli`,
        os: [target.os],
        cpu: [target.cpu],
        ...(target.libc ? { libc: [target.libc] } : {}),
        preferUnplugged: true,
      },
      { "bin/lease": program },
      `${system}: \`bin/lease\` is the executable. @lease/cli installs and starts it; it can be started by itself.`,
    );
  }
}

/** The library as JSR takes it: what the npm package has for Deno and Node, and where its dependencies come from. */
export function packJsr(folder: string, library: string): void {
  rmSync(folder, { recursive: true, force: true });
  for (const name of ["node", "types", "LICENSE", "README.md"]) {
    cpSync(join(library, name), join(folder, name), { recursive: true });
  }
  for (const entry of ENTRIES) {
    const path = join(folder, "node", `${entry}.js`);
    writeFileSync(path, `/* @ts-self-types="../types/${entry}.d.ts" */\n${readFileSync(path, "utf8")}`);
  }
  // Deno follows what is written, and does not look for the declarations of another file.
  for (const name of readdirSync(join(folder, "types"), { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".d.ts")) continue;
    const path = join(folder, "types", name);
    const text = readFileSync(path, "utf8");
    writeFileSync(path, text.replaceAll(/(from |import\()"(\.[^"]*)\.js"/g, '$1"$2.d.ts"'));
  }
  const imports = Object.fromEntries(EXTERNAL.map((name) => [name, `npm:${name}@${manifest.dependencies[name]}`]));
  const about = {
    name: "@lease/queue",
    version,
    license,
    exports: { ".": "./node/index.js", "./testing": "./node/testing.js" },
    imports,
    publish: { include: ["node", "types", "LICENSE", "README.md", "deno.json"] },
  };
  writeFileSync(join(folder, "deno.json"), `${JSON.stringify(about, null, 2)}\n`);
}

if (import.meta.main) {
  const folder = join(ROOT, "dist", "npm");
  await packLibrary(join(folder, "queue"));
  packJsr(join(folder, "jsr"), join(folder, "queue"));
  console.log(`${folder}: ${readdirSync(folder).join(", ")}: @lease/queue ${version}`);
}
