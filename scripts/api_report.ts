/**
 * The public surface of the library as text: every name that index.ts and testing.ts export, with its declaration and
 * without comments. Checked in as src/library/api.txt, so that a change of the surface is seen in review; a test compares.
 *
 *   bun scripts/api_report.ts          writes it
 */

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { types } from "./pack.ts";

export const REPORT = resolve(import.meta.dir, "../src/library/api.txt");

export function apiReport(): string {
  const folder = mkdtempSync(join(tmpdir(), "lease-types-"));
  try {
    types(folder);
    const entries = ["index", "testing"].map((entry) => ({ entry, names: exportsOf(join(folder, `${entry}.d.ts`)) }));
    const all = entries.flatMap(({ names }) => names);
    const taken = new Set(all.map(({ shown }) => shown));
    // One whose own name is another's makes room for it first.
    const renamed = all
      .filter(({ name, shown }) => name !== shown)
      .toSorted((a, b) => Number(taken.has(b.name)) - Number(taken.has(a.name)));
    const parts = entries.map(({ entry, names }) => {
      const sorted = names.toSorted((a, b) => a.shown.localeCompare(b.shown));
      return `# ${entry}\n\n${sorted.map(({ text }) => text).join("\n\n")}\n`;
    });
    // By the names that users know.
    return renamed.reduce(
      (text, { name, shown }) => text.replaceAll(new RegExp(`\\b${name}\\b`, "g"), shown),
      parts.join("\n"),
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Exported {
  name: string;
  shown: string;
  text: string;
}

/** What a file exports: its own declarations, and those it passes on. */
function exportsOf(path: string): Exported[] {
  const source = withoutComments(readFileSync(path, "utf8"));
  const passed = [...source.matchAll(/export (?:type )?\{([^}]*)\} from "([^"]*)\.js";/g)].flatMap(
    ([, list = "", from = ""]) =>
      list
        .split(",")
        .map((item) => item.trim().replace(/^type /, ""))
        .filter((item) => item !== "")
        .map((item) => {
          const [name = "", shown = name] = item.split(" as ");
          return { name, shown, text: declaration(join(dirname(path), `${from}.d.ts`), name) };
        }),
  );
  const own = [...source.matchAll(/^export (?:declare )?(?:async )?(?:function|class|interface|type|const) (\w+)/gm)];
  return [...passed, ...own.map(([, name = ""]) => ({ name, shown: name, text: declaration(path, name) }))];
}

/** The text of one declaration, or several of an overloaded function. */
function declaration(path: string, name: string): string {
  if (!existsSync(path)) throw new Error(`${path} declares ${name}, and is not there`);
  const source = withoutComments(readFileSync(path, "utf8"));
  const statements = source.split(/^(?=export |declare |import )/m);
  const begins = new RegExp(`^export (?:declare )?(?:abstract )?(?:function|class|interface|type|const) ${name}\\b`);
  const found = statements.filter((statement) => begins.test(statement)).map((statement) => statement.trim());
  if (found.length === 0) throw new Error(`${path} does not declare ${name}`);
  return found.join("\n");
}

function withoutComments(source: string): string {
  return source
    .replaceAll(/^\s*\/\*\*?[\s\S]*?\*\/\n?/gm, "")
    .replaceAll(/^\s*\/\/.*\n/gm, "")
    .replaceAll(/\n{2,}/g, "\n");
}

if (import.meta.main) {
  writeFileSync(REPORT, apiReport());
  console.log(REPORT);
}
