/**
 * Which part of src/ may import which. Imports point down only:
 *
 *     main → cli/main.ts → commands → cli
 *                          commands → foreground → worker → recovery → leasing, runner → store/store.ts → core
 *                          commands → lookup, view, config → core
 *
 * A part may import itself and what its line below lists, nothing else; a new folder starts with a line here.
 */

import { posix } from "node:path";
import { importsOf, type SourceFile } from "./source.ts";

const MAY_IMPORT = {
  core: [],
  platform: ["core"],
  "store/store.ts": ["core"],
  "store/shared": ["core", "platform", "store/store.ts"],
  "store/sqlite": ["core", "platform", "store/store.ts", "store/shared"],
  "store/postgres": ["core", "platform", "store/store.ts", "store/shared"],
  "store/open.ts": ["core", "platform", "store/store.ts", "store/shared", "store/sqlite", "store/postgres"],
  "store/quick.ts": ["core", "platform", "store/sqlite"],
  "store/copy": ["core", "store/store.ts"],
  leasing: ["core", "store/store.ts"],
  runner: ["core", "platform"],
  recovery: ["core", "platform", "store/store.ts", "leasing", "runner"],
  worker: ["core", "platform", "store/store.ts", "leasing", "runner", "recovery"],
  foreground: ["core", "platform", "store/store.ts", "leasing", "runner", "recovery", "worker"],
  view: ["core"],
  config: ["core"],
  // It names what a sweep would leave alone.
  lookup: ["core", "platform", "store/store.ts", "runner", "recovery", "view"],
  observe: ["core", "platform", "store/store.ts", "lookup", "view"],
  // What runs in a browser: an island that knows the server by what it answers.
  "observe/dashboard/pages": [],
  // What commands have in common: grammar, settings, the terminal, signals.
  cli: ["core", "platform", "store/store.ts", "leasing", "runner", "worker", "foreground", "lookup", "view", "config"],
  commands: [
    "core",
    "platform",
    "store/store.ts",
    "store/copy",
    "leasing",
    "runner",
    "recovery",
    "worker",
    "foreground",
    "lookup",
    "observe",
    "view",
    "config",
    "cli",
  ],
  // The way in: it names every command, and loads the one that is asked for.
  "cli/main.ts": ["core", "platform", "view", "cli", "commands", "quick"],
  // A few lines of the command line once more, in one piece and without anything that takes long to load.
  quick: ["core", "platform", "config", "store/quick.ts"],
  main: ["cli/main.ts", "quick"],
  // Beside the commands, and on the same parts: what they do, for other programs. It alone shows how a store is opened.
  library: [
    "core",
    "platform",
    "store/store.ts",
    "store/open.ts",
    "leasing",
    "runner",
    "recovery",
    "worker",
    "foreground",
    "lookup",
    "observe",
    "view",
    "config",
  ],
  // The library's surface: its re-exports are nobody's dependency.
  index: ["core", "store/store.ts", "store/open.ts", "leasing", "runner", "recovery", "worker", "platform", "library"],
} as const satisfies Record<string, readonly string[]>;

type Part = keyof typeof MAY_IMPORT;

/** Each way into a store has one user among the commands. */
const ONLY_FROM: Readonly<Record<string, string>> = {
  "store/open.ts": "src/cli/io.ts",
};
/** Handlers are modules of whoever uses the library. */
const LOADS_USERS_MODULES = "src/library/isolate.ts";
const READ_PACKAGE_JSON: readonly Part[] = ["platform"];

const isPart = (name: string): name is Part => name in MAY_IMPORT;

/** Files that are a part of their own, or stand with another part than their folder's. */
const APART: Readonly<Record<string, Part>> = {
  "src/main.ts": "main",
  "src/index.ts": "index",
  "src/testing.ts": "index",
  "src/cli/main.ts": "cli/main.ts",
  "src/cli/commands.ts": "cli/main.ts",
  "src/store/open.ts": "store/open.ts",
  "src/store/quick.ts": "store/quick.ts",
  // The interface of a store, in several files.
  "src/store/store.ts": "store/store.ts",
  "src/store/queries.ts": "store/store.ts",
  "src/store/plans.ts": "store/store.ts",
  "src/store/copy/transfer.ts": "store/store.ts",
};

const ISLAND = "observe/dashboard/pages";
const IN_BROWSER = /^(?:preact|uplot)(?:\/|$)/;

/** The part a path of src/ belongs to, or null when MAY_IMPORT has no line for it. */
function partOf(path: string): Part | null {
  const apart = APART[path];
  if (apart !== undefined) return apart;
  if (path.startsWith(`src/${ISLAND}/`)) return ISLAND;
  const [src, folder = "", inner = ""] = path.split("/");
  const name = folder === "store" ? `store/${inner}` : folder;
  return src === "src" && isPart(name) && !name.endsWith(".ts") ? name : null;
}

/** The file that a specifier names from `path`, or null when it is a package or a built-in module. */
function target(path: string, specifier: string): string | null {
  if (specifier.startsWith(".")) return posix.join(posix.dirname(path), specifier);
  if (specifier === "#platform") return "src/platform/";
  if (specifier === "lease") return "src/index.ts";
  return null;
}

/** Why `part` may not import that package or built-in, or null when it may. */
function outsider(part: Part, specifier: string): string | null {
  if (part === "core" && specifier !== "valibot") return "core imports nothing but core and valibot";
  if (/^bun(:|$)/.test(specifier) && part !== "platform") return "what only Bun has is imported in platform alone";
  if ((part === ISLAND) !== IN_BROWSER.test(specifier)) return "preact and uplot, and they alone, are for the pages";
  if (/^(#|npm:|jsr:|https?:)/.test(specifier)) return "packages are imported by the names in package.json";
  return null;
}

/** Why `file` may not import that specifier, or null when it may. */
function refusal(path: string, part: Part, specifier: string | null): string | null {
  if (specifier === null && path === LOADS_USERS_MODULES) return null;
  if (specifier === null) return "an import must name its module, or its direction cannot be checked";
  const resolved = target(path, specifier);
  if (resolved === null) return outsider(part, specifier);
  if (resolved === "package.json") {
    return READ_PACKAGE_JSON.includes(part) ? null : `only ${READ_PACKAGE_JSON.join(" and ")} read package.json`;
  }
  const imported = partOf(resolved);
  if (imported === null) return "it is in no part of src/ that test/arch/layers.ts knows";
  if (imported === part) return null;
  const only = ONLY_FROM[imported];
  if (only === path) return null;
  const allowed: readonly string[] = MAY_IMPORT[part];
  if (allowed.includes(imported)) return null;
  if (only !== undefined) return `only ${only} opens the store`;
  return `${part} may import only ${["itself", ...allowed].join(", ")}`;
}

/** Every import that points up or sideways, as `file imports "specifier": rule`. */
export function wrongImports(files: readonly SourceFile[]): string[] {
  return files.flatMap(({ path, source }) => {
    const part = partOf(path);
    if (part === null) return [`${path}: it is in no part of src/ that test/arch/layers.ts knows`];
    return importsOf(source).flatMap(({ specifier }) => {
      const why = refusal(path, part, specifier);
      return why === null ? [] : [`${path} imports ${specifier === null ? "an expression" : `"${specifier}"`}: ${why}`];
    });
  });
}
