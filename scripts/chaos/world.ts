/** What all parts of a run share: the binary, the folder with the ledger, chance, figures, and how a program is started. */

import { appendFileSync, chmodSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { Chance } from "../../test/sim/chance.ts";

export interface Answer {
  code: number;
  stdout: string;
  stderr: string;
}

/** A stack, or words that only a mistake of ours can say. */
const STACK = /^\s+at |unexpected error|broken promise|\[object |undefined is not|Cannot read/m;
/** Nothing takes longer that is not to go on for ever. */
const STUCK_MS = 120_000;

export class World {
  readonly chance: Chance;
  readonly folder: string;
  readonly ledger: string;
  readonly binary: string;
  /** Of the time in which things happen. */
  readonly length_ms: number;
  readonly figures: Record<string, number> = {};
  /** What no program may do: end with a stack, or with a code that is not ours. */
  readonly faulty: string[] = [];
  /** Nothing is done to anybody any more. */
  ending = false;
  /** Where the store is for those who look at it undisturbed; the engine says. */
  store = "";
  /** What a program gets that works with it: more than one, where some go by another way. */
  ways: readonly string[] = [];

  constructor(seed: number, binary: string, length_ms: number) {
    this.chance = new Chance(seed);
    this.binary = binary;
    this.length_ms = length_ms;
    this.folder = mkdtempSync(join(tmpdir(), "lease-chaos-"));
    this.ledger = join(this.folder, "ledger");
    appendFileSync(this.ledger, "");
    // Others look at it as well.
    chmodSync(this.folder, 0o777);
    chmodSync(this.ledger, 0o666);
    mkdirSync(join(this.folder, "bin"));
    symlinkSync(binary, join(this.folder, "bin/lease"));
  }

  count(name: string, by = 1): void {
    this.figures[name] = (this.figures[name] ?? 0) + by;
  }

  start(before: readonly string[], words: readonly string[], way = this.chance.pick(this.ways), stderr?: "pipe") {
    const [command = "", ...rest] = words;
    const argv = [...before, this.binary, command, "--store", way, "--trust-store", ...rest];
    return Bun.spawn(argv, {
      cwd: this.folder,
      env: {
        PATH: `${join(this.folder, "bin")}:${process.env["PATH"] ?? ""}`,
        HOME: this.folder,
        NO_COLOR: "1",
        TMPDIR: this.folder,
      },
      stdin: "ignore",
      stdout: "pipe",
      stderr: stderr ?? Bun.file(join(this.folder, "log")),
    });
  }

  /** A command to its end, or to that which `kill` sets. What it says and how it ends must be ours either way. */
  async lease(
    words: readonly string[],
    options: { kill?: NodeJS.Signals; before?: readonly string[] } = {},
  ): Promise<Answer> {
    const { kill, before = [] } = options;
    const child = this.start(before, words, this.chance.pick(this.ways), "pipe");
    const timers = [
      setTimeout(() => this.#stuck(words, child), STUCK_MS),
      ...(kill === undefined ? [] : [setTimeout(() => child.kill(kill), this.chance.next() * 60)]),
    ];
    const [stdout, stderr] = await Promise.all([child.stdout.text(), (child.stderr as ReadableStream).text()]);
    const code = await child.exited;
    for (const timer of timers) clearTimeout(timer);
    this.count(kill === undefined ? "commands" : "commands killed");
    const told = `lease ${words.join(" ").slice(0, 80)}`;
    if (STACK.test(stderr)) this.faulty.push(`${told}: ${stderr.slice(0, 600)}`);
    if (kill === undefined && !CODES.has(code)) this.faulty.push(`${told} ended with ${code}: ${stderr.slice(-300)}`);
    return { code, stdout, stderr };
  }

  #stuck(words: readonly string[], child: Bun.Subprocess): void {
    this.faulty.push(`lease ${words.join(" ").slice(0, 80)} did not end within ${STUCK_MS} ms`);
    child.kill("SIGKILL");
  }
}

/** Those of `lease`, and those of the jobs that `run` and `wait` answer with (see jobs.ts). */
const CODES = new Set([0, 1, 2, 3, 4, 124, 125, 130, 137, 143]);

export function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}

export const works = (words: readonly string[]): boolean =>
  Bun.spawnSync([...words, "true"], { stderr: "ignore" }).exitCode === 0;
