import { describe, expect, test } from "bun:test";
import {
  ambientInCore,
  exitOutsideMain,
  indexWithCode,
  leftoverMarkers,
  missingHeader,
  runtimeOutsidePlatform,
  signalsOutsidePlatform,
} from "./rules.ts";
import { sources } from "./source.ts";

const core = (source: string): string[] => ambientInCore([{ path: "src/core/job.ts", source }]);
const index = (source: string): string[] => indexWithCode([{ path: "src/index.ts", source }]);

describe("core is pure", () => {
  test("no file of core reads a clock, randomness or the runtime", async () => {
    expect(ambientInCore(await sources())).toEqual([]);
  });

  test.each([
    "const now = Date.now();",
    "const now = new Date();",
    "const now = new Date;",
    "const now = Date();",
    "const now = performance.now();",
    "const clock = Date.now;",
    "const roll = Math.random();",
    "const id = crypto.randomUUID();",
    "setTimeout(beat, 1000);",
    "const home = process.env.HOME;",
    "const file = Bun.file(path);",
    "const text = `${Date.now()}`;",
    "globalThis.process.exit();",
  ])("the check refuses `%s`", (source) => {
    expect(core(source)).toHaveLength(1);
  });

  test("the check accepts time that was passed in, and names in prose", () => {
    const source = `
      // never Date.now() here
      const at = new Date(now_ms).toISOString();
      const later = clock.now() + Math.min(delay_ms, 10);
      const hint = "setTimeout(process.env)";
      job.process.start();
    `;
    expect(core(source)).toEqual([]);
  });

  test("the check leaves other folders alone and names file, line and find", () => {
    const source = "// header\nDate.now();\n";
    const files = ["src/core/job.ts", "src/worker/pool.ts"].map((path) => ({ path, source }));
    expect(ambientInCore(files)).toEqual([expect.stringMatching(/^src\/core\/job\.ts:2 has Date\.now: core is pure/)]);
  });
});

describe("only main exits", () => {
  test("nothing but src/main.ts ends the process or sets its exit code", async () => {
    expect(exitOutsideMain(await sources())).toEqual([]);
  });

  test.each([
    "process.exit(1);",
    "const leave = process.exit;",
    "process.exitCode = 2;",
    "process.abort();",
    "Deno.exit(0);",
    'import { exit } from "node:process";',
  ])("the check refuses `%s`", (source) => {
    expect(exitOutsideMain([{ path: "src/commands/enqueue/enqueue.ts", source }])).toHaveLength(1);
    expect(exitOutsideMain([{ path: "src/main.ts", source }])).toEqual([]);
  });

  test("the check accepts reading an exit code", () => {
    const source = 'if (child.exitCode === 0 || process.exitCode === 1) log("process.exit(1)");';
    expect(exitOutsideMain([{ path: "src/runner/shell.ts", source }])).toEqual([]);
  });
});

describe("processes are signalled in one place", () => {
  test("nothing but src/platform/signals.ts kills", async () => {
    expect(signalsOutsidePlatform(await sources())).toEqual([]);
  });

  test.each(["process.kill(-pid, name);", "const end = process.kill;"])("the check refuses `%s`", (source) => {
    expect(signalsOutsidePlatform([{ path: "src/runner/group.ts", source }])).toHaveLength(1);
    expect(signalsOutsidePlatform([{ path: "src/platform/signals.ts", source }])).toEqual([]);
  });
});

describe("runtimes differ in platform only", () => {
  test("nothing but src/platform uses the globals of Bun or Deno", async () => {
    expect(runtimeOutsidePlatform(await sources())).toEqual([]);
  });

  test.each(["Bun.spawn(argv);", "Deno.env.get(name);"])("the check refuses `%s`", (source) => {
    expect(runtimeOutsidePlatform([{ path: "src/runner/shell.ts", source }])).toHaveLength(1);
    expect(runtimeOutsidePlatform([{ path: "src/platform/bun.ts", source }])).toEqual([]);
  });
});

describe("index.ts re-exports", () => {
  test("the library's surface holds no code of its own", async () => {
    expect(indexWithCode(await sources())).toEqual([]);
  });

  test("the check accepts re-exports in every form", () => {
    const source = `/** The library. */
      export { LeaseError } from "./core/errors.ts";
      export type { Job, NewJob } from "./core/job.ts";
      export * as core from "./core/job.ts";
    `;
    expect(index(source)).toEqual([]);
  });

  test.each(["export const version = 1;", 'import "./core/job.ts";'])("the check refuses `%s`", (source) => {
    expect(index(source)).toHaveLength(1);
  });
});

describe("every file says what it is for", () => {
  test("each source file begins with a comment", async () => {
    expect(missingHeader(await sources())).toEqual([]);
  });

  test.each([
    "/** What a job is. */\n",
    "/*\n * What a job is.\n */\n",
    "// What a job is.\n",
    "#!/usr/bin/env bun\n// It.\n",
  ])("the check accepts %j", (source) => {
    expect(missingHeader([{ path: "src/core/job.ts", source }])).toEqual([]);
  });

  test.each(["", "export const x = 1; // late\n", "\n// after a gap\n", "//\n", "/** */\n"])(
    "the check refuses %j",
    (source) => {
      expect(missingHeader([{ path: "src/core/job.ts", source }])).toHaveLength(1);
    },
  );
});

describe("nothing is left over", () => {
  test("no source file holds a marker for later", async () => {
    expect(leftoverMarkers(await sources())).toEqual([]);
  });

  // Spelt in halves so that a search for markers in the repository stays empty.
  test.each(["TO-DO", "FIX-ME", "X-XX", "HA-CK"].map((halves) => halves.replace("-", "")))(
    "the check finds %s in a comment",
    (marker) => {
      expect(leftoverMarkers([{ path: "src/core/job.ts", source: `// a\n// ${marker}: later\n` }])).toEqual([
        `src/core/job.ts:2 has ${marker}: finish it or open an issue`,
      ]);
    },
  );

  test("the check does not take whole words for markers", () => {
    expect(leftoverMarkers([{ path: "src/core/job.ts", source: "const todos = 1; // hackney, XXXL\n" }])).toEqual([]);
  });
});
