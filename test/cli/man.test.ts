/** The man page that scripts/man.ts writes: whole, and accepted by those who read man pages. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { COMMANDS } from "../../src/cli/commands.ts";
import { aliasesOf, flagName } from "../../src/cli/flags.ts";
import { COMMAND_SETTINGS } from "../../src/config/command_settings.ts";
import { variableName } from "../../src/config/settings.ts";
import { ROOT, run } from "./lease.ts";

let folder: string;
let page: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "lease-man-"));
  page = join(folder, "lease.1");
  const env = { SOURCE_DATE_EPOCH: "1790000000" };
  const answer = await run([process.execPath, join(ROOT, "scripts/man.ts"), "--outfile", page], { cwd: ROOT, env });
  expect(answer).toMatchObject({ code: 0, stderr: "" });
});
afterAll(() => rmSync(folder, { recursive: true }));

/** As a terminal would show it, or from the source where nothing can: without fonts, and every escape undone. */
function shown(): string {
  const source = readFileSync(page, "utf8");
  return source
    .replaceAll(/\\f[BR]/g, "")
    .replaceAll(/\\\[u([\dA-F]+)\]/g, (_, code: string) => String.fromCodePoint(Number.parseInt(code, 16)))
    .replaceAll("\\(aq", "'")
    .replaceAll("\\(ga", "`")
    .replaceAll("\\(ti", "~")
    .replaceAll("\\(dq", '"')
    .replaceAll("\\&", "")
    .replaceAll("\\-", "-");
}

/** With nothing that a plain terminal lacks. */
const plain = (text: string): string => text.replaceAll("…", "...").replaceAll("↑", "Up").replaceAll("↓", "Down");

/** What stands under the heading of a command. */
function sectionOf(name: string): string {
  const [, section = ""] = shown().split(`.SS "lease ${name}"\n`);
  return section.split(/^\.S[SH] /m)[0] ?? "";
}

describe("the man page", () => {
  test.each(Object.keys(COMMANDS))("has %s with every flag, example and note of it", async (name) => {
    const { flags, examples, notes, operands } = await COMMANDS[name]!.load();
    const text = `${sectionOf(name)}\n${shown().split('.SH "FLAGS OF EVERY COMMAND"')[1]}`;
    for (const [key, flag] of Object.entries(flags)) {
      const on = flag.type === "boolean" && flag.default === true;
      if (flag.hidden) expect(text).not.toContain(`--${flagName(key)}`);
      else expect(text).toMatch(new RegExp(`^(?:-., )?--${on ? "no-" : ""}${flagName(key)}\\b`, "m"));
      for (const alias of aliasesOf(flag)) expect(text).toContain(`-${alias}, --${flagName(key)}`);
    }
    expect(text).toContain(plain(operands));
    for (const [example] of examples) expect(text).toContain(plain(example).replaceAll("\\", "\\e"));
    for (const note of notes) expect(text).toContain(plain(typeof note === "string" ? note : note.title));
    const [setting] = Object.keys(COMMAND_SETTINGS[name] ?? {});
    if (setting !== undefined) expect(text).toContain(variableName(name, setting));
  });

  test("tells about the environment, files and exit codes", () => {
    const text = shown();
    for (const part of ["ENVIRONMENT", "FILES", "EXIT STATUS", "LEASE_STORE", "lease.toml", "NO_COLOR", "126, 127"]) {
      expect(text).toContain(part);
    }
    expect(text).toContain('.TH LEASE 1 2026-09-21 "lease ');
  });

  test("is plain ASCII, which every roff reads", () => {
    expect(readFileSync(page, "utf8")).toMatch(/^[\n -~]*$/);
  });

  test.each([
    ["groff", ["-man", "-Tutf8", "-ww", "-z"]],
    ["groff", ["-man", "-Tascii", "-ww", "-z"]],
    ["mandoc", ["-Tlint", "-W", "warning"]],
    ["man", ["--warnings", "-E", "UTF-8", "-l", "-Tutf8"]],
  ] as const)("is accepted by %s without a warning", async (tool, args) => {
    if (Bun.which(tool) === null) {
      console.warn(`SKIPPED: ${tool} did not read the man page, because it is not here`);
      return;
    }
    const { code, stdout, stderr } = await run([tool, ...args, page]);
    expect({ tool, code, stderr }).toEqual({ tool, code: 0, stderr: "" });
    if (tool === "man") expect(stdout).toContain("lease enqueue");
    else expect(stdout).toBe("");
  });
});
