import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, chownSync, lchownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { readConfig } from "../../src/config/file.ts";
import { LeaseError } from "../../src/core/errors.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "lease-file-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
function written(text: string | Uint8Array, mode = 0o600): string {
  files += 1;
  const path = join(folder, `${files}.toml`);
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

const read = (path: string, named = true) => readConfig({ path, named }, { HOME: "/home/u" });

function complaint(path: string, named = true): string {
  try {
    read(path, named);
  } catch (error) {
    if (error instanceof LeaseError && error.code === "invalid_config") return error.message.replace(`${path}`, "FILE");
    throw error;
  }
  throw new Error("it was accepted");
}

describe("values", () => {
  test("are found in the table of their command, or at the top", () => {
    const config = read(
      written(
        'color = "never"\nverbose = true\n[worker]\nqueue = ["a", "b"]\nslots = 4\nlease = "30s"\nsweep = false\n' +
          '[enqueue]\nqueue = "mail"\npriority = -5',
      ),
    );
    expect(config.value(null, "color")).toBe("never");
    expect(config.value(null, "verbose")).toBe(true);
    expect(config.value("worker", "queue")).toEqual(["a", "b"]);
    expect(config.value("worker", "slots")).toBe("4");
    expect(config.value("worker", "lease")).toBe("30s");
    expect(config.value("worker", "sweep")).toBe(false);
    expect(config.value("enqueue", "queue")).toBe("mail");
    expect(config.value("enqueue", "priority")).toBe("-5");
  });

  test("that are not there are undefined, whatever JavaScript has by that name", () => {
    const config = read(written(""));
    expect(config.value("worker", "slots")).toBeUndefined();
    expect(config.value(null, "store")).toBeUndefined();
    expect(config.value("worker", "constructor")).toBeUndefined();
    expect(config.value("toString", "length")).toBeUndefined();
  });

  test("a list of one may be written as a text", () => {
    expect(read(written('[worker]\nqueue = "mail"')).value("worker", "queue")).toEqual(["mail"]);
  });

  test.each([
    ["jobs.db", () => join(folder, "jobs.db")],
    ["../jobs.db", () => join(folder, "../jobs.db")],
    ["/var/jobs.db", () => "/var/jobs.db"],
    ["~/jobs.db", () => "/home/u/jobs.db"],
    ["~other/jobs.db", () => join(folder, "~other/jobs.db")],
    ["postgres://host/db", () => "postgres://host/db"],
  ])("of a file are meant from the folder of the settings file: %s", (store, place) => {
    const config = read(written(`store = "${store}"\n[worker]\nlog_dir = "${store}"`));
    expect(config.value(null, "store")).toBe(place());
    expect(config.value("worker", "log_dir")).toBe(place());
  });
});

describe("what is wrong is told in one line with file, key and what was expected:", () => {
  test.each([
    ["store = ", "FILE:1:9: "],
    ["[worker\n", "FILE:1:"],
    ["a = 1\n\n[worker]\nslots = 3\nslots = 4", "FILE:5:1: trying to redefine"],
    ['stor = "x"', "FILE: stor is not a setting; did you mean store?"],
    ["[wroker]\nslots = 1", "FILE: wroker is not a setting; did you mean worker?"],
    ["[worker]\nslotz = 1", "FILE: worker.slotz is not a setting; did you mean worker.slots?"],
    ["[worker]\nqueues = 1", "FILE: worker.queues is not a setting; did you mean worker.queue?"],
    ["slots = 1", "FILE: slots is not a setting; did you mean worker.slots?"],
    ["[worker]\nxyzzy = 1", "FILE: worker.xyzzy is not a setting; there are queue, task, slots"],
    ["[constructor]", "FILE: constructor is not a setting; there are store"],
    ["[worker]\ntoString = 1", "FILE: worker.toString is not a setting"],
    ["trust_store = true", "FILE: trust_store is not a setting: a file can't ask to be trusted"],
    ["[worker]\ntrust_store = true", "a file can't ask to be trusted"],
    ["worker = 3", "FILE: worker 3 is not a table"],
    ['[worker]\npreempt = "yes"', 'FILE: worker.preempt "yes" is not true or false'],
    ["[worker]\nslots = true", "FILE: worker.slots true is not a text or a number"],
    ["[worker]\nslots = [1]", "FILE: worker.slots [1] is not a text or a number"],
    ["[worker]\nslots = inf", "FILE: worker.slots Infinity is not a finite number"],
    ["[worker]\nlease = 12:00:00", "FILE: worker.lease"],
    ["[worker]\nqueue = [1]", 'FILE: worker.queue [1] is not a list of texts, such as ["a", "b"]'],
    ["store = 7", "FILE: store 7 is not the name of a file or an address"],
    ['store = ""', 'FILE: store "" is empty'],
    [new Uint8Array([0xff, 0xfe, 0x41]), "FILE is not valid UTF-8"],
    [`# ${"x".repeat(1024 * 1024)}`, "FILE has more than 1 MiB"],
  ])("%j", (text, message) => {
    const told = complaint(written(text));
    expect(told).toContain(message);
    expect(told).not.toContain("\n");
  });
});

describe("a file", () => {
  test.each([0o620, 0o602, 0o666])("that others can write (%o) is refused, named or not", (mode) => {
    const path = written("", mode);
    for (const named of [true, false]) {
      expect(complaint(path, named)).toMatch(/^FILE can be written by others, .* chmod go-w /);
    }
  });

  test("that is a folder is refused; what is not a file counts only when it was named", () => {
    const path = join(folder, "folder.toml");
    mkdirSync(path);
    expect(complaint(path)).toContain("FILE is not a file");
    expect(complaint("/dev/null", false)).toContain("FILE is not a file");
    expect(read("/dev/null").value(null, "store")).toBeUndefined();
  });

  test.skipIf(process.getuid?.() !== 0)("of another user counts only when it was named (needs root)", () => {
    const path = written('color = "never"');
    chownSync(path, 65_534, 65_534);
    expect(complaint(path, false)).toContain("FILE belongs to another user");
    expect(read(path).value(null, "color")).toBe("never");
  });

  test.skipIf(process.getuid?.() !== 0)("behind another user's link counts only when it was named (needs root)", () => {
    const link = join(folder, "link.toml");
    symlinkSync(written('color = "never"'), link);
    expect(read(link, false).value(null, "color")).toBe("never");
    lchownSync(link, 65_534, 65_534);
    expect(complaint(link, false)).toContain("FILE belongs to another user");
    expect(read(link).value(null, "color")).toBe("never");
  });
});
