// Builds the pages of `lease ui` into dist/ui, bundled, minified and compressed.
//
//   bun scripts/pages.ts   → dist/ui/files.json, which lease reads when it runs from source; prints their sizes
//
// scripts/build.ts puts the same into the executable.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { PackedFile } from "../src/observe/dashboard/files.ts";

const root = join(import.meta.dir, "..");
const source = join(root, "src/observe/dashboard/pages");
/** All together, compressed: pages that people open on a slow line. */
const LIMIT_BYTES = 150_000;

const TYPES: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};

export async function buildPages(): Promise<PackedFile[]> {
  const built = await Bun.build({
    entrypoints: [join(source, "index.html")],
    target: "browser",
    format: "esm",
    minify: true,
    publicPath: "/",
    naming: { entry: "[name].[ext]", chunk: "[name]-[hash].[ext]", asset: "[name]-[hash].[ext]" },
    define: { "process.env.NODE_ENV": '"production"' },
  });
  for (const log of built.logs) console.error(String(log));
  const files = await Promise.all(built.outputs.map(pack));
  const size = files.reduce((sum, { data }) => sum + Buffer.from(data, "base64").length, 0);
  if (size > LIMIT_BYTES) throw new Error(`the pages take ${size} bytes compressed; the limit is ${LIMIT_BYTES}`);
  mkdirSync(join(root, "dist/ui"), { recursive: true });
  writeFileSync(join(root, "dist/ui/files.json"), JSON.stringify(files));
  return files;
}

async function pack(output: Bun.BuildArtifact): Promise<PackedFile> {
  const path = `/${output.path.replace(/^\.?\//, "")}`;
  const extension = path.slice(path.lastIndexOf(".") + 1);
  const data = gzipSync(new Uint8Array(await output.arrayBuffer()), { level: 9 }).toString("base64");
  const type = TYPES[extension] ?? "application/octet-stream";
  return { path, type, immutable: output.kind !== "entry-point" || extension !== "html", data };
}

if (import.meta.main) {
  for (const { path, data } of await buildPages()) console.log(`${Buffer.from(data, "base64").length}\t${path}`);
}
