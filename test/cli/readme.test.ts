/**
 * The commands of README.md and docs/*.md, run as they stand there. Each block gets a folder with the programs that it
 * names, a store with some history, and a worker or watchdog that ends when there is nothing left. No line may be
 * refused as wrong usage or fail for another reason than "the answer is no". What can't be run here (a `console` block,
 * a command in the middle of a sentence) must name commands and flags that there are.
 */

import { afterAll, describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { blocksOf, inlineOf, pages } from "../support/documents.ts";
import { newSchema, type Schema } from "../support/postgres.ts";
import { LEASE, run, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();

const PAGES = pages();
const BLOCKS = PAGES.flatMap((page) => blocksOf(page));
const inLanguage = (wanted: string) => BLOCKS.filter(({ language }) => language === wanted);

const SCRIPTS = /\.\/[\w-]+\.sh/g;
const STUBS = ["make", "fetch"];
const JOBS_BEFORE = 13;
/** Sets up the checkout and runs all tests: this one is among them. */
const NOT_HERE = new Set(["From source"]);

/** Roles go on until they are stopped; here they end when there is nothing left. */
const BOUNDED = `
lease() {
  case "$1 $*" in
    worker*--until-empty* | watchdog*--once*) command lease "$@" ;;
    watchdog*) shift; command lease watchdog --once "$@" ;;
    worker*) shift; command lease worker --until-empty "$@" ;;
    ui* | metrics*--serve*) timeout --preserve-status 1 lease "$@" || test $? -eq 143 ;;
    *) command lease "$@" ;;
  esac
}
trap 'code=$?; [ $code -le 1 ] || echo "FAILED $code: $BASH_COMMAND" >&2' ERR
`;
/** And what is left to others is done by one, once. */
const PRELUDE = `${BOUNDED}
command lease worker -q gpu --max-jobs 1 2>/dev/null & helper=$!
trap 'kill $helper 2>/dev/null' EXIT
`;

async function prepared(): Promise<Place> {
  const place = newPlace();
  const bin = join(place.folder, "bin");
  mkdirSync(bin);
  symlinkSync(LEASE, join(bin, "lease"));
  const program = (path: string) => {
    writeFileSync(path, '#!/bin/sh\necho "$0 $*"\n');
    chmodSync(path, 0o755);
  };
  const scripts = new Set(PAGES.flatMap(({ source }) => source.match(SCRIPTS) ?? []));
  for (const script of scripts) program(join(place.folder, script));
  for (const stub of STUBS) program(join(bin, stub));
  writeFileSync(join(place.folder, "a.png"), "");
  writeFileSync(join(place.folder, "letter.txt"), "hello");
  mkdirSync(join(place.folder, "data"));
  writeFileSync(join(place.folder, "jobs.jsonl"), inLanguage("json")[0]?.text ?? "");
  for (let job = 0; job < JOBS_BEFORE; job++) {
    await place.enqueue("--task", "release-1.4", "--", "true");
  }
  await place.lease("worker", "--until-empty");
  return place;
}

async function shell(place: Place, script: string, env: Record<string, string> = {}): Promise<string[]> {
  const { code, stderr } = await run(["bash", "-c", script], {
    cwd: place.folder,
    env: {
      PATH: `${join(place.folder, "bin")}:${process.env["PATH"]}`,
      LEASE_STORE: place.store,
      CI_JOB: "job 1",
      ...env,
    },
  });
  const failed = stderr.split("\n").filter((line) => line.startsWith("FAILED") || line.includes("unexpected error"));
  return code === 2 || code === 127 ? [...failed, `the block ended with ${code}: ${stderr}`] : failed;
}

describe("what the documents tell to type", () => {
  for (const { path, heading, text } of inLanguage("sh").filter((block) => !NOT_HERE.has(block.heading))) {
    test(`works: ${path}, ${heading}: ${text.split("\n")[0]}`, async () => {
      const place = await prepared();
      // What is for the inside of a job is run by one.
      const inside = text.includes("LEASE_CHECKPOINT");
      writeFileSync(join(place.folder, "block.sh"), text);
      expect(await shell(place, PRELUDE + (inside ? "lease run -- bash -e block.sh" : text))).toEqual([]);
    });
  }

  test("works: crontabs", async () => {
    const lines = inLanguage("crontab").flatMap(({ text }) => text.trim().split("\n"));
    expect(lines.length).toBeGreaterThan(0);
    const place = await prepared();
    for (const line of lines) {
      const [, command = ""] = /^(?:@\w+|(?:[\d*,/-]+ +){4}[\w*,/-]+) +(.*)$/.exec(line) ?? [];
      expect(command).not.toBe("");
      // Cron's PATH is short, and so is the test's way to the program.
      expect(command).toContain("/usr/local/bin/lease ");
      const here = command.replaceAll("/usr/local/bin/", "").replaceAll(/LEASE_STORE=\S+ /g, "");
      expect(await shell(place, PRELUDE + here)).toEqual([]);
    }
  });

  test("works: the CI steps", async () => {
    const documents = inLanguage("yaml").map(({ text }) => text);
    for (const text of documents) expect(Bun.YAML.parse(text)).toBeObject();
    const steps = documents.flatMap((text) => [...text.matchAll(/- (?:run: )?(lease run .*)$/gm)]);
    expect(steps.length).toBeGreaterThanOrEqual(2);
    const place = await prepared();
    for (const [, step = ""] of steps) {
      expect(await shell(place, PRELUDE + step.replaceAll(/\$\{\{ ([\w.]+) \}\}/g, "$1"))).toEqual([]);
    }
  });

  test("works: what stands between the lines", async () => {
    const lines = PAGES.flatMap((page) => inlineOf(page));
    const asked = lines.filter((line) => /^lease (?:inspect|doctor|completions|watchdog)\b/.test(line));
    expect(asked.length).toBeGreaterThan(8);
    const place = await prepared();
    const script = asked.map((line) => `${line.replace(/\bID\b/, "7")} > /dev/null`).join("\n");
    expect(await shell(place, PRELUDE + script)).toEqual([]);
  });
});

describe("settings", () => {
  for (const { path, heading, text } of inLanguage("toml")) {
    test(`can be used: ${path}, ${heading}`, async () => {
      const place = newPlace();
      writeFileSync(join(place.folder, "lease.toml"), text);
      // Where the file names no store the test must not use that of whoever runs it.
      const env = { HOME: place.folder, CI: "1", ...(/^store = /m.test(text) ? {} : { LEASE_STORE: place.store }) };
      const { stdout } = await run([LEASE, "doctor", "--json"], { cwd: place.folder, env });
      expect(stdout).toContain('"lease.toml"');
      const { code, stderr } = await run([LEASE, "enqueue", "--", "true"], { cwd: place.folder, env });
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    });
  }

  test("of other programs have the form that these read", () => {
    for (const { text } of inLanguage("ini")) {
      for (const line of text.trim().split("\n")) expect(line).toMatch(/^(?:|[#;].*|\[\w+\]|[\w.-]+ ?= ?\S.*)$/);
    }
  });

  test("and jobs in JSON can be enqueued, line by line", async () => {
    for (const { text } of inLanguage("json")) {
      for (const line of text.trim().split("\n")) {
        const place = await prepared();
        expect(await place.leaseWith({ stdin: line }, "enqueue", "--from", "-")).toMatchObject({ code: 0, stderr: "" });
      }
    }
  });
});

/** Commands and aliases with their flags, as the completion of the shell knows them. */
async function known(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const { stdout } = await run([LEASE, "completions", "bash"]);
  const rows = [...stdout.matchAll(/^ {4}([\w-]+)\) flags='([^']*)' ;;$/gm)];
  return new Map(rows.map(([, command = "", flags = ""]) => [command, new Set(flags.split(" "))]));
}

/** What is wrong with a line of shell, as far as it can be said without running it. */
function wrongWith(line: string, commands: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const calls = [...line.matchAll(/(?:^|[|;&(] ?|sudo |exec )lease ([a-z]+)\b([^|;&]*)/g)];
  return calls.flatMap(([, command = "", rest = ""]) => {
    const flags = commands.get(command);
    if (!flags) return [`there is no lease ${command}: ${line}`];
    const [ours = ""] = rest.replaceAll(/"[^"]*"|'[^']*'/g, "").split(/ -- | #/);
    const named = ours.match(/(?<= )--?[a-z][\w-]*/g) ?? [];
    return named.filter((flag) => !flags.has(flag)).map((flag) => `lease ${command} has no ${flag}: ${line}`);
  });
}

describe("what can't be run here", () => {
  test("names commands and flags that there are", async () => {
    const commands = await known();
    expect(commands.get("enqueue")?.has("--retries")).toBe(true);
    const typed = inLanguage("console").flatMap(({ text }) =>
      [...text.matchAll(/^[$#] (.*)$/gm)].map(([, c = ""]) => c),
    );
    const said = PAGES.flatMap((page) => inlineOf(page)).filter((line) => /^lease [a-z]/.test(line));
    expect(typed.length).toBeGreaterThan(0);
    expect([...typed, ...said].flatMap((line) => wrongWith(line, commands))).toEqual([]);
    for (const line of typed) expect((await run(["bash", "-n", "-c", line])).stderr).toBe("");
  });

  test("is not passed over when it is wrong", async () => {
    const wrong = (line: string) => known().then((commands) => wrongWith(line, commands));
    expect(await wrong("lease enqueu -- x")).toHaveLength(1);
    expect(await wrong("a | lease worker --slotz 2 # --no")).toHaveLength(1);
    expect(await wrong("lease worker -j 2 -- x --flag-of-x")).toEqual([]);
  });
});

describe("PostgreSQL", () => {
  const schemas: Schema[] = [];
  afterAll(async () => {
    for (const schema of schemas) await schema.drop();
  });

  test("works: the move to it, and jobs in somebody's own transaction", async () => {
    const schema = await newSchema();
    schemas.push(schema);
    const place = await prepared();
    const moves = inLanguage("console").filter(({ path }) => path === "docs/postgres.md");
    const typed = moves.flatMap(({ text }) => [...text.matchAll(/^\$ (.*)$/gm)].map(([, line = ""]) => line));
    expect(typed.length).toBeGreaterThan(2);
    const here = (line: string) =>
      line.replaceAll(/postgres:\/\/[^'"\s]*/g, schema.url).replaceAll("~/.local/state/lease/lease.db", place.store);
    expect(await shell(place, BOUNDED + typed.map(here).join("\n"), { LEASE_STORE: schema.url })).toEqual([]);

    await schema.sql.unsafe(`CREATE TABLE ${schema.name}.orders (id int, state text)`);
    for (const { text } of inLanguage("sql")) {
      const sql = text
        .replaceAll("lease.enqueue", `${schema.name}.enqueue`)
        .replaceAll("orders", `${schema.name}.orders`);
      await schema.sql.unsafe(sql);
    }
    const { stdout } = await place.leaseWith(
      { env: { LEASE_STORE: schema.url } },
      "inspect",
      "jobs",
      "--queue",
      "mail",
    );
    expect(stdout).toContain("./receipt.sh 7");
  });

  test("knows every setting that we tell to change", async () => {
    const schema = await newSchema();
    schemas.push(schema);
    const settings = inLanguage("ini").filter(({ path }) => path === "docs/postgres.md");
    const names = settings.flatMap(({ text }) => [...text.matchAll(/^([\w.]+) ?=/gm)].map(([, name = ""]) => name));
    expect(names.length).toBeGreaterThan(0);
    const there = await schema.sql<{ name: string }[]>`SELECT name FROM pg_settings WHERE name = ANY(${names})`;
    expect(there.map(({ name }) => name).toSorted()).toEqual(names.toSorted());
  });
});
