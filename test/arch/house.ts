/**
 * The rules of the house (ARCHITECTURE.md) that are about files and names: each takes files and answers with one line
 * per breach.
 */

import { posix } from "node:path";
import { codeOf, importsOf, type SourceFile } from "./source.ts";

type Rule = (files: readonly SourceFile[]) => string[];

const inside = (folder: string) => (file: SourceFile) => file.path.startsWith(`src/${folder}/`);

/** The command that a file of src/commands belongs to: `inspect` for inspect.ts and for everything in inspect/. */
function commandOf(path: string): string {
  const [, , first = ""] = path.split("/");
  return posix.basename(first, ".ts");
}

/** src/commands has a file, or a folder with a file of its name, for each command that there is, and nothing else. */
export function strayCommands(files: readonly SourceFile[], names: readonly string[]): string[] {
  const paths = files.filter(inside("commands")).map(({ path }) => path);
  const strays = paths
    .filter((path) => !names.includes(commandOf(path)))
    .map((path) => `${path}: lease has no command ${commandOf(path)}; what commands share is in src/cli`);
  const homes = (name: string) => [`src/commands/${name}.ts`, `src/commands/${name}/${name}.ts`];
  const missing = names
    .filter((name) => homes(name).filter((path) => paths.includes(path)).length !== 1)
    .map((name) => `lease ${name} has no file of its own: ${homes(name).join(" or ")}`);
  return [...strays, ...missing];
}

/** What two commands share belongs to neither. */
export const commandsThatImportOthers: Rule = (files) =>
  files.filter(inside("commands")).flatMap(({ path, source }) =>
    importsOf(source).flatMap(({ specifier }) => {
      if (specifier === null || !specifier.startsWith(".")) return [];
      const target = posix.join(posix.dirname(path), specifier);
      if (!target.startsWith("src/commands/") || commandOf(target) === commandOf(path)) return [];
      return [`${path} imports ${target}: a command imports no other; what both need is in src/cli or src/lookup`];
    }),
  );

const EXPORTED =
  /^export\s+(?:default\s+)?(?:async\s+)?(?:abstract\s+)?(?:function\*?|class|const|let|interface|type|enum)\s+(\w+)/gm;

/** Each engine says the same with the same name; everywhere else a name means one thing. */
const ENGINES = /^src\/store\/(?:sqlite|postgres)\//;
/** The platform of each runtime is `platform`. */
const RUNTIMES = /^src\/platform\/(?:bun|deno)\.ts$/;

/** A page is called after what it shows, and imports nothing by which the two could be mixed up. */
const PAGES = /^src\/observe\/dashboard\/pages\//;

export const namesExportedTwice: Rule = (files) => {
  const places = new Map<string, { path: string; side: string }[]>();
  for (const { path, source } of files) {
    const side = ENGINES.exec(path)?.[0] ?? RUNTIMES.exec(path)?.[0] ?? "";
    for (const [, name = ""] of codeOf(source).matchAll(EXPORTED)) {
      const meaning = PAGES.test(path) ? `the pages' ${name}` : name;
      places.set(meaning, [...(places.get(meaning) ?? []), { path, side }]);
    }
  }
  return [...places].flatMap(([name, found]) => {
    // Two sides may share a name with each other, but neither with itself nor with the rest.
    const sides = found.map(({ side }) => side);
    const apart = !sides.includes("") && new Set(sides).size === sides.length;
    if (found.length === 1 || apart) return [];
    return [`${name} is exported by ${found.map(({ path }) => path).join(" and ")}: one name, one meaning`];
  });
};

const SMALL_LINES = 25;
/** Entered from outside src or by name, doors that only one may use, and verbs that the other engine has as well. */
const ENTRANCES =
  /^src\/(?:main|index)\.ts$|^src\/platform\/(?:bun|deno)\.ts$|^src\/commands\/|^src\/store\/(?:open|quick)\.ts$|^src\/store\/(?:sqlite|postgres)\/\w+\.ts$/;

/** A file that is smaller than its reason to exist. */
export const smallFilesWithOneUser: Rule = (files) => {
  const users = new Map<string, Set<string>>();
  for (const { path, source } of files) {
    for (const { specifier } of importsOf(source)) {
      if (specifier === null || !specifier.startsWith(".")) continue;
      const target = posix.join(posix.dirname(path), specifier);
      users.set(target, (users.get(target) ?? new Set()).add(path));
    }
  }
  return files.flatMap(({ path, source }) => {
    const lines = source.trimEnd().split("\n").length;
    const [user, second] = users.get(path) ?? [];
    if (lines >= SMALL_LINES || second !== undefined || ENTRANCES.test(path)) return [];
    return [`${path} has ${lines} lines and is used by ${user ?? "nobody"} alone: put it there`];
  });
};

/** Words that needed their comment, or meant several things. */
const RETIRED = /\b\w*(?:vigil|patien|sparing|gather)\w*\b/gi;

export const retiredWords: Rule = (files) =>
  files.flatMap(({ path, source }) =>
    [...codeOf(source).matchAll(RETIRED)].map(
      ([word]) => `${path} says ${word}: a word that was retired because it did not explain itself`,
    ),
  );

const SPREAD_OPTIONS = /\bnew\s+\w+\s*\(\s*\{[^}]*\.\.\.(?:this\.)?#?options\b/g;

/** A constructor names what it takes: options that are handed on whole grow through every layer. */
export const optionsHandedOn: Rule = (files) =>
  files.flatMap(({ path, source }) =>
    [...codeOf(source).matchAll(SPREAD_OPTIONS)].map(
      ([found]) => `${path} has ${found.replaceAll(/\s+/g, " ")}: name what it is given`,
    ),
  );
