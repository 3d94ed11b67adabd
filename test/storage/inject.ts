/**
 * A disk that fails once, at a place that can be named: the n-th write, sync, truncation or removal of a store's files by a
 * command fails with EIO or ENOSPC, or is the last thing that the command ever does. By strace, which does it in the kernel's
 * place; a file that may grow no further makes writes short.
 */

import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { BINARY } from "../support/process.ts";

const CALLS = "write,writev,pwrite64,pwritev,fsync,fdatasync,ftruncate,fallocate,unlink,rename,mkdir".split(",");
const FAULTS = ["error=EIO", "error=ENOSPC", "signal=KILL"] as const;

const STRACE = ["strace", "-f", "--seccomp-bpf", "-qq"];
export const hasStrace =
  process.platform === "linux" &&
  Bun.which("strace") !== null &&
  Bun.spawnSync([...STRACE, "-o", "/dev/null", "-e", "inject=fsync:error=EIO:when=99", "true"]).exitCode === 0;

/** One thing that a command does to a store, and what has to be there for it. */
export interface Operation {
  name: string;
  /** Makes what the command finds, in an empty folder. */
  prepare: (folder: string) => void;
  words: readonly string[];
  /** The files that may fail, in the folder. */
  files: readonly string[];
}

export interface Point {
  call: string;
  /** From 1 on. */
  index: number;
  fault: (typeof FAULTS)[number] | `fsize=${number}`;
}

export interface Outcome {
  code: number | null;
  signal: string | null;
  stdout: string;
  stderr: string;
  folder: string;
}

const PLACE = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
const WITHIN_MS = 90_000;

/** What every try begins with. */
export class Stage {
  readonly #operation: Operation;
  readonly #root = mkdtempSync(join(PLACE, "lease-storage-"));
  #tries = 0;

  constructor(operation: Operation) {
    this.#operation = operation;
    mkdirSync(join(this.#root, "base"), { mode: 0o700 });
    operation.prepare(join(this.#root, "base"));
  }

  #fresh(): string {
    const folder = join(this.#root, `try-${++this.#tries}`);
    cpSync(join(this.#root, "base"), folder, { recursive: true, preserveTimestamps: true });
    return folder;
  }

  #run(before: (folder: string) => readonly string[]): Outcome {
    const folder = this.#fresh();
    const words = this.#operation.words.map((word) => word.replaceAll("$FOLDER", folder));
    const child = Bun.spawnSync([...before(folder), BINARY, ...words], {
      cwd: folder,
      env: { PATH: process.env["PATH"] ?? "", HOME: folder, NO_COLOR: "1" },
      stdin: "ignore",
      timeout: WITHIN_MS,
      killSignal: "SIGABRT",
    });
    const { exitCode: code } = child;
    const signal = child.signalCode === undefined ? null : String(child.signalCode);
    return { code, signal, stdout: child.stdout.toString(), stderr: child.stderr.toString(), folder };
  }

  #paths(folder: string): string[] {
    return this.#operation.files.flatMap((file) => ["-P", file === "." ? folder : join(folder, file)]);
  }

  /** Everything that it does, in order, each with what can happen to it. */
  points(): Point[] {
    const trace = join(this.#root, "trace");
    const { folder } = this.#run((at) => [
      ...STRACE,
      "-o",
      trace,
      "-e",
      `trace=${CALLS.join(",")}`,
      ...this.#paths(at),
    ]);
    this.clear({ folder });
    const counts = new Map<string, number>();
    const points: Point[] = [];
    for (const line of readFileSync(trace, "utf8").split("\n")) {
      const call = /^\d+ +(\w+)\(/.exec(line)?.[1];
      if (call === undefined) continue;
      const index = (counts.get(call) ?? 0) + 1;
      counts.set(call, index);
      for (const fault of FAULTS) points.push({ call, index, fault });
    }
    return points;
  }

  try({ call, index, fault }: Point): Outcome {
    const inject = `inject=${call}:${fault}:when=${index}`;
    return this.#run((at) => [...STRACE, "-o", "/dev/null", "-e", inject, ...this.#paths(at)]);
  }

  /** No file may become larger: a write across that ends short. */
  tryShort(bytes: number): Outcome {
    return this.#run(() => ["prlimit", `--fsize=${bytes}`]);
  }

  clear({ folder }: Pick<Outcome, "folder">): void {
    rmSync(folder, { recursive: true, force: true });
  }

  end(): void {
    rmSync(this.#root, { recursive: true, force: true });
  }
}
