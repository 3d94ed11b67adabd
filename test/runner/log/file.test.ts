import { afterAll, describe, expect, test } from "bun:test";
import { readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { LogFile } from "../../../src/runner/log/file.ts";
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

  test("of another attempt is another file", () => {
    new LogFile(folder, 5, 1, ["first"]).close("end");
    new LogFile(folder, 5, 2, ["second"]).close("end");
    expect([read("5.1.log"), read("5.2.log")]).toEqual(["$ first\n[end]\n", "$ second\n[end]\n"]);
  });
});
