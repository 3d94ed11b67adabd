/** Every command by name, in the order in which help lists them. Only the one that is asked for gets loaded. */

import type { Commands } from "./command.ts";

const ROLES = "The four roles";
const JOBS = "Around jobs";
const INSIDE = "Inside a job";
const REST = "The rest";

export const COMMANDS: Commands = {
  enqueue: {
    group: ROLES,
    description: "queue a command and print its id",
    also: ["add", "push", "submit"],
    load: async () => (await import("../commands/enqueue/enqueue.ts")).default,
  },
  worker: {
    group: ROLES,
    description: "run queued jobs",
    also: ["work", "start"],
    load: async () => (await import("../commands/worker.ts")).default,
  },
  watchdog: {
    group: ROLES,
    description: "recover jobs whose worker hangs or is gone",
    also: ["sweep", "recover"],
    load: async () => (await import("../commands/watchdog.ts")).default,
  },
  inspect: {
    group: ROLES,
    description: "show what is going on, or all about a job",
    also: ["status", "list", "ls", "show"],
    load: async () => (await import("../commands/inspect/inspect.ts")).default,
  },
  run: {
    group: JOBS,
    description: "run a job here, or follow it, and end with its code",
    also: ["exec", "fg", "attach"],
    load: async () => (await import("../commands/run/run.ts")).default,
  },
  logs: {
    group: JOBS,
    description: "show what a job printed",
    also: ["log", "tail", "follow"],
    load: async () => (await import("../commands/logs.ts")).default,
  },
  wait: {
    group: JOBS,
    description: "wait until jobs have ended; the exit code is theirs",
    load: async () => (await import("../commands/wait.ts")).default,
  },
  cancel: {
    group: JOBS,
    description: "end jobs for good",
    also: ["kill", "rm", "remove", "delete"],
    load: async () => (await import("../commands/cancel.ts")).default,
  },
  retry: {
    group: JOBS,
    description: "run finished jobs again",
    also: ["restart", "requeue"],
    load: async () => (await import("../commands/retry.ts")).default,
  },
  prune: {
    group: JOBS,
    description: "delete finished jobs",
    also: ["clean", "purge", "gc"],
    load: async () => (await import("../commands/prune.ts")).default,
  },
  pause: {
    group: JOBS,
    description: "take no more jobs of a queue",
    also: ["stop", "hold"],
    load: async () => (await import("../commands/pause.ts")).default,
  },
  resume: {
    group: JOBS,
    description: "take jobs of a paused queue again",
    also: ["continue", "unpause"],
    load: async () => (await import("../commands/resume.ts")).default,
  },
  beat: {
    group: INSIDE,
    description: "prove that the job works, and hear whether to go on",
    also: ["heartbeat", "ping"],
    load: async () => (await import("../commands/beat.ts")).default,
  },
  checkpoint: {
    group: INSIDE,
    description: "note how far the job is, for its next attempt",
    load: async () => (await import("../commands/checkpoint.ts")).default,
  },
  guard: {
    group: INSIDE,
    description: "run a command only while the lease is held",
    load: async () => (await import("../commands/guard.ts")).default,
  },
  doctor: {
    group: REST,
    description: "look for what is wrong, and say what to do",
    also: ["check", "health", "diagnose", "config"],
    load: async () => (await import("../commands/doctor/doctor.ts")).default,
  },
  copy: {
    group: REST,
    description: "copy the store to another one, of either kind",
    also: ["move", "migrate", "export", "import"],
    load: async () => (await import("../commands/copy.ts")).default,
  },
  completions: {
    group: REST,
    description: "complete commands, flags, queues and ids in a shell",
    also: ["completion"],
    load: async () => (await import("../commands/completions/completions.ts")).default,
  },
  version: {
    group: REST,
    description: "show the version",
    load: async () => (await import("../commands/version.ts")).default,
  },
};
