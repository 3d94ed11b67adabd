/**
 * The documents: what those for contributors name is there; what those for users link to is there, and every block in
 * them is of a language that a test runs or checks.
 */

import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { anchorOf, blocksOf, headingsOf, indentedOf, linksOf, pages, type Page } from "../support/documents.ts";
import { read, root, type SourceFile } from "./source.ts";

/** File names in a document that no file of the repository ends with. */
function missingFiles(document: string, files: readonly SourceFile[]): string[] {
  const named = new Set(document.match(/[\w./-]+\.(?:ts|sh|md)\b/g));
  // NAME stands for one that is yet to be written.
  return [...named]
    .map((name) => name.replace(/^\.\//, ""))
    .filter((name) => !name.includes("NAME") && !files.some(({ path }) => `/${path}`.endsWith(`/${name}`)));
}

const tree = async () => [...(await read("*")), ...(await read("{src,test,scripts,docs}/**/*.{ts,tsx,sh,md}"))];

test.each(["ARCHITECTURE.md", "CONTRIBUTING.md"])("%s names files that exist", async (name) => {
  const files = await tree();
  const document = files.find(({ path }) => path === name)?.source ?? "";
  expect(document).not.toBe("");
  expect(missingFiles(document, files)).toEqual([]);
});

test("the check names one that does not", () => {
  const files = [{ path: "src/core/job.ts", source: "" }];
  expect(missingFiles("see core/job.ts, then `core/jobs.ts`", files)).toEqual(["core/jobs.ts"]);
});

/** Who sees to it that a block of this language is right. Another language needs somebody who does. */
const TESTED: Readonly<Record<string, string>> = {
  sh: "test/cli/readme.test.ts runs it",
  console: "test/cli/readme.test.ts checks its commands and flags",
  crontab: "test/cli/readme.test.ts runs its commands",
  json: "test/cli/readme.test.ts enqueues it",
  toml: "test/cli/readme.test.ts uses it as lease.toml",
  yaml: "test/cli/readme.test.ts reads it and runs its steps",
  ini: "test/cli/readme.test.ts checks it line by line",
  sql: "test/cli/readme.test.ts runs it",
  ts: "test/library/package.test.ts runs it on every runtime",
};

function complaints(page: Page, all: readonly Page[], exists: (path: string) => boolean): string[] {
  const languages = blocksOf(page)
    .filter(({ language }) => !Object.hasOwn(TESTED, language))
    .map(({ heading, language }) => `${page.path}: nothing tests the "${language}" block under "${heading}"`);
  const indented = indentedOf(page).map((line) => `${page.path}: nothing tests the indented line "${line.trim()}"`);
  const links = linksOf(page).flatMap(({ path, anchor, address }) => {
    if (address !== null) return /^(?:https|mailto):/.test(address) ? [] : [`${page.path}: ${address} is not https`];
    if (!exists(path)) return [`${page.path}: there is no ${path}`];
    const target = all.find((other) => other.path === path);
    if (anchor === null || target === undefined) return [];
    const known = headingsOf(target).map((heading) => anchorOf(heading));
    return known.includes(anchor) ? [] : [`${page.path}: ${path} has no heading for #${anchor}`];
  });
  return [...languages, ...indented, ...links];
}

describe("the user's documents", () => {
  const all = pages();

  test.each(all.map((page) => [page.path, page] as const))("%s links and shows what is there and tested", (_, page) => {
    expect(complaints(page, all, (path) => existsSync(join(root, path)))).toEqual([]);
  });

  test("are all named on the front page", () => {
    const front = all.find(({ path }) => path === "README.md");
    const linked = front ? linksOf(front).map(({ path }) => path) : [];
    expect(all.map(({ path }) => path).filter((path) => path !== "README.md" && !linked.includes(path))).toEqual([]);
  });

  test("the check names what is wrong", () => {
    const page = {
      path: "docs/a.md",
      source: "# A b: `c`\n\n```perl\n1\n```\n\n    lease x\n\n[a](b.md) [b](#a-b-c) [c](#no) [d](http://x.y)\n",
    };
    expect(complaints(page, [page], (path) => path === "docs/a.md")).toEqual([
      'docs/a.md: nothing tests the "perl" block under "A b: `c`"',
      'docs/a.md: nothing tests the indented line "lease x"',
      "docs/a.md: there is no docs/b.md",
      "docs/a.md: docs/a.md has no heading for #no",
      "docs/a.md: http://x.y is not https",
    ]);
  });
});
