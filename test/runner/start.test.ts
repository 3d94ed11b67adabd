import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { LeaseError } from "../../src/core/errors.ts";
import type { SpawnOptions } from "../../src/platform/platform.ts";
import { explainStart, start } from "../../src/runner/start.ts";
import { temporaryFolder } from "../leasing/fixture.ts";

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, text: string, mode: number): void {
  writeFileSync(join(folder, name), text);
  chmodSync(join(folder, name), mode);
}

beforeAll(() => {
  file("plain", "#!/bin/sh\necho $0\n", 0o644);
  file("headless", "echo hi\n", 0o755);
  file("garbage", "\x7fELF\x01\x02", 0o755);
  file("fine", "#!/bin/sh\necho fine\n", 0o755);
});

async function started(argv: readonly string[], more: Partial<SpawnOptions> = {}): Promise<string> {
  let output = "";
  const child = await start({
    argv,
    cwd: folder,
    env: { PATH: process.env["PATH"] ?? "" },
    input: null,
    pty: false,
    onOutput: (_stream, bytes) => {
      output += new TextDecoder().decode(bytes);
    },
    ...more,
  });
  await Promise.all([child.exited, child.drained]);
  return output;
}

/** The error as people see it: its code and its line. */
async function refusal(argv: readonly string[], more: Partial<SpawnOptions> = {}): Promise<[string, string]> {
  const error: unknown = await started(argv, more).catch((caught: unknown) => caught);
  if (!(error instanceof LeaseError)) throw new Error(`it was not refused: ${error}`);
  return [error.code, error.message];
}

describe("a program is found", () => {
  test("by its name on the PATH that it is given", async () => {
    expect(await started(["fine"], { env: { PATH: folder } })).toBe("fine\n");
  });

  test("by a path relative to its working folder", async () => {
    expect(await started(["./fine"])).toBe("fine\n");
  });

  test("by its whole path", async () => {
    expect(await started([join(folder, "fine")], { cwd: "/" })).toBe("fine\n");
  });
});

describe("a program that can't be started is refused", () => {
  test("by name when there is none on the PATH", async () => {
    expect(await refusal(["frobnicate", "-x"])).toEqual([
      "not_found",
      "command not found: frobnicate (on the worker's PATH)",
    ]);
  });

  test("by path when there is no such file, naming the folder it was looked for from", async () => {
    expect(await refusal(["./nope"])).toEqual(["not_found", `command not found: ./nope (in ${folder})`]);
  });

  test("with a hint when a whole shell line stands for the command", async () => {
    const [code, line] = await refusal(["echo hi | wc"]);
    expect(code).toBe("not_found");
    expect(line).toEndWith("a whole shell line is run with -c");
  });

  test("when it is a file that is not executable", async () => {
    const [code, line] = await refusal(["./plain"]);
    expect(code).toBe("not_executable");
    expect(line).toContain("./plain (chmod +x it");
  });

  test("when it is a folder", async () => {
    expect((await refusal([folder]))[0]).toBe("not_executable");
  });

  test.each(["headless", "garbage"])("when nothing says how it is to be run (%s)", async (name) => {
    const [code, line] = await refusal([`./${name}`]);
    expect(code).toBe("not_executable");
    expect(line).toContain(`./${name} (its first line must name an interpreter: #!/bin/sh)`);
  });

  test("when its working folder is not there", async () => {
    expect(await refusal(["true"], { cwd: join(folder, "gone") })).toEqual([
      "not_found",
      `working folder ${folder}/gone does not exist here`,
    ]);
  });

  test("when its working folder is not a folder", async () => {
    expect(await refusal(["true"], { cwd: join(folder, "plain") })).toEqual([
      "not_found",
      `working folder ${folder}/plain is not a folder`,
    ]);
  });

  test("when one argument is longer than the system takes, naming the way out", async () => {
    const [code, line] = await refusal(["true", "x".repeat(200_000)]);
    expect(code).toBe("not_executable");
    expect(line).toContain("arguments of true are too long");
    expect(line).toContain("--input");
  });

  test("when all arguments together are", async () => {
    const [code, line] = await refusal(["true", ...Array.from({ length: 40_000 }, () => "x".repeat(100))]);
    expect([code, line.includes("--input")]).toEqual(["not_executable", true]);
  });

  test("when there is nothing to run at all: an input without a handler", async () => {
    const [, line] = await refusal([]);
    expect(line).toMatch(/command|handler/);
  });
});

describe("what the system said", () => {
  test("stays with the error as its cause", async () => {
    const error: unknown = await started(["frobnicate"]).catch((caught: unknown) => caught);
    expect((error as LeaseError).cause).toMatchObject({ code: "ENOENT" });
  });

  test("is shown where we know nothing better to say", () => {
    const odd = Object.assign(new Error("EMFILE: too many open files"), { code: "EMFILE" });
    const error = explainStart(odd, { argv: ["make"], cwd: "/" });
    expect(error).toMatchObject({ code: "not_executable" });
    expect((error as Error).message).toBe("make could not be started: EMFILE: too many open files");
  });

  test("is not explained twice", () => {
    const error = new LeaseError("unsupported", "no terminals here");
    expect(explainStart(error, { argv: ["make"], cwd: "/" })).toBe(error);
  });
});
