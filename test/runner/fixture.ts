/** Real programs for tests of the runner: short scripts, and signals instead of waiting. */

import process from "node:process";
import type { Clock } from "../../src/core/clock.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { GROUP_FENCE } from "../../src/runner/fence.ts";
import type { ResultFile } from "../../src/runner/result_file.ts";
import { ProgramRun, type Outcome, type Program as Described } from "../../src/runner/run.ts";

/** A clock on which waiting takes a part of the time: for grace periods that real processes sit out. */
export function fastClock(factor: number): Clock {
  return { ...systemClock, after: (delay_ms, fn) => systemClock.after(delay_ms / factor, fn) };
}

const environment = (): Record<string, string> => ({ PATH: process.env["PATH"] ?? "/usr/bin:/bin" });

/** No test of the runner writes one but its own. */
const NO_RESULT = { path: "/nowhere/result", read: () => Promise.resolve(null) } as unknown as ResultFile;

/** A program that runs, and what it has printed so far. */
export class Program {
  readonly run: ProgramRun;
  readonly started: Promise<number>;
  pid = 0;
  leftover = false;
  stdout = "";
  stderr = "";
  readonly #listeners = new Set<() => void>();

  constructor(options: Partial<Described> & Pick<Described, "argv">, clock: Clock = systemClock) {
    const started = Promise.withResolvers<number>();
    this.started = started.promise;
    this.run = new ProgramRun(
      {
        cwd: "/",
        env: environment(),
        input: null,
        pty: false,
        fence: () => GROUP_FENCE,
        name: "left",
        result: NO_RESULT,
        result_limit_bytes: 100,
        ...options,
      },
      clock,
      {
        started: (pid) => {
          this.pid = pid;
          started.resolve(pid);
        },
        printed: (stream, bytes) => {
          this[stream] += Buffer.from(bytes).toString("latin1");
          for (const listener of this.#listeners) listener();
        },
        warn: () => {
          this.leftover = true;
        },
      },
    );
  }

  get done(): Promise<Outcome> {
    return this.run.done;
  }

  /** Resolves with what matched as soon as it was printed. */
  async prints(pattern: RegExp): Promise<string> {
    for (;;) {
      const match = pattern.exec(this.stdout);
      if (match) return match[1] ?? match[0];
      await new Promise<void>((resolve) => {
        const listener = (): void => {
          this.#listeners.delete(listener);
          resolve();
        };
        this.#listeners.add(listener);
      });
    }
  }
}

export function script(text: string, clock?: Clock, options: Partial<Described> = {}): Program {
  return new Program({ argv: ["/bin/sh", "-c", text], ...options }, clock);
}

/** Waits for something outside of this process that gives no sign, a few milliseconds at a time. */
export async function eventually(condition: () => boolean, what: string, looks = 600): Promise<void> {
  for (let look = 0; look < looks; look++) {
    if (condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`did not happen: ${what}`);
}

export function killQuietly(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It is gone already.
  }
}
