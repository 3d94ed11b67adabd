/** The rules of src/ that a search in the code can hold: each takes files and answers with one line per breach. */

import { codeOf, importsOf, type SourceFile } from "./source.ts";

type Rule = (files: readonly SourceFile[]) => string[];

/** A name that is not a property of something else (`process`, but not `job.process`). */
const free = (pattern: string): RegExp => new RegExp(`(?<![.\\w$])(?:${pattern})`, "g");

function found(file: SourceFile, pattern: RegExp, why: string): string[] {
  const code = codeOf(file.source);
  return [...code.matchAll(pattern)].map((match) => {
    const line = code.slice(0, match.index).split("\n").length;
    return `${file.path}:${line} has ${match[0].replaceAll(/\s+/g, " ").trim()}: ${why}`;
  });
}

const AMBIENT = free(
  [
    String.raw`Date\s*\.\s*now\b`,
    String.raw`(?<!new\s+)Date\s*\(`,
    String.raw`new\s+Date\b(?:\s*\(\s*\)|(?!\s*\())`,
    String.raw`Math\s*\.\s*random\b`,
    String.raw`(?:performance|crypto|globalThis|navigator)\b`,
    String.raw`(?:process|Bun|Deno)\s*\.`,
    String.raw`(?:setTimeout|setInterval|setImmediate|queueMicrotask|fetch)\b`,
  ].join("|"),
);

/** core is pure: time and randomness are passed in, and it touches no runtime. */
export const ambientInCore: Rule = (files) =>
  files
    .filter(({ path }) => path.startsWith("src/core/"))
    .flatMap((file) => found(file, AMBIENT, "core is pure; pass clock, randomness and the outside world in"));

const EXIT = free(String.raw`process\s*\.\s*(?:exit\b|reallyExit\b|abort\b|exitCode\s*=(?!=))|Deno\s*\.\s*exit`);

/** Only main.ts ends the process or sets its exit code. */
export const exitOutsideMain: Rule = (files) =>
  files
    .filter(({ path }) => path !== "src/main.ts")
    .flatMap((file) => [
      ...found(file, EXIT, "only src/main.ts exits; return a code or throw a LeaseError"),
      ...importsOf(file.source)
        .filter(({ specifier, clause }) => /^(?:node:)?process$/.test(specifier ?? "") && /\bexit/.test(clause))
        .map(({ clause }) => `${file.path} imports ${clause} from node:process: only src/main.ts exits`),
    ]);

/** Whom a signal reaches is checked in one place: a number out of a store may mean everybody. */
export const signalsOutsidePlatform: Rule = (files) =>
  files
    .filter(({ path }) => path !== "src/platform/signals.ts" && path !== "src/platform/machine.ts")
    .flatMap((file) =>
      found(file, /\bprocess\s*\.\s*kill\b(?!\(process\.pid,)/g, "processes are signalled by src/platform/signals.ts"),
    );

/** Runtime globals stand behind the platform seam, so that everything else runs on Bun and on Deno. */
export const runtimeOutsidePlatform: Rule = (files) =>
  files
    .filter(({ path }) => !path.startsWith("src/platform/"))
    .flatMap((file) =>
      found(file, free(String.raw`(?:Bun|Deno)\s*\.\s*\w+`), "runtimes are told apart in src/platform"),
    );

/** index.ts is the library's surface and holds nothing of its own. */
export const indexWithCode: Rule = (files) =>
  files
    .filter(({ path }) => path === "src/index.ts")
    .map(({ path, source }) => ({
      path,
      rest: codeOf(source)
        .replaceAll(/\bexport\s+(?:type\s+)?(?:\*(?:\s+as\s+\w+)?|\{[^}]*\})\s*from\s*["']\s*["'];?/g, "")
        .trim(),
    }))
    .filter(({ rest }) => rest !== "")
    .map(({ path, rest }) => `${path} has ${rest.split("\n")[0]}: it re-exports and does nothing else`);

/** A file says at its head what it is for. */
export const missingHeader: Rule = (files) =>
  files
    .filter(({ source }) => !/^(?:#!.*\n)?(?:\/\/+|\/\*+)\s*(?:\*\s*)?[^\s/*]/.test(source))
    .map(({ path }) => `${path}: begins without a comment that states its contract`);

/** Work left to do belongs in an issue. The pattern is spelt so that it does not find itself. */
export const leftoverMarkers: Rule = (files) =>
  files.flatMap(({ path, source }) =>
    source.split("\n").flatMap((line, index) => {
      const marker = /\b(?:TO-?DO|FIX-?ME|X{3}|HA-?CK)\b/.exec(line)?.[0];
      return marker ? [`${path}:${index + 1} has ${marker}: finish it or open an issue`] : [];
    }),
  );
