/** The two engines of the store have one file per verb, the same in both, so that whoever knows one knows the other. */

import type { SourceFile } from "./source.ts";

const ENGINES = ["src/store/sqlite/", "src/store/postgres/"] as const;

/** What only one engine has, and why. A folder stands for all that is in it. */
export const ONLY_IN_ONE: Readonly<Record<string, string>> = {
  "src/store/sqlite/writer.ts": "one process writes by one queue; a server has its own",
  "src/store/sqlite/location.ts": "a file can lie where it must not",
  "src/store/sqlite/identity.ts": "a file can be replaced, or put back from a copy, behind everybody's back",
  "src/store/sqlite/lost_log.ts": "a file's log can be damaged behind everybody's back",
  "src/store/sqlite/exact_schema.ts": "a file can bring a schema of its own from anywhere",
  "src/store/sqlite/quick_enqueue.ts": "a file can be written without asking anybody",
  "src/store/sqlite/quick_report.ts": "a file can be written without asking anybody",
  "src/store/sqlite/ranges.ts": "a server finds listed rows as quickly as those in a range",
  "src/store/postgres/session/": "the way to a server: links, addresses, passwords, lists as parameters",
  "src/store/postgres/sql/": "a server can be asked in SQL by others, in their own transactions",
  "src/store/postgres/group_commit.ts": "what slots ask at the same time shares a round trip",
};

/** The name of what only one engine has, if the path is or lies in it. */
const exceptionFor = (path: string): string | undefined =>
  Object.keys(ONLY_IN_ONE).find((name) => (name.endsWith("/") ? path.startsWith(name) : path === name));

/** One line for each verb that has no twin, and for each exception that is none (any more). */
export function unevenVerbs(files: readonly SourceFile[]): string[] {
  const paths = new Set(files.map(({ path }) => path));
  const lonely = ENGINES.flatMap((engine, index) => {
    const other = ENGINES[1 - index] as string;
    return [...paths]
      .filter((path) => path.startsWith(engine) && exceptionFor(path) === undefined)
      .map((path) => [path, path.replace(engine, other)] as const)
      .filter(([, twin]) => !paths.has(twin))
      .map(([path, twin]) => `${path} has no twin: write ${twin}, or list why only one engine has it`);
  });
  const used = new Set([...paths].map(exceptionFor));
  const needless = Object.keys(ONLY_IN_ONE).filter((name) => !used.has(name));
  return [...lonely, ...needless.map((name) => `${name} is listed in test/arch/verbs.ts and is not there`)];
}

const EXPORTED = /^export (?:async )?(?:function|class)\s+(\w+)/gm;

/** Files that are about the engine itself: what they export has no reason to be called the same. */
const HELPERS_DIFFER = new Set(["store", "open", "schema", "transfer", "watch", "failure", "statements"]);

/** One line for each file of both engines that has not one exported name in common with its twin. */
export function strangers(files: readonly SourceFile[]): string[] {
  const exported = new Map(
    files.map(({ path, source }) => [path, new Set([...source.matchAll(EXPORTED)].map(([, name]) => name))]),
  );
  const [sqlite, postgres] = ENGINES;
  return [...exported].flatMap(([path, names]) => {
    const verb = path.slice(sqlite.length, -".ts".length);
    const twin = exported.get(path.replace(sqlite, postgres));
    if (!path.startsWith(sqlite) || twin === undefined || HELPERS_DIFFER.has(verb)) return [];
    return names.intersection(twin).size > 0 ? [] : [`${path} and its twin export nothing of the same name`];
  });
}
