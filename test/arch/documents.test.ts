/** What the documents for contributors name is there. */

import { expect, test } from "bun:test";
import { read, type SourceFile } from "./source.ts";

/** File names in a document that no file of the repository ends with. */
function missingFiles(document: string, files: readonly SourceFile[]): string[] {
  const named = new Set(document.match(/[\w./-]+\.(?:ts|sh|md)\b/g));
  // NAME stands for one that is yet to be written.
  return [...named]
    .map((name) => name.replace(/^\.\//, ""))
    .filter((name) => !name.includes("NAME") && !files.some(({ path }) => `/${path}`.endsWith(`/${name}`)));
}

const tree = async () => [...(await read("*")), ...(await read("{src,test,scripts}/**/*"))];

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
