/** The user's documents: README.md and docs/*.md, their headings, fenced blocks, links and code between the lines. */

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, resolve } from "node:path";

const ROOT = resolve(import.meta.dir, "../..");

export interface Page {
  /** From the repository's root: `docs/ci.md`. */
  path: string;
  source: string;
}

export interface Block {
  path: string;
  /** The nearest heading above it. */
  heading: string;
  language: string;
  text: string;
}

export function pages(): Page[] {
  const names = readdirSync(join(ROOT, "docs")).filter((name) => name.endsWith(".md"));
  return ["README.md", ...names.toSorted().map((name) => `docs/${name}`)].map((path) => ({
    path,
    source: readFileSync(join(ROOT, path), "utf8"),
  }));
}

/** A page by lines: which are inside of a fence, and in which block. */
function read(page: Page): { prose: string[]; headings: string[]; blocks: Block[] } {
  const prose: string[] = [];
  const headings: string[] = [];
  const blocks: Block[] = [];
  let open: Block | null = null;
  for (const line of page.source.split("\n")) {
    const [, language] = /^ *```(\w*)/.exec(line) ?? [];
    if (language !== undefined) {
      if (open) blocks.push(open);
      open = open ? null : { path: page.path, heading: headings.at(-1) ?? "", language, text: "" };
    } else if (open) open.text += `${line}\n`;
    else {
      prose.push(line);
      const [, heading] = /^#{1,6} (.*)/.exec(line) ?? [];
      if (heading !== undefined) headings.push(heading);
    }
  }
  if (open) throw new Error(`${page.path}: a block under "${open.heading}" is not closed`);
  return { prose, headings, blocks };
}

export const blocksOf = (page: Page): Block[] => read(page).blocks;

export const headingsOf = (page: Page): string[] => read(page).headings;

/** Lines that Markdown takes for code because they are indented, outside of lists. */
export function indentedOf(page: Page): string[] {
  const { prose } = read(page);
  return prose.filter((line, at) => /^ {4}\S/.test(line) && /^$|^ {4}/.test(prose[at - 1] ?? ""));
}

/** What stands in backticks between the lines, on one line each. */
export function inlineOf(page: Page): string[] {
  return [
    ...read(page)
      .prose.join("\n")
      .matchAll(/`([^`]+)`/g),
  ].map(([, code = ""]) => code.replaceAll(/\s+/g, " "));
}

/** As GitHub names the place of a heading. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(" ", "-");
}

/** Where the links and pictures of a page lead: a path from the root and a place on it, or an address. */
export function linksOf(page: Page): { path: string; anchor: string | null; address: string | null }[] {
  const text = read(page).prose.join("\n");
  const targets = [...text.matchAll(/\]\(([^()\s]+)\)|(?:src|srcset|href)="([^"]+)"/g)].map(([, a, b]) => a ?? b ?? "");
  return targets.map((target) => {
    if (/^\w+:/.test(target)) return { path: "", anchor: null, address: target };
    const [name = "", anchor] = target.split("#");
    const path = name === "" ? page.path : normalize(join(dirname(page.path), name));
    return { path, anchor: anchor ?? null, address: null };
  });
}
