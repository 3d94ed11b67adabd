/**
 * argv → command → exit code. The only place that ends the process.
 */

import { fstatSync, writeSync } from "node:fs";
import process from "node:process";
import type { Commands } from "./commands/cli/dispatch.ts";
import { dispatch } from "./commands/cli/dispatch.ts";
import enqueue from "./commands/enqueue.ts";

const ROLES = "The four roles";
const JOBS = "Around jobs";
const INSIDE = "Inside a job";
const REST = "The rest";

const COMMANDS: Commands = {
  enqueue: {
    group: ROLES,
    description: "queue a command and print its id",
    also: ["add", "push", "submit"],
    // Not lazy: it is what scripts call thousands of times a day, and a piece loaded by itself costs it half a millisecond.
    load: async () => enqueue,
  },
  worker: {
    group: ROLES,
    description: "run queued jobs",
    also: ["work", "start"],
    load: async () => (await import("./commands/worker.ts")).default,
  },
  watchdog: {
    group: ROLES,
    description: "recover jobs whose worker hangs or is gone",
    also: ["sweep", "recover"],
    load: async () => (await import("./commands/watchdog.ts")).default,
  },
  inspect: {
    group: ROLES,
    description: "show what is going on, or all about a job",
    also: ["status", "list", "ls", "show"],
    load: async () => (await import("./commands/inspect.ts")).default,
  },
  logs: {
    group: JOBS,
    description: "show what a job printed",
    also: ["log", "tail", "follow"],
    load: async () => (await import("./commands/logs.ts")).default,
  },
  wait: {
    group: JOBS,
    description: "wait until jobs have ended; the exit code is theirs",
    load: async () => (await import("./commands/wait.ts")).default,
  },
  cancel: {
    group: JOBS,
    description: "end jobs for good",
    also: ["kill", "rm", "remove", "delete"],
    load: async () => (await import("./commands/cancel.ts")).default,
  },
  retry: {
    group: JOBS,
    description: "run finished jobs again",
    also: ["restart", "requeue"],
    load: async () => (await import("./commands/retry.ts")).default,
  },
  prune: {
    group: JOBS,
    description: "delete finished jobs",
    also: ["clean", "purge", "gc"],
    load: async () => (await import("./commands/prune.ts")).default,
  },
  pause: {
    group: JOBS,
    description: "take no more jobs of a queue",
    also: ["stop", "hold"],
    load: async () => (await import("./commands/pause.ts")).default,
  },
  resume: {
    group: JOBS,
    description: "take jobs of a paused queue again",
    also: ["continue", "unpause"],
    load: async () => (await import("./commands/resume.ts")).default,
  },
  beat: {
    group: INSIDE,
    description: "prove that the job works, and hear whether to go on",
    also: ["heartbeat", "ping"],
    load: async () => (await import("./commands/beat.ts")).default,
  },
  checkpoint: {
    group: INSIDE,
    description: "note how far the job is, for its next attempt",
    load: async () => (await import("./commands/checkpoint.ts")).default,
  },
  guard: {
    group: INSIDE,
    description: "run a command only while the lease is held",
    load: async () => (await import("./commands/guard.ts")).default,
  },
  version: {
    group: REST,
    description: "show the version",
    load: async () => (await import("./commands/version.ts")).default,
  },
};

/** As if the signal had ended us: that is what a shell expects of a program whose reader went away. */
const PIPE_CLOSED = 128 + 13;

/** Whole, in order and before we exit, also into a pipe that is full or closed. */
function write(fd: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(fd, bytes, at);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}

const encoder = new TextEncoder();

/** Nobody may be there to read it, which changes nothing about what happened. */
function complain(text: string): void {
  try {
    write(2, encoder.encode(text));
  } catch {
    // There is no better place to say so.
  }
}

async function main(): Promise<number> {
  try {
    return await dispatch(process.argv.slice(2), COMMANDS, {
      stdout: (text) => write(1, encoder.encode(text)),
      stdoutBytes: (bytes) => write(1, bytes),
      stderr: complain,
      env: process.env,
      // Asked only when needed: loading the stream costs a third of an enqueue.
      get is_tty() {
        return fstatSync(1).isCharacterDevice() && process.stdout.isTTY;
      },
      get columns() {
        return this.is_tty ? process.stdout.columns : null;
      },
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EPIPE") return PIPE_CLOSED;
    throw error;
  }
}

process.exit(await main());
