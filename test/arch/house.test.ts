/** The rules of the house: a newcomer finds things by the names of folders and files. */

import { describe, expect, test } from "bun:test";
import { COMMANDS } from "../../src/cli/commands.ts";
import {
  commandsThatImportOthers,
  namesExportedTwice,
  optionsHandedOn,
  retiredWords,
  smallFilesWithOneUser,
  strayCommands,
} from "./house.ts";
import { sources, type SourceFile } from "./source.ts";

const file = (path: string, source = ""): SourceFile => ({ path, source });
const long = "\n".repeat(30);

describe("src/commands is the list of commands", () => {
  test("each has its file, and nothing else is there", async () => {
    expect(strayCommands(await sources(), Object.keys(COMMANDS))).toEqual([]);
  });

  test("the check accepts a file, and a folder with a file of its name", () => {
    const files = [file("src/commands/wait.ts"), file("src/commands/run/run.ts"), file("src/commands/run/help.ts")];
    expect(strayCommands(files, ["wait", "run"])).toEqual([]);
  });

  test("the check names what is no command, and a command without a file", () => {
    const files = [file("src/commands/helpers.ts"), file("src/commands/run/help.ts")];
    expect(strayCommands(files, ["run", "wait"])).toEqual([
      "src/commands/helpers.ts: lease has no command helpers; what commands share is in src/cli",
      "lease run has no file of its own: src/commands/run.ts or src/commands/run/run.ts",
      "lease wait has no file of its own: src/commands/wait.ts or src/commands/wait/wait.ts",
    ]);
  });
});

describe("no command imports another", () => {
  test("in src", async () => {
    expect(commandsThatImportOthers(await sources())).toEqual([]);
  });

  test("the check tells a command's own files from those of others", () => {
    const own = file("src/commands/run/run.ts", 'import { x } from "./help.ts"; import "../../cli/io.ts";');
    const other = file("src/commands/wait.ts", 'import { x } from "./run/help.ts";');
    expect(commandsThatImportOthers([own, other])).toEqual([
      "src/commands/wait.ts imports src/commands/run/help.ts: a command imports no other; what both need is in src/cli or src/lookup",
    ]);
  });
});

describe("no two exported names are alike", () => {
  test("in src, the two engines aside", async () => {
    expect(namesExportedTwice(await sources())).toEqual([]);
  });

  test.each([
    ["src/view/a.ts", "src/core/b.ts"],
    ["src/store/sqlite/a.ts", "src/store/sqlite/b.ts"],
    ["src/store/sqlite/a.ts", "src/store/shared/b.ts"],
  ])("the check refuses one in %s and in %s", (one, other) => {
    const files = [file(one, "export interface Row {}"), file(other, "export type Row = 1;")];
    expect(namesExportedTwice(files)).toEqual([`Row is exported by ${one} and ${other}: one name, one meaning`]);
  });

  test("the check looks at what runs in a browser by itself", () => {
    const page = "src/observe/dashboard/pages";
    const row = (path: string) => file(path, "export interface Row {}");
    expect(namesExportedTwice([row("src/view/a.ts"), row(`${page}/a.ts`)])).toEqual([]);
    expect(namesExportedTwice([row(`${page}/a.ts`), row(`${page}/b.tsx`)])).toHaveLength(1);
  });

  test("the check accepts the same verb in both engines", () => {
    const verb = "export async function acquire() {}";
    expect(namesExportedTwice([file("src/store/sqlite/a.ts", verb), file("src/store/postgres/a.ts", verb)])).toEqual(
      [],
    );
  });
});

describe("a file under 25 lines has a second user", () => {
  test("in src", async () => {
    expect(smallFilesWithOneUser(await sources())).toEqual([]);
  });

  test("the check names the only user", () => {
    const small = file("src/core/small.ts", "export const x = 1;");
    const user = file("src/core/user.ts", `import { x } from "./small.ts";${long}x();`);
    const second = file("src/view/second.ts", `import { x } from "../core/small.ts";${long}x();`);
    expect(smallFilesWithOneUser([small, user]).filter((line) => line.includes("small.ts has"))).toEqual([
      "src/core/small.ts has 1 lines and is used by src/core/user.ts alone: put it there",
    ]);
    expect(smallFilesWithOneUser([small, user, second])).toEqual([]);
  });

  test("the check lets a command and an entrance be small", () => {
    expect(smallFilesWithOneUser([file("src/commands/pause.ts"), file("src/main.ts")])).toEqual([]);
  });
});

describe("words that did not explain themselves stay retired", () => {
  test("in src", async () => {
    expect(retiredWords(await sources())).toEqual([]);
  });

  // Spelt in halves, so that a search for them in the repository stays empty.
  test.each(["vi-gil", "pati-ence_ms", "Spar-ing", "Gath-er"].map((halves) => halves.replace("-", "")))(
    "the check finds %s",
    (word) => {
      expect(retiredWords([file("src/core/a.ts", `const ${word} = 1; // ${word}`)])).toHaveLength(1);
    },
  );
});

describe("a constructor names what it takes", () => {
  test("in src", async () => {
    expect(optionsHandedOn(await sources())).toEqual([]);
  });

  test.each(["new Pool({ ...options, slots: 1 })", "new Pool({ slots: 1, ...this.#options })"])(
    "the check refuses `%s`",
    (code) => {
      expect(optionsHandedOn([file("src/worker/a.ts", code)])).toHaveLength(1);
    },
  );

  test("the check accepts names, and a copy that is not for a constructor", () => {
    const code = "new Pool({ slots, clock }); const more = { ...options, slots: 1 };";
    expect(optionsHandedOn([file("src/worker/a.ts", code)])).toEqual([]);
  });
});
