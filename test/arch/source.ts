/**
 * What every rule in this folder looks at: files as `{ path, source }`, so that a fixture is a virtual file, and a rule
 * is a pure function from files to complaints, one line each.
 *
 * The scanner is not a parser. It knows comments, strings, templates and regular expressions, and blanks them without
 * moving anything, so that the rules can search the code that is left. A slash is taken for a regular expression where
 * no value can stand before it; a quote that its line does not close ends with the line (JSX text).
 */

import { Glob } from "bun";
import { join } from "node:path";

export interface SourceFile {
  /** From the repository's root, with forward slashes: `src/core/job.ts`. */
  path: string;
  source: string;
}

export interface Import {
  /** What stands in the quotes, or null for `import(expression)`. */
  specifier: string | null;
  /** What stands between `import` or `export` and `from`; empty for other forms. */
  clause: string;
}

export const root = join(import.meta.dir, "../..");

/** The files of this repository that match, in a stable order. */
export async function read(pattern: string): Promise<SourceFile[]> {
  const paths = await Array.fromAsync(new Glob(pattern).scan({ cwd: root, dot: true }));
  return Promise.all(paths.toSorted().map(async (path) => ({ path, source: await Bun.file(join(root, path)).text() })));
}

export const sources = (): Promise<SourceFile[]> => read("src/**/*.{ts,tsx}");

const TOKEN = /\/\/.*|\/\*[^]*?(?:\*\/|$)|"(?:\\[^]|[^"\\\n])*"?|'(?:\\[^]|[^'\\\n])*'?|`|[{}]|\//g;
const TEMPLATE_TEXT = /(?:\\[^]|\$(?!\{)|[^\\`$])*/y;
const REGEXP = /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\/[a-z]*/y;
const VALUE_BEFORE = /(?:[\w$)\]"'`}]|\+\+|--)$/;
const KEYWORD_BEFORE = /\b(?:return|typeof|case|in|of|void|delete|throw|await|yield)$/;

/** The source with comments, and what stands inside quotes, backticks and regular expressions, turned into spaces. */
export function codeOf(source: string): string {
  let code = "";
  // One entry per open `{`: true where it is the `${` of a template, so that its `}` leads back into the text.
  const braces: boolean[] = [];

  const keep = (length: number): void => {
    code += source.slice(code.length, code.length + length);
  };
  const hide = (length: number): void => {
    code += source.slice(code.length, code.length + length).replaceAll(/[^\n]/g, " ");
  };
  const lengthOf = (pattern: RegExp): number => {
    pattern.lastIndex = code.length;
    return pattern.exec(source)?.[0].length ?? 0;
  };
  const templateText = (): void => {
    hide(lengthOf(TEMPLATE_TEXT));
    if (source[code.length] === "$") {
      braces.push(true);
      keep(2);
    } else keep(1);
  };
  const slash = (): void => {
    const before = code.trimEnd();
    const divides = VALUE_BEFORE.test(before) && !KEYWORD_BEFORE.test(before);
    const length = divides ? 0 : lengthOf(REGEXP);
    if (length > 0) hide(length);
    else keep(1);
  };

  for (;;) {
    TOKEN.lastIndex = code.length;
    const token = TOKEN.exec(source);
    if (!token) return code + source.slice(code.length);
    const [text] = token;
    keep(token.index - code.length);
    if (text === "/") slash();
    else if (text.startsWith("/")) hide(text.length);
    else {
      keep(1);
      if (text === "{") braces.push(false);
      else if (text === "`" || (text === "}" && braces.pop())) templateText();
      else if (text !== "}") {
        const closed = text.length > 1 && text.endsWith(text.charAt(0));
        hide(text.length - (closed ? 2 : 1));
        if (closed) keep(1);
      }
    }
  }
}

const IMPORTS =
  /(?<![.\w$])(?:(?:import|export)\b(?<clause>[\w\s{},*$"']*?)\bfrom\s*(?=["'])|import\s*(?=["'])|(?<call>import|require)\s*\(\s*)(?<string>["']\s*["'])?/g;

/** Every import of a file: static, type-only, side effect, re-export, `import("…")` (also as a type) and `require("…")`. */
export function importsOf(source: string): Import[] {
  const imports: Import[] = [];
  for (const match of codeOf(source).matchAll(IMPORTS)) {
    const { clause = "", call, string } = match.groups ?? {};
    if (string === undefined) {
      if (call === "import") imports.push({ specifier: null, clause: "" });
      continue;
    }
    const end = match.index + match[0].length;
    imports.push({ specifier: source.slice(end - string.length + 1, end - 1), clause: clause.trim() });
  }
  return imports;
}
