import { afterAll, describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import {
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { ResultFile } from "../../src/runner/result_file.ts";
import { Scratch } from "../../src/runner/scratch.ts";
import { temporaryFolder } from "../leasing/fixture.ts";

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));

const scratch = new Scratch(join(folder, "lease.db"), "a-worker");
let next = 0;
const result = () => new ResultFile(scratch, ++next, 1);

describe("the result of a job", () => {
  test("is what it wrote into its file, which is then removed", async () => {
    const file = result();
    writeFileSync(file.path, "42\n");
    expect(await file.read(1_000)).toBe("42\n");
    expect(existsSync(file.path)).toBe(false);
  });

  test("is none when it wrote no file, and empty when the file is", async () => {
    const file = result();
    expect(await file.read(1_000)).toBeNull();
    writeFileSync(file.path, "");
    expect(await file.read(1_000)).toBe("");
  });

  test("is cut at the limit", async () => {
    const file = result();
    writeFileSync(file.path, "x".repeat(5_000));
    expect(await file.read(100)).toBe("x".repeat(100));
  });

  test("is text, whatever was written", async () => {
    const file = result();
    writeFileSync(file.path, new Uint8Array([104, 105, 255]));
    expect(await file.read(100)).toBe("hi\uFFFD");
  });

  test("is none when the job made a folder of it, which is removed too", async () => {
    const file = result();
    mkdirSync(join(file.path, "deep"), { recursive: true });
    expect(await file.read(100)).toBeNull();
    expect(existsSync(file.path)).toBe(false);
  });

  test("is none when it is a link to a file of ours: what the worker may read is not what the job wrote", async () => {
    const file = result();
    writeFileSync(join(folder, "private"), "secret");
    symlinkSync(join(folder, "private"), file.path);
    expect(await file.read(100)).toBeNull();
    expect(existsSync(join(folder, "private"))).toBe(true);
  });

  test("is none when somebody put another folder into the place of ours", async () => {
    const file = result();
    const place = dirname(file.path);
    renameSync(place, `${place}-taken`);
    mkdirSync(place);
    writeFileSync(file.path, "planted");
    expect(await file.read(100)).toBeNull();
    rmSync(place, { recursive: true });
    renameSync(`${place}-taken`, place);
    writeFileSync(file.path, "ours");
    expect(await file.read(100)).toBe("ours");
  });

  test("is none when it points nowhere", async () => {
    const file = result();
    symlinkSync(join(folder, "nowhere"), file.path);
    expect(await file.read(100)).toBeNull();
  });

  test("is none when the job made a pipe of it, and nobody waits for what comes out", async () => {
    const file = result();
    spawnSync("mkfifo", [file.path]);
    const late = new Promise<string>((resolve) => setTimeout(() => resolve("still waiting"), 500));
    const reading = file.read(100);
    const answer = await Promise.race([reading, late]);
    // Lets a reader that waits for a writer go.
    if (existsSync(file.path)) closeSync(openSync(file.path, constants.O_RDWR | constants.O_NONBLOCK));
    await reading;
    expect(answer).toBeNull();
  });
});
