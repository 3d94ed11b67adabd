/**
 * The library as npm has it: packed, installed in an empty folder, and used from there on Bun and on Deno with the
 * permissions that docs/library.md names. What the documents and the comments of the library show is run as it stands.
 */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { apiReport, REPORT } from "../../scripts/api_report.ts";
import { packLibrary } from "../../scripts/pack.ts";
import { ROOT, run } from "../cli/lease.ts";
import { pages } from "../support/documents.ts";

// Not below /dev, of which Deno reads nothing without all permissions.
const folder = mkdtempSync(join(tmpdir(), "lease-package-"));
const packed = join(folder, "packed");
const DENO = join(ROOT, "node_modules/.bin/deno");
const LEAST = ["run", "--no-prompt", "--allow-read", "--allow-write=.", "--allow-sys=hostname,uid,statfs"];
const TIMEOUT_MS = 60_000;

/** By npm's own rules of what is packed; what it needs comes from here instead of from a registry. */
async function install(): Promise<void> {
  await packLibrary(packed);
  const { code, stdout } = await run(["npm", "pack", "--silent", "--pack-destination", folder], { cwd: packed });
  expect(code).toBe(0);
  const target = join(folder, "node_modules/@lease/queue");
  mkdirSync(target, { recursive: true });
  const tar = ["tar", "-xzf", join(folder, stdout.trim()), "-C", target, "--strip-components=1"];
  expect((await run(tar)).code).toBe(0);
  for (const name of ["postgres", "valibot"]) {
    cpSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name), {
      recursive: true,
      dereference: true,
    });
  }
  writeFileSync(join(folder, "package.json"), '{ "type": "module", "private": true }\n');
  // Types of the runtime, for whoever checks.
  mkdirSync(join(folder, "node_modules/@types"), { recursive: true });
  for (const name of ["@types/node", "@types/bun", "bun-types", "undici-types"]) {
    try {
      symlinkSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name));
    } catch {
      // Where one comes with another it is found there.
    }
  }
}

beforeAll(install, TIMEOUT_MS);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let programs = 0;

/** A folder of its own, with the package to be found above it. */
function program(text: string, more: Readonly<Record<string, string>> = {}): { cwd: string; file: string } {
  const cwd = join(folder, `program-${(programs += 1)}`);
  mkdirSync(cwd, { mode: 0o700 });
  writeFileSync(join(cwd, "main.ts"), text);
  for (const [name, content] of Object.entries(more)) writeFileSync(join(cwd, name), content);
  return { cwd, file: join(cwd, "main.ts") };
}

const env = { ...process.env, NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1" } as Record<string, string>;
const onBun = ({ cwd, file }: { cwd: string; file: string }) => run([process.execPath, file], { cwd, env });
const onDeno = ({ cwd, file }: { cwd: string; file: string }) => run([DENO, ...LEAST, file], { cwd, env });
const RUNTIMES = [
  ["Bun", onBun],
  ["Deno", onDeno],
] as const;

/** What a strict compiler says of programs that use the package. */
async function typeErrors(files: Readonly<Record<string, string>>): Promise<string> {
  const compilerOptions = {
    target: "ESNext",
    lib: ["ESNext", "DOM"],
    types: ["node"],
    module: "NodeNext",
    strict: true,
    noEmit: true,
    exactOptionalPropertyTypes: true,
  };
  const config = { compilerOptions, files: Object.keys(files) };
  const { cwd } = program("", { ...files, "tsconfig.json": JSON.stringify(config) });
  const tsc = [process.execPath, join(ROOT, "node_modules/typescript/bin/tsc"), "-p", "."];
  return (await run(tsc, { cwd })).stdout;
}

/** As the specification has it, word by word. */
const TEN_LINES = `
import { open } from "@lease/queue";            // the npm name \`lease\` is somebody else's; the command stays \`lease\`

await using queue = await open("jobs.db");       // or postgres://…, or ":memory:" for tests
await queue.enqueue({ queue: "mail", input: { to: "a@b.example" }, key: "welcome-7", retries: 3 });

await using worker = queue.worker({ queue: "mail", slots: 4 }, async (job, { beat, progress, checkpoint, signal, log }) => {
  for (const page of job.input.pages) { signal.throwIfAborted(); await send(page); beat(); }
  return { sent: 3 };                            // the job's output
});
await worker.finished;                           // or worker.stop({ drain: "30s" })
`;

/** Somebody else gives its worker a job that it can do, and one of the programs looks at the result. */
const AROUND = `
globalThis.send = async () => {};
void import("./ten_lines.ts");
const { open } = await import("@lease/queue");
await using side = await open("jobs.db");
const { id } = await side.enqueue({ queue: "mail", input: { pages: [1, 2, 3] } });
const job = await side.wait(id, { timeout: "30s" });
console.log(JSON.stringify([job.state, job.output]));
let first;
while (first?.state !== "retrying") [first] = await side.list({ key: "welcome-7" });
console.log(first.state, first.error);
(globalThis.Deno ?? process).exit(0);
`;

describe("the ten lines", () => {
  test.each(RUNTIMES)(
    "run on %s from node_modules",
    async (_name, start) => {
      const { code, stdout, stderr } = await start(program(AROUND, { "ten_lines.ts": TEN_LINES }));
      expect([stderr.replaceAll(/^lease: job \d: .*\n/gm, ""), code]).toEqual(["", 0]);
      expect(stdout).toContain('["completed",{"sent":3}]\n');
      // The one of the ten lines has no pages: that is told, and it is tried again.
      expect(stdout).toMatch(/^retrying TypeError: /m);
    },
    TIMEOUT_MS,
  );

  test(
    "run on Deno by path, and on Node where there is one that can",
    async () => {
      const path = join(folder, "node_modules/@lease/queue/node/index.js");
      const text = `import { open } from ${JSON.stringify(path)};
        await using queue = await open("jobs.db");
        await queue.enqueue({ input: 20 });
        await queue.worker({ until_empty: true }, (job) => job.input * 2).finished;
        console.log((await queue.list())[0].output);`;
      expect(await onDeno(program(text))).toMatchObject({ code: 0, stdout: "40\n" });
      const { stdout: version } = await run(["node", "--version"]);
      if (Number(/^v(\d+)/.exec(version)?.[1]) < 24) {
        console.warn(`node ${version.trim()} has no node:sqlite that is good enough: not tried`);
        return;
      }
      const made = program(text);
      expect(await run(["node", made.file], { cwd: made.cwd, env })).toMatchObject({ code: 0, stdout: "40\n" });
    },
    TIMEOUT_MS,
  );
});

describe("the package", () => {
  const files = (path: string): string[] =>
    readdirSync(path, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));

  test("leaves nothing to map, and names no file of the machine that made it", () => {
    const code = files(join(folder, "node_modules/@lease/queue")).filter((path) => /\.(js|d\.ts)$/.test(path));
    expect(code.length).toBeGreaterThan(20);
    const wrong = code.filter((path) => {
      const text = readFileSync(path, "utf8");
      return /from "#|import\("#/.test(text) || text.includes(ROOT) || /from "\.[^"]*\.ts"/.test(text);
    });
    expect(wrong).toEqual([]);
  });

  test(
    "has types that a strict program is checked with",
    async () => {
      const text = `import { LeaseError, NoRetry, open, type Handler } from "@lease/queue";
        import { drain } from "@lease/queue/testing";
        const handler: Handler<{ to: string }, { sent: string }> = async (job, { signal, progress }) => {
          signal.throwIfAborted();
          progress(50, "half");
          if (job.input.to === "") throw new NoRetry("nobody");
          return { sent: job.input.to };
        };
        await using queue = await open(":memory:");
        const { id } = await queue.enqueue({ input: { to: "a" }, timeout: "1h" });
        await drain(queue, handler);
        const job = await queue.wait(id);
        const state: string = job.state;
        // @ts-expect-error there is no such option
        queue.worker({ slotz: 1 }, handler);
        // @ts-expect-error times are texts
        await queue.enqueue({ input: 1, lease: 30 });
        export { LeaseError, state };`;
      expect(await typeErrors({ "main.ts": text })).toBe("");
    },
    TIMEOUT_MS,
  );

  test(
    "has the surface that was agreed on; a change of it is written by `bun scripts/api_report.ts`",
    () => expect(readFileSync(REPORT, "utf8")).toBe(apiReport()),
    TIMEOUT_MS,
  );
});

const fenced = (text: string) => [...text.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code = ""]) => code);

describe("what is shown", () => {
  const shown = pages().flatMap(({ source }) => fenced(source));

  test("in the documents is there", () => expect(shown.length).toBeGreaterThanOrEqual(2));

  test(
    "in the documents is right by its types",
    async () => {
      const named = shown.map((text, index) => [/^\/\/ (\w+\.ts)\n/.exec(text)?.[1] ?? `shown-${index}.ts`, text]);
      expect(await typeErrors(Object.fromEntries(named))).toBe("");
    },
    TIMEOUT_MS,
  );

  test.each(RUNTIMES)(
    "in the documents runs on %s",
    async (_name, start) => {
      const beside: Record<string, string> = {};
      for (const text of shown) {
        // One that begins with the name of a file is that file, for those that come after it.
        const [, file] = /^\/\/ (\w+\.ts)\n/.exec(text) ?? [];
        if (file !== undefined) {
          beside[file] = text;
          continue;
        }
        const { code, stderr, stdout } = await start(program(text, beside));
        expect([stderr, code]).toEqual(["", 0]);
        // What a line is said to print, it prints; and nothing that is shown runs without a trace.
        const said = [...text.matchAll(/console\.log\(.*\); \/\/ (.+)$/gm)].map(([, line = ""]) => line);
        expect(stdout.trim().split("\n")).toEqual(expect.arrayContaining(said));
        expect(stdout).not.toBe("");
      }
    },
    TIMEOUT_MS,
  );

  /** Each in a block of its own, with what its words take for granted. */
  function together(): string {
    const sources = ["src/testing.ts", ...readdirSync(join(ROOT, "src/library")).map((name) => `src/library/${name}`)];
    const examples = sources
      .filter((path) => path.endsWith(".ts"))
      .flatMap((path) => fenced(readFileSync(join(ROOT, path), "utf8").replaceAll(/^ *\* ?/gm, "")));
    expect(examples.length).toBeGreaterThanOrEqual(10);
    const blocks = examples.map(
      (text, index) => `{
        const queue = await open(":memory:");
        await queue.enqueue({ input: 1 });
        const manager = new LeaseManager(queue);
        const lease = await manager.acquire();
        { ${text} }
        await queue.close();
        console.log("example", ${index});
      }`,
    );
    return `import { Heartbeat, HeartbeatTimer, LeaseExtender, LeaseManager, open, RecoverySweep, WorkerPool } from "@lease/queue";
      import { drain, FakeClock } from "@lease/queue/testing";
      ${blocks.join("\n")}
      console.log("all of", ${examples.length});`;
  }

  test.each(RUNTIMES)(
    "in the comments runs on %s",
    async (_name, start) => {
      const { code, stdout, stderr } = await start(program(together()));
      expect([stderr, code]).toEqual(["", 0]);
      expect(stdout).toMatch(/all of \d+\n$/);
    },
    TIMEOUT_MS,
  );
});
