/**
 * The README's commands, run as they stand there. Each block gets a folder with the programs that it names, a store
 * with some history, and a worker or watchdog that ends when there is nothing left. No line may be refused as wrong
 * usage or fail for another reason than "the answer is no".
 */

import { describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { LEASE, ROOT, run, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();

const README = readFileSync(join(ROOT, "README.md"), "utf8");

interface Block {
  heading: string;
  language: string;
  text: string;
}

function blocks(): Block[] {
  const found: Block[] = [];
  let heading = "";
  for (const part of README.split(/^(?=#{1,3} |```)/m)) {
    heading = /^#{1,3} (.*)/.exec(part)?.[1] ?? heading;
    const [, language = "", text = ""] = /^```(\w+)\n([\s\S]*)$/.exec(part) ?? [];
    if (language !== "") found.push({ heading, language, text });
  }
  // The first lines are indented, not fenced.
  const first =
    README.split("\n## ")[0]
      ?.match(/^ {4}\S.*$/gm)
      ?.join("\n") ?? "";
  return [{ heading: "lease", language: "sh", text: first }, ...found];
}

const SCRIPTS = /\.\/[\w-]+\.sh/g;
const STUBS = ["make", "fetch"];
const JOBS_BEFORE = 13;

/** Roles go on until they are stopped; here they end when there is nothing left, or after one job of another's. */
const PRELUDE = `
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
  for (const script of new Set(README.match(SCRIPTS))) program(join(place.folder, script));
  for (const stub of STUBS) program(join(bin, stub));
  writeFileSync(join(place.folder, "a.png"), "");
  writeFileSync(join(place.folder, "letter.txt"), "hello");
  mkdirSync(join(place.folder, "data"));
  writeFileSync(join(place.folder, "jobs.jsonl"), blocks().find(({ language }) => language === "json")?.text ?? "");
  for (let job = 0; job < JOBS_BEFORE; job++) {
    await place.enqueue("--task", "release-1.4", "--", "true");
  }
  await place.lease("worker", "--until-empty");
  return place;
}

async function shell(place: Place, script: string): Promise<string[]> {
  const { code, stderr } = await run(["bash", "-c", script], {
    cwd: place.folder,
    env: { PATH: `${join(place.folder, "bin")}:${process.env["PATH"]}`, LEASE_STORE: place.store, CI_JOB: "job 1" },
  });
  const failed = stderr.split("\n").filter((line) => line.startsWith("FAILED") || line.includes("unexpected error"));
  return code === 2 || code === 127 ? [...failed, `the block ended with ${code}: ${stderr}`] : failed;
}

describe("what the README tells to type", () => {
  const all = blocks();

  test("is found in it", () => {
    expect(all.filter(({ language }) => language === "sh").length).toBeGreaterThan(6);
    expect(all.map(({ language }) => language)).toContain("toml");
  });

  for (const { heading, text } of all.filter(({ language, heading: h }) => language === "sh" && h !== "Try it")) {
    test(`works: ${heading}`, async () => {
      const place = await prepared();
      // What is for the inside of a job is run by one.
      const inside = text.includes("LEASE_CHECKPOINT");
      writeFileSync(join(place.folder, "block.sh"), text);
      expect(await shell(place, PRELUDE + (inside ? "lease run -- bash -e block.sh" : text))).toEqual([]);
    });
  }

  // The one that names a store: without it, the test would use that of whoever runs it.
  const settings = all.find(({ language, text }) => language === "toml" && /^store = /m.test(text));

  test("works: the settings file", async () => {
    const place = await prepared();
    writeFileSync(join(place.folder, "lease.toml"), settings?.text ?? "");
    const { stdout } = await run([LEASE, "doctor", "--json"], { cwd: place.folder, env: { CI: "1" } });
    expect(stdout).toContain('"lease.toml"');
    const { code, stderr } = await run([LEASE, "enqueue", "--", "true"], { cwd: place.folder, env: { CI: "1" } });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  });

  const steps = all
    .filter(({ language }) => language === "yaml")
    .flatMap(({ text }) => [...text.matchAll(/- (?:run: )?(lease run .*)$/gm)].map(([, step = ""]) => step));

  test("works: the CI steps", async () => {
    expect(steps).toHaveLength(2);
    const place = await prepared();
    for (const step of steps) {
      expect(await shell(place, PRELUDE + step.replaceAll(/\$\{\{ ([\w.]+) \}\}/g, "$1"))).toEqual([]);
    }
  });

  const asked = [...README.matchAll(/`(lease (?:inspect|doctor|completions|watchdog)[^`]*)`/g)].map(
    ([, line = ""]) => line,
  );

  test("works: what stands between the lines", async () => {
    expect(asked.length).toBeGreaterThan(8);
    const place = await prepared();
    expect(
      await shell(
        place,
        PRELUDE + asked.map((line) => `${line.replace("ID", "7").replaceAll("\n", " ")} > /dev/null`).join("\n"),
      ),
    ).toEqual([]);
  });
});
