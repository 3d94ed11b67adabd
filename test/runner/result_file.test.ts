import { afterAll, describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { closeSync, constants, existsSync, mkdirSync, openSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readResult } from "../../src/runner/result_file.ts";
import { temporaryFolder } from "../leasing/fixture.ts";

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));

let next = 0;
const path = (): string => join(folder, `output-${next++}`);

describe("the result of a job", () => {
  test("is what it wrote into its file, which is then removed", async () => {
    const file = path();
    writeFileSync(file, "42\n");
    expect(await readResult(file, 1_000)).toBe("42\n");
    expect(existsSync(file)).toBe(false);
  });

  test("is none when it wrote no file, and empty when the file is", async () => {
    const file = path();
    expect(await readResult(file, 1_000)).toBeNull();
    writeFileSync(file, "");
    expect(await readResult(file, 1_000)).toBe("");
  });

  test("is cut at the limit", async () => {
    const file = path();
    writeFileSync(file, "x".repeat(5_000));
    expect(await readResult(file, 100)).toBe("x".repeat(100));
  });

  test("is text, whatever was written", async () => {
    const file = path();
    writeFileSync(file, new Uint8Array([104, 105, 255]));
    expect(await readResult(file, 100)).toBe("hi\uFFFD");
  });

  test("is none when the job made a folder of it, which is removed too", async () => {
    const file = path();
    mkdirSync(join(file, "deep"), { recursive: true });
    expect(await readResult(file, 100)).toBeNull();
    expect(existsSync(file)).toBe(false);
  });

  test("is none when it points nowhere", async () => {
    const file = path();
    symlinkSync(join(folder, "nowhere"), file);
    expect(await readResult(file, 100)).toBeNull();
  });

  test("is none when the job made a pipe of it, and nobody waits for what comes out", async () => {
    const file = path();
    spawnSync("mkfifo", [file]);
    const late = new Promise<string>((resolve) => setTimeout(() => resolve("still waiting"), 500));
    const reading = readResult(file, 100);
    const answer = await Promise.race([reading, late]);
    // Lets a reader that waits for a writer go.
    if (existsSync(file)) closeSync(openSync(file, constants.O_RDWR | constants.O_NONBLOCK));
    await reading;
    expect(answer).toBeNull();
  });
});
