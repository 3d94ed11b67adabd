/** Every command by name, in the order in which help lists them. Only the one that is asked for gets loaded. */

import type { AnyCommand, Commands } from "./command.ts";

/**
 * What it does, its short names, what people of other queues would type instead, and where it is. Behind a `:` stands
 * what a name means beyond the command: `ls:jobs` of inspect is `lease inspect jobs`.
 */
type Row = readonly [description: string, short: string, also: string, load: () => Promise<{ default: AnyCommand }>];

function group(title: string, rows: Readonly<Record<string, Row>>): Commands {
  return Object.fromEntries(
    Object.entries(rows).map(([name, [description, short, also, load]]) => [
      name,
      {
        group: title,
        description,
        short: otherNames(name, short),
        also: otherNames(name, also),
        load: () => load().then((module) => module.default),
      },
    ]),
  );
}

function otherNames(name: string, words: string): Record<string, string[]> {
  const pairs = words
    .split(" ")
    .filter(Boolean)
    .map((word) => word.split(":"));
  return Object.fromEntries(pairs.map(([other = "", ...rest]) => [other, [name, ...rest]]));
}

export const COMMANDS: Commands = {
  ...group("The four roles", {
    enqueue: [
      "queue a command and print its id",
      "add",
      "push submit sbatch",
      () => import("../commands/enqueue/enqueue.ts"),
    ],
    worker: ["run queued jobs", "", "work start serve daemon", () => import("../commands/worker.ts")],
    watchdog: [
      "recover jobs whose worker hangs or is gone",
      "",
      "sweep recover",
      () => import("../commands/watchdog.ts"),
    ],
    inspect: [
      "show what is going on, or a job",
      "ls:jobs status",
      "list:jobs jobs:jobs queues:queues workers:workers leases:leases checkpoints:checkpoints queue:jobs squeue:jobs show info stats ps:jobs failed:jobs:--status:failed running:jobs:--status:running",
      () => import("../commands/inspect/inspect.ts"),
    ],
  }),
  ...group("Around jobs", {
    top: ["watch jobs live, with keys to act on them", "", "htop monitor", () => import("../commands/top.ts")],
    run: [
      "run a job here, or follow it, and end with its code",
      "",
      "exec fg attach",
      () => import("../commands/run.ts"),
    ],
    logs: ["show what a job printed", "log tail", "follow:-f cat output", () => import("../commands/logs.ts")],
    wait: ["wait until jobs have ended; the exit code is theirs", "", "join", () => import("../commands/wait.ts")],
    cancel: ["end jobs for good", "kill", "rm remove delete scancel abort stop", () => import("../commands/cancel.ts")],
    retry: ["run finished jobs again", "", "restart requeue rerun redo", () => import("../commands/retry.ts")],
    edit: ["change jobs that wait", "", "alter update reprioritize priority:-p", () => import("../commands/edit.ts")],
    prune: ["delete finished jobs", "", "clean clear purge gc", () => import("../commands/prune.ts")],
    pause: ["take no more jobs of a queue", "", "hold", () => import("../commands/pause.ts")],
    resume: [
      "take jobs of a paused queue again",
      "",
      "continue unpause release",
      () => import("../commands/resume.ts"),
    ],
    schedule: [
      "make a job at each of these times",
      "",
      "cron schedules every crontab at",
      () => import("../commands/schedule.ts"),
    ],
    limit: [
      "bound how many jobs run, or start per time",
      "",
      "limits concurrency throttle rate",
      () => import("../commands/limit.ts"),
    ],
  }),
  ...group("Inside a job", {
    beat: [
      "prove that the job works, and hear whether to go on",
      "",
      "heartbeat ping",
      () => import("../commands/beat.ts"),
    ],
    checkpoint: ["note how far the job is, for its next attempt", "", "", () => import("../commands/checkpoint.ts")],
    guard: ["run a command only while the lease is held", "", "", () => import("../commands/guard.ts")],
  }),
  ...group("The rest", {
    ui: ["look after jobs in a browser", "", "dashboard web serve", () => import("../commands/ui.ts")],
    service: [
      "run a worker as a service of systemd",
      "",
      "systemd install unit units daemonize",
      () => import("../commands/service.ts"),
    ],
    doctor: [
      "look for what is wrong, and say what to do",
      "",
      "check health diagnose config",
      () => import("../commands/doctor.ts"),
    ],
    metrics: ["tell Prometheus about the store", "", "prometheus exporter", () => import("../commands/metrics.ts")],
    copy: [
      "copy the store to another one, of either kind",
      "",
      "move migrate export import",
      () => import("../commands/copy.ts"),
    ],
    completions: [
      "complete commands, flags, queues and ids in a shell",
      "",
      "completion",
      () => import("../commands/completions/completions.ts"),
    ],
    version: ["show the version", "", "", () => import("../commands/version.ts")],
  }),
};
