// Compiles src/main.ts into one executable.
//
//   bun scripts/build.ts                            → dist/lease, for this machine
//   bun scripts/build.ts --target bun-linux-arm64   → dist/lease-linux-arm64
//   bun scripts/build.ts --script                   → dist/lease.js, for those who bring a Bun of their own
//   … --outfile PATH                                → PATH instead
//   … --commit HASH                                 → what `lease version` says it was built from
//
// Prints what it wrote; any error or warning of the bundler is printed, and an error exits with 1.

import { chmodSync, existsSync, rmSync, writeFileSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { parseArgs } from "node:util";
import manifest from "../package.json" with { type: "json" };
import { buildPages } from "./pages.ts";

const root = join(import.meta.dir, "..");

const { values } = parseArgs({
  options: {
    target: { type: "string" },
    outfile: { type: "string" },
    commit: { type: "string" },
    script: { type: "boolean" },
  },
});
const called = values.script ? "lease.js" : (values.target?.replace(/^bun-/, "lease-") ?? "lease");
const outfile = values.outfile ?? join(root, "dist", called);

// What the migrations make: a store that has exactly that needs no closer look. The empty program that the benches compare
// with has no stores.
async function builtSchema(): Promise<string> {
  const folder = join(root, "src/store/sqlite");
  if (!existsSync(folder)) return "";
  const { schemaOf } = await import(join(folder, "exact_schema.ts"));
  const { SCHEMA_VERSION } = await import(join(folder, "quick_enqueue.ts"));
  return schemaOf(SCHEMA_VERSION);
}

// The runtime has it under this name without loading a module, which takes longer than reading the line of an enqueue.
const processAtHand: Bun.BunPlugin = {
  name: "process without a module",
  setup(build) {
    build.onResolve({ filter: /^(?:node:)?process$/ }, () => ({ path: "process", namespace: "at-hand" }));
    build.onLoad({ filter: /^process$/, namespace: "at-hand" }, () => ({
      contents: "export default globalThis.process;",
      loader: "js",
    }));
  },
};

const common = {
  target: "bun",
  format: "esm", // bytecode as CommonJS, its default, fails on import.meta
  minify: true,
  define: {
    LEASE_VERSION: JSON.stringify(manifest.version),
    LEASE_SCHEMA: JSON.stringify(await builtSchema()),
    ...(values.commit ? { LEASE_COMMIT: JSON.stringify(values.commit) } : {}),
  },
} as const;

// Bundled by itself, so that it shares no file with the rest: fifteen small files take a tenth longer to load than one.
// It is a second copy of what it shares; nothing of it may be compared with the first by identity. Before the rest,
// because a build that a plugin starts never ends. The empty program that the benches compare with has none.
const ALONE = join(root, "src/quick/quick.ts");
const alone = existsSync(ALONE) ? await Bun.build({ ...common, entrypoints: [ALONE], plugins: [processAtHand] }) : null;
const contents = (await alone?.outputs[0]?.text()) ?? "";
const inOnePiece: Bun.BunPlugin = {
  name: "quick lines in one piece",
  setup(build) {
    build.onLoad({ filter: /src\/quick\/quick\.ts$/ }, () => ({ contents, loader: "js" }));
  },
};

// The pages of `lease ui`, as a module of their own: loaded by nothing else.
const FILES = join(root, "src/observe/dashboard/files.ts");
const pages = existsSync(FILES) ? JSON.stringify(await buildPages()) : "[]";
const PACKED = "function packed(): readonly PackedFile[] {";
const withPages: Bun.BunPlugin = {
  name: "pages inside",
  setup(build) {
    build.onLoad({ filter: /src\/observe\/dashboard\/files\.ts$/ }, async ({ path }) => {
      const source = await Bun.file(path).text();
      if (!source.includes(PACKED)) throw new Error(`${path} does not list the pages as it did: see scripts/build.ts`);
      return { contents: source.replace(PACKED, () => `${PACKED}\n  return ${pages};`), loader: "ts" };
    });
  },
};

// citty reads each line by node:util before its plugins do, which no command lets it (see cli/main.ts), and loading that
// module takes a tenth of the time of an enqueue.
const IMPORTED = 'import { parseArgs as parseArgs$1 } from "node:util";';
const cittyWithoutUtil: Bun.BunPlugin = {
  name: "citty without node:util",
  setup(build) {
    build.onLoad({ filter: /citty\/dist\/index\.mjs$/ }, async ({ path }) => {
      const source = await Bun.file(path).text();
      if (!source.includes(IMPORTED))
        throw new Error(`${path} does not import node:util as it did: see scripts/build.ts`);
      const nothingRead = "const parseArgs$1 = ({ args }) => ({ values: {}, positionals: args });";
      return { contents: source.replace(IMPORTED, () => nothingRead), loader: "js" };
    });
  },
};

const whole = {
  ...common,
  entrypoints: [join(root, "src/main.ts")],
  plugins: [processAtHand, inOnePiece, withPages, cittyWithoutUtil],
};

if (values.script) {
  const { outputs, logs } = await Bun.build({ ...whole, minify: false, banner: "#!/usr/bin/env bun" });
  for (const log of logs) console.error(String(log));
  await Bun.write(outfile, outputs[0] ?? "");
  chmodSync(outfile, 0o755);
} else await compile();
const megabytes = Math.round(Bun.file(outfile).size / 1e6);
console.log(`${relative(process.cwd(), outfile) || basename(outfile)}: lease ${manifest.version}, ${megabytes} MB`);

async function compile(): Promise<void> {
  const built = await Bun.build({
    ...whole,
    bytecode: true,
    // Each lazily imported subcommand stays a file of its own inside the executable. In one file, everything that any
    // subcommand imports is loaded at every start: 10 ms instead of 4 with consola behind one of them.
    splitting: true,
    compile: {
      outfile,
      // lease runs in other people's folders: a .env or bunfig.toml (which can preload code) there is not meant for it.
      autoloadDotenv: false,
      autoloadBunfig: false,
      ...(values.target ? { target: values.target as Bun.Build.CompileTarget } : {}),
    },
  });
  for (const log of built.logs) console.error(String(log));
  if (built.success) await deafen(values.target ?? process.platform);
}

// The runtime inside becomes Bun itself, or runs somebody's code first, when the environment says so; whoever may run
// lease as another user (sudo, --allow-run) may do just that and no more. It has no switch for it, so the names that it asks
// the environment for are made ones that no environment holds: they begin with a NUL. A Mac runs only what is signed as
// it is, so that is done after it.
async function deafen(system: string): Promise<void> {
  if (/win/.test(system) && !/darwin/.test(system)) return;
  const obeyed = ["BUN_BE_BUN", "BUN_OPTIONS", "BUN_INSPECT", "BUN_BYTECODE_ORDER_OUT", "BUN_BYTECODE_ORDER_NAMES_OUT"];
  let program = Buffer.from(await Bun.file(outfile).arrayBuffer());
  for (const name of obeyed) {
    // Others may end with the same letters and share them: only the first is theirs alone.
    let found = program.indexOf(name);
    if (found < 0) throw new Error(`the runtime does not ask for ${name} any more: see scripts/build.ts`);
    for (; found >= 0; found = program.indexOf(name, found + 1)) program[found] = 0;
  }
  if (/darwin/.test(system)) program = (await import("./release/mach_o.ts")).signedAdHoc(program, "lease");
  // Anew and in one go: written over, it stays in memory in small pieces, and a start maps each by itself, which takes a
  // quarter of the time of an enqueue.
  rmSync(outfile);
  writeFileSync(outfile, program, { mode: 0o755 });
}
