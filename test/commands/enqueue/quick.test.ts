/** The quick enqueue understands the flags that it names, and what it makes of them is what the whole command makes. */

import { Database } from "bun:sqlite";
import { afterAll, describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import enqueue from "../../../src/commands/enqueue/enqueue.ts";
import { enqueueQuickly, QUICK_GRAMMAR } from "../../../src/commands/enqueue/quick.ts";
import { flagName } from "../../../src/cli/flags.ts";
import { quickWords } from "../../../src/cli/quick_words.ts";
import { strictLine } from "../../../src/cli/strict.ts";
import { dispatch } from "../../../src/cli/main.ts";
import { systemClock, systemRandom } from "../../../src/platform/clock.ts";
import { openSqlite } from "../../../src/store/sqlite/open.ts";
import { asIfBuilt } from "../../support/built.ts";

asIfBuilt();

const top = mkdtempSync(join(tmpdir(), "lease-quick-"));
afterAll(() => rmSync(top, { recursive: true }));

let stores = 0;

/** A store that exists, as the second `lease enqueue` finds it. */
async function newStore(): Promise<string> {
  const path = join(top, `${++stores}`, "lease.db");
  await (await openSqlite(path, { clock: systemClock, random: systemRandom })).close({ exiting: true });
  return path;
}

/** Variables without any of lease's own, and no lease.toml. */
const env = { HOME: top, A: "from here" };

function row(store: string): Record<string, unknown> {
  const database = new Database(store);
  const found = database.query("SELECT * FROM jobs").get() as Record<string, unknown>;
  database.close();
  return {
    ...found,
    created_at_ms: null,
    run_at_ms: Math.sign(Number(found["run_at_ms"]) - Number(found["created_at_ms"])),
  };
}

async function wholeCommand(words: readonly string[]): Promise<void> {
  const io = {
    stdout: () => {},
    stdoutBytes: () => {},
    stderr: () => {},
    env,
    is_tty: false,
    columns: null,
  };
  const commands = { enqueue: { group: "", description: "", load: async () => enqueue } };
  expect(await dispatch(["enqueue", ...words], commands, io)).toBe(0);
}

/** For each flag that it names, a value that is not the default. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  shell: ["-c", "exit 3"],
  queue: ["-q", "mail"],
  task: ["--task=t"],
  priority: ["-p", "-7"],
  delay: ["--delay", "1h"],
  retries: ["--retries", "0"],
  backoff: ["--backoff", "fixed:30s"],
  retry_on: ["--retry-on", "lost"],
  fatal_exit: ["--fatal-exit", "2,64-78"],
  lease: ["--lease", "auto"],
  beat: ["--beat", "timer"],
  timeout: ["--timeout", "7s"],
  pty: ["--pty"],
  cwd: ["--cwd", "/"],
  env: ["--env", "A,B=1"],
  log_limit: ["--log-limit", "64k"],
  output_limit: ["--output-limit", "1k"],
};

describe.if(process.platform === "linux")("the quick enqueue is opt-in", () => {
  const named = Object.keys(QUICK_GRAMMAR.flags).filter((key) => key !== "store");
  const line = (key: string, store: string) => [
    `--store=${store}`,
    ...(VALUES[key] ?? []),
    ...(key === "shell" ? [] : ["--", "true"]),
  ];

  test("each flag that it names is tried below", () => {
    expect(Object.keys(VALUES)).toEqual(named);
  });

  test.each(named)("what it makes of %s is what the whole command makes of it", async (key) => {
    const [quick, whole] = [await newStore(), await newStore()];
    expect(enqueueQuickly(line(key, quick), env)).toMatchObject({ text: "1\n" });
    await wholeCommand(line(key, whole));
    expect(row(quick)).toEqual(row(whole));
  });

  test.each(Object.keys(enqueue.flags).filter((key) => !named.includes(key) && key !== "store"))(
    "a line with %s is left to the whole command",
    async (key) => {
      const store = await newStore();
      const words = enqueue.flags[key]?.type === "boolean" ? [] : ["1"];
      expect(enqueueQuickly([`--store=${store}`, `--${flagName(key)}`, ...words, "--", "true"], env)).toBeNull();
    },
  );

  test("what it reads of a line is what the whole command reads, or nothing", () => {
    const forms = Object.values(VALUES).flatMap((words) => [words, [words.join("=")], [words.join("")]]);
    const odd = ["--", "-", "-config", "-queue", "-q=x", "-cv", "--no-pty", "--pty=1", "--queue", "ls", "-é", "-", ""];
    const lines = fc.array(fc.oneof(fc.constantFrom(...forms), fc.constantFrom(...odd.map((word) => [word]))));
    fc.assert(
      fc.property(lines, (parts) => {
        const words = parts.flat();
        const quick = quickWords(QUICK_GRAMMAR, words);
        if (quick === null) return;
        const whole = strictLine(enqueue, words);
        expect(whole).toMatchObject(quick as typeof whole);
      }),
      { numRuns: 2_000 },
    );
  });

  test("a slip that looks like a short flag with its value is left to the whole command", async () => {
    const store = await newStore();
    for (const slip of ["-config", "-trust-store", "-queue"]) {
      expect(enqueueQuickly([`--store=${store}`, slip, "--", "true"], env)).toBeNull();
    }
    expect(enqueueQuickly([`--store=${store}`, "-qmail", "-p5", "--", "true"], env)).toMatchObject({ text: "1\n" });
  });
});
