/**
 * Which part of src/ may import which. Imports point down only:
 *
 *     main → commands → roles → leasing, runner → store/store.ts → core
 *            commands → view, config, observe → core
 *
 * A part may import itself and what its line below lists, nothing else; a new folder starts with a line here.
 */

import { posix } from "node:path";
import { importsOf, type SourceFile } from "./source.ts";

const MAY_IMPORT = {
  core: [],
  platform: ["core"],
  "store/store.ts": ["core"],
  "store/*.ts": ["core", "platform", "store/store.ts"],
  "store/sqlite": ["core", "platform", "store/store.ts", "store/*.ts"],
  "store/postgres": ["core", "platform", "store/store.ts", "store/*.ts"],
  "store/open.ts": ["core", "platform", "store/store.ts", "store/*.ts", "store/sqlite", "store/postgres"],
  "store/quick.ts": ["core", "platform", "store/sqlite"],
  leasing: ["core", "store/store.ts"],
  runner: ["core", "platform"],
  roles: ["core", "platform", "store/store.ts", "leasing", "runner"],
  view: ["core"],
  config: ["core"],
  observe: ["core", "platform", "store/store.ts", "view"],
  commands: ["core", "platform", "store/store.ts", "leasing", "runner", "roles", "view", "config", "observe"],
  main: ["core", "platform", "view", "commands"],
  // The library's surface: its re-exports are nobody's dependency, so it alone may also show how a store is opened.
  index: ["core", "store/store.ts", "store/open.ts", "leasing", "runner", "roles", "view", "platform"],
} as const satisfies Record<string, readonly string[]>;

type Part = keyof typeof MAY_IMPORT;

/** Each way into a store has one user among the commands. */
const ONLY_FROM: Readonly<Record<string, string>> = {
  "store/open.ts": "src/commands/context.ts",
  "store/quick.ts": "src/commands/quick.ts",
};
const READ_PACKAGE_JSON: readonly Part[] = ["main", "commands"];

const isPart = (name: string): name is Part => name in MAY_IMPORT;

/** The part a path of src/ belongs to, or null when MAY_IMPORT has no line for it. */
function partOf(path: string): Part | null {
  const [src, folder = "", file = ""] = path.split("/");
  if (src !== "src") return null;
  if (path === "src/main.ts") return "main";
  if (path === "src/index.ts") return "index";
  if (folder !== "store") return isPart(folder) ? folder : null;
  // Parts of the interface, in files of their own.
  if (file === "queries.ts" || file === "transfer.ts") return "store/store.ts";
  const name = `store/${file}`;
  if (isPart(name)) return name;
  return file.endsWith(".ts") ? "store/*.ts" : null;
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
  if (part === "core") return "core imports nothing but core";
  if (/^bun(:|$)/.test(specifier) && part !== "platform") return "what only Bun has is imported in platform alone";
  if (/^(#|npm:|jsr:|https?:)/.test(specifier)) return "packages are imported by the names in package.json";
  return null;
}

/** Why `file` may not import that specifier, or null when it may. */
function refusal(path: string, part: Part, specifier: string | null): string | null {
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
