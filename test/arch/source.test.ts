import { describe, expect, test } from "bun:test";
import { codeOf, importsOf } from "./source.ts";

const specifiers = (source: string): (string | null)[] => importsOf(source).map(({ specifier }) => specifier);

describe("the scanner", () => {
  test("blanks comments and the inside of strings without moving the code around them", () => {
    const source = `a("x // y"); // "b"\n/* c\n */ d('it\\'s', "")`;
    expect(codeOf(source)).toBe(`a("      ");       \n    \n    d('     ', "")`);
  });

  test("keeps the code inside a template and blanks the text around it", () => {
    expect(codeOf("`text ${f({ a: `in ${b}` })} text` + c")).toBe("`     ${f({ a: `   ${b}` })}     ` + c");
  });

  test("tells a regular expression from a division", () => {
    expect(codeOf("x = a / b / c;")).toBe("x = a / b / c;");
    expect(codeOf("return /[/'\"]/g.test(s)")).toBe("return         .test(s)");
  });

  test("ends a stray quote with its line", () => {
    expect(codeOf("<p>don't</p>\nprocess.exit()")).toContain("\nprocess.exit()");
  });
});

describe("finding imports", () => {
  test("sees every form that names a module", () => {
    const source = `
      import a, { b } from "./static.ts";
      import type { C } from './type.ts';
      import {
        type D,
        e as f,
      } from "./lines.ts";
      import * as g from "node:path";
      import "./effect.ts";
      import page from "./page.html" with { type: "text" };
      export { h } from "./re-export.ts";
      export type { I } from "./re-export-type.ts";
      export * from "./star.ts";
      const j = await import("./dynamic.ts");
      type K = import("./type-query.ts").K;
      const l = require("./required.ts");
    `;
    expect(specifiers(source)).toEqual([
      "./static.ts",
      "./type.ts",
      "./lines.ts",
      "node:path",
      "./effect.ts",
      "./page.html",
      "./re-export.ts",
      "./re-export-type.ts",
      "./star.ts",
      "./dynamic.ts",
      "./type-query.ts",
      "./required.ts",
    ]);
  });

  test("reports an import whose module is computed", () => {
    expect(specifiers("await import(name); await import(`./${name}.ts`)")).toEqual([null, null]);
  });

  test("is not fooled by comments, strings, properties or import.meta", () => {
    const source = `
      // import a from "./comment.ts"
      const b = 'import c from "./string.ts"';
      const d = \`import("./template.ts")\`;
      store.import("./method.ts");
      import.meta.dirname;
      export const from = "./value.ts";
      Array.from("./letters.ts");
    `;
    expect(specifiers(source)).toEqual([]);
  });
});
