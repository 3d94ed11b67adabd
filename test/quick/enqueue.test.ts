/** The quick enqueue understands the flags that it names, and what it makes of them is what the whole command makes. */

import { Database } from "bun:sqlite";
import { afterAll, describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import enqueue from "../../src/commands/enqueue/enqueue.ts";
import { ENQUEUE_FLAGS } from "../../src/quick/enqueue.ts";
import { quickLine } from "../../src/quick/line.ts";
import { answerQuickly } from "../../src/quick/quick.ts";
import { aliasesOf, flagName, type FlagDef } from "../../src/cli/flags.ts";
import { strictLine } from "../../src/cli/strict.ts";
import { dispatch } from "../../src/cli/main.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { asIfBuilt } from "../support/built.ts";

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
const env: Readonly<Record<string, string>> = { HOME: top, A: "from here" };

const NO_ROW = {};

function row(store: string): Record<string, unknown> {
  const database = new Database(store);
  const found = database.query("SELECT * FROM jobs ORDER BY id DESC").get() as Record<string, unknown> | null;
  database.close();
  if (found === null) return NO_ROW;
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

const enqueueQuickly = (words: readonly string[], variables = env) => answerQuickly(["enqueue", ...words], variables);

/** For each flag that it names, a value that is not the default. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  shell: ["-c", "exit 3"],
  queue: ["-q", "mail"],
  task: ["--task=t"],
  key: ["-k", "deploy"],
  priority: ["-p", "7"],
  delay: ["--delay", "1h30m"],
  retries: ["--retries", "0"],
  timeout: ["--timeout", "7s"],
  lease: ["--lease", "auto"],
  after: ["--after", "1"],
};

describe.if(process.platform === "linux")("the quick enqueue is opt-in", () => {
  const named = [...new Set(Object.values(ENQUEUE_FLAGS))].filter((key) => key !== "store");
  const line = (key: string, store: string) => [
    `--store=${store}`,
    ...(VALUES[key] ?? []),
    ...(key === "shell" ? [] : ["--", "true"]),
  ];

  test("each flag that it names is tried below", () => {
    expect(Object.keys(VALUES)).toEqual(named);
  });

  test("each is written as the whole command has it", () => {
    for (const [written, key] of Object.entries(ENQUEUE_FLAGS)) {
      const flag = enqueue.flags[key];
      expect(flag).toBeDefined();
      expect([`--${flagName(key)}`, ...aliasesOf(flag as FlagDef).map((alias) => `-${alias}`)]).toContain(written);
    }
  });

  test.each(named)("what it makes of %s is what the whole command makes of it", async (key) => {
    const [quick, whole] = [await newStore(), await newStore()];
    for (const store of [quick, whole]) expect(enqueueQuickly([`--store=${store}`, "true"])).not.toBeNull();
    expect(enqueueQuickly(line(key, quick))).toMatchObject({ text: "2\n" });
    await wholeCommand(line(key, whole));
    expect(row(quick)).toEqual(row(whole));
  });

  test.each([
    [["completed", "completed"], "pending"],
    [["completed", "pending"], "blocked"],
    [["pending", "completed"], "blocked"],
  ])("behind jobs that are %j it is %s, as by the whole command", async (states, state) => {
    const twins = [await newStore(), await newStore()] as const;
    for (const store of twins) {
      for (const _ of states) enqueueQuickly([`--store=${store}`, "true"]);
      const database = new Database(store);
      for (const [index, name] of states.entries())
        if (name === "completed")
          database.run("UPDATE jobs SET state = 'completed', finished_at_ms = 1 WHERE id = ?", [index + 1]);
      database.close();
    }
    const behindBoth = (store: string) => [`--store=${store}`, "--after", "1,2", "true"];
    expect(enqueueQuickly(behindBoth(twins[0]))).toMatchObject({ text: "3\n" });
    await wholeCommand(behindBoth(twins[1]));
    expect(row(twins[0])).toMatchObject({ state });
    expect(row(twins[0])).toEqual(row(twins[1]));
  });

  test.each([
    [["", "x"], null],
    [["true", "x".repeat(2_000_000)], null],
    [["true", "x".repeat(20_000)], "1\n"],
  ])("a command that is empty or too long is left to the whole command", async (words, text) => {
    const store = await newStore();
    const answer = enqueueQuickly([`--store=${store}`, "--", ...words]);
    if (text === null) expect(answer).toBeNull();
    else expect(answer).toMatchObject({ text });
  });

  test("the store may stand before the command, as it may for all", async () => {
    const store = await newStore();
    expect(answerQuickly(["--store", store, "enqueue", "true"], env)).toMatchObject({ text: "1\n" });
    expect(answerQuickly([`--store=${store}`, "add", "-q", "mail", "true"], env)).toMatchObject({ text: "2\n" });
    expect(answerQuickly(["--store", store, "enqueue", "--store", store, "true"], env)).toBeNull();
    for (const words of [["--store"], ["--store", store], ["--store", "enqueue", "true"], [`--store=${store}`]])
      expect(answerQuickly(words, env)).toBeNull();
  });

  test.each(Object.keys(enqueue.flags).filter((key) => !named.includes(key) && key !== "store"))(
    "a line with %s is left to the whole command",
    async (key) => {
      const store = await newStore();
      const words = enqueue.flags[key]?.type === "boolean" ? [] : ["1"];
      expect(enqueueQuickly([`--store=${store}`, `--${flagName(key)}`, ...words, "--", "true"])).toBeNull();
    },
  );

  const WRONG = [
    "--delay=soon",
    "--delay=-1s",
    "--priority=1e3",
    "--retries=-1",
    "--lease=0",
    "--timeout=0",
    "--after=x",
  ];
  const ODD = [
    "--after=1-3",
    "--after=0",
    "--queue=",
    "--key=",
    "--queue=a,b",
    "-qmail",
    "-config",
    "-p",
    "--priority=5x",
  ];
  test.each([...WRONG, ...ODD])("a line with %s is left to the whole command, and nothing is done", async (word) => {
    const store = await newStore();
    expect(enqueueQuickly([`--store=${store}`, word, "--", "true"])).toBeNull();
    expect(row(store)).toEqual(NO_ROW);
  });

  test("what it reads of a line is what the whole command reads, or nothing", () => {
    const forms = Object.values(VALUES).flatMap((words) => [words, [words.join("=")], [words.join("")]]);
    const odd = ["--", "-", "-config", "-queue", "-q=x", "-cv", "--no-pty", "--pty=1", "--queue", "ls", "-é", "-", ""];
    const lines = fc.array(fc.oneof(fc.constantFrom(...forms), fc.constantFrom(...odd.map((word) => [word]))));
    fc.assert(
      fc.property(lines, (parts) => {
        const words = parts.flat();
        const quick = quickLine(words, ENQUEUE_FLAGS);
        if (quick === null) return;
        const { args, lists, rest, before_dashes } = strictLine(enqueue, words);
        const { after, ...values } = quick.values;
        expect(args).toMatchObject(values);
        expect(lists["after"]).toEqual(after === undefined ? [] : [after]);
        expect({ rest, behind_dashes: before_dashes !== null }).toEqual({
          rest: quick.rest,
          behind_dashes: quick.behind_dashes,
        });
      }),
      { numRuns: 2_000 },
    );
  });

  test.each(["LEASE_ENQUEUE_RETRIES", "LEASE_ENQEUE_RETRIES", "LEASE_SOTRE", "LEASE_COLOR", "TRACEPARENT"])(
    "with %s set it is left to the whole command",
    async (name) => {
      const store = await newStore();
      expect(enqueueQuickly([`--store=${store}`, "true"], { ...env, [name]: "1" })).toBeNull();
      expect(enqueueQuickly([`--store=${store}`, "true"], { ...env, LEASE_WORKER_SLOTS: "4" })).not.toBeNull();
    },
  );
});
