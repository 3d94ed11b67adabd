import { afterAll, describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { checkLogFolder, LogFile } from "../../../src/runner/log/file.ts";
import { temporaryFolder } from "../../leasing/fixture.ts";

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));

const read = (name: string): string => readFileSync(join(folder, name), "latin1");
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

describe("a log file", () => {
  test("has the command first, then all that was printed, then how it ended", () => {
    const file = new LogFile(folder, 7, 2, ["make", "all"]);
    file.write(bytes("one\n"));
    file.write(bytes("two\n"));
    file.close("exit code 2");
    expect(read("7.2.log")).toBe("$ make all\none\ntwo\n[exit code 2]\n");
  });

  test("shows the command as it can be pasted into a shell", () => {
    new LogFile(folder, 1, 1, ["sh", "-c", "echo 'a b' $HOME", "", "--x=1,2"]).close("end");
    expect(read("1.1.log")).toStartWith(`$ sh -c 'echo '\\''a b'\\'' $HOME' '' --x=1,2\n`);
  });

  test("has the end on a line of its own, also behind an unfinished one", () => {
    const file = new LogFile(folder, 2, 1, ["true"]);
    file.write(bytes("50%"));
    file.write(new Uint8Array(0));
    file.close("killed by SIGKILL");
    expect(read("2.1.log")).toBe("$ true\n50%\n[killed by SIGKILL]\n");
  });

  test("keeps bytes as they are, whatever they mean", () => {
    const file = new LogFile(folder, 3, 1, ["true"]);
    file.write(new Uint8Array([0, 255, 254, 13, 10]));
    file.close("end");
    expect(read("3.1.log")).toBe("$ true\n\0\xff\xfe\r\n[end]\n");
  });

  test("belongs to its owner alone, in a folder that is made where there is none", () => {
    const below = join(folder, "a", "b");
    new LogFile(below, 4, 1, ["true"]).close("end");
    expect([statSync(below).mode & 0o777, statSync(join(below, "4.1.log")).mode & 0o777]).toEqual([0o700, 0o600]);
  });

  test("is written anew where an earlier store had a job of that number", () => {
    writeFileSync(join(folder, "6.1.log"), "an older and longer one\n".repeat(9), { mode: 0o644 });
    new LogFile(folder, 6, 1, ["true"]).close("end");
    expect([read("6.1.log"), statSync(join(folder, "6.1.log")).mode & 0o777]).toEqual(["$ true\n[end]\n", 0o600]);
  });

  test("does not go where somebody's link leads, nor into a pipe, nor into what has a second name", () => {
    const failures: unknown[] = [];
    const write = (job: number) => {
      const file = new LogFile(folder, job, 1, ["true"], (error) => failures.push(error));
      file.write(bytes("secret\n"));
      file.close("end");
    };
    writeFileSync(join(folder, "private"), "precious");
    symlinkSync(join(folder, "private"), join(folder, "10.1.log"));
    symlinkSync(join(folder, "new"), join(folder, "11.1.log"));
    spawnSync("mkfifo", [join(folder, "12.1.log")]);
    linkSync(join(folder, "private"), join(folder, "13.1.log"));
    for (const job of [10, 11, 12, 13]) write(job);
    expect(failures).toHaveLength(4);
    expect([read("private"), existsSync(join(folder, "new"))]).toEqual(["precious", false]);
  });

  test("is not written into a folder that others can write, sticky or not", () => {
    for (const mode of [0o777, 0o1777, 0o770]) {
      const shared = join(folder, `shared-${mode}`);
      mkdirSync(shared);
      chmodSync(shared, mode);
      expect(() => checkLogFolder(shared)).toThrow(/can be written by others.*chmod go-w/);
      const failures: unknown[] = [];
      new LogFile(shared, 1, 1, ["true"], (error) => failures.push(error)).close("end");
      expect([failures.length, existsSync(join(shared, "1.1.log"))]).toEqual([1, false]);
    }
  });

  test("of another attempt is another file", () => {
    new LogFile(folder, 5, 1, ["first"]).close("end");
    new LogFile(folder, 5, 2, ["second"]).close("end");
    expect([read("5.1.log"), read("5.2.log")]).toEqual(["$ first\n[end]\n", "$ second\n[end]\n"]);
  });
});
