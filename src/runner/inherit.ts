/** Runs a command in the foreground, with our own input, output and process group: for `guard`. */

import { spawn } from "node:child_process";
import { constants } from "node:os";
import process from "node:process";
import { explainStart } from "./start.ts";

export interface InheritRun {
  /** 128 + n when a signal ended it. */
  exit_code: Promise<number>;
  kill(signal: NodeJS.Signals): void;
}

/** Resolves when it has been started. */
export function inheritRun(argv: readonly string[]): Promise<InheritRun> {
  const [command = "", ...args] = argv;
  const child = spawn(command, args, { stdio: "inherit" });
  return new Promise((resolve, reject) => {
    child.once("error", (error) => reject(explainStart(error, { argv, cwd: process.cwd() })));
    const exit_code = new Promise<number>((done) => {
      child.once("exit", (code, signal) => done(code ?? 128 + (signal === null ? 0 : constants.signals[signal])));
    });
    child.once("spawn", () => resolve({ exit_code, kill: (signal) => void child.kill(signal) }));
  });
}
