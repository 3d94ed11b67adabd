/** A small lease for the tests of the command line: three commands that tell what they were given. */

import { command, type Commands } from "../../../src/cli/command.ts";
import type { Io } from "../../../src/cli/io.ts";
import { ENV, QUEUE, textValue } from "../../../src/core/values.ts";
import { LeaseError } from "../../../src/core/errors.ts";

export const enqueue = command({
  meta: { name: "enqueue", description: "Queue a command and print the job's id" },
  args: {
    queue: { type: "string", alias: "q", value: QUEUE, description: "Queue that it goes to", fallback: "default" },
    env: { type: "string", value: ENV, description: "Variables to hand on" },
    pty: { type: "boolean", section: "How it runs", description: "Give it a terminal" },
    beat: {
      type: "enum",
      section: "How it runs",
      options: ["output", "stdout", "timer", "manual", "whatever"],
      description: "What counts as a sign of life",
    },
    if_exists: { type: "enum", options: ["skip", "fail"], default: "skip", description: "What to do with a live key" },
    sweep: { type: "boolean", default: true, negativeDescription: "Don't sweep" },
    to: { type: "string", value: textValue("URL"), description: "Where it goes" },
  },
  repeat: ["env"],
  rest: "command",
  examples: [["lease enqueue -- ./build.sh release", "runs exactly this argv"]],
  notes: ["The environment is not recorded.", { title: "Exit codes", rows: [["0", "queued"]] }],
  run: async ({ args, lists, rest, given, io }) => {
    io.stdout(JSON.stringify({ queue: args.queue, store: args.store, env: lists.env, rest, given: [...given.keys()] }));
    return 0;
  },
});

const fail = command({
  meta: { name: "fail", description: "Fail in the way that is asked for" },
  args: { follow: { type: "boolean", alias: "f" } },
  rest: "words",
  run: async ({ rest }) => {
    if (rest[0] === "lost") throw new LeaseError("lease_lost", "the lease\nis \u001b[31mlost");
    if (rest[0] === "text") throw "just text";
    if (rest[0] === "seven") return 7;
    throw new TypeError("x is not\na function");
  },
});

const version = command({
  meta: { name: "version", description: "Show the version" },
  args: {},
  rest: "none",
  run: async ({ io }) => {
    io.stdout("lease 1.2.3\n");
    return 0;
  },
});

export interface Answer {
  code: number;
  stdout: string;
  stderr: string;
  /** The commands that were loaded. */
  loaded: string[];
}

type Dispatch = (raw: readonly string[], commands: Commands, io: Io) => Promise<number>;

/** Runs a command line against the fixture and collects everything that came of it. */
export async function answer(dispatch: Dispatch, raw: readonly string[], more: Partial<Io> = {}): Promise<Answer> {
  const answered: Answer = { code: -1, stdout: "", stderr: "", loaded: [] };
  const entry = (group: string, description: string, loadable: typeof enqueue, names = {}) => ({
    group,
    description,
    ...names,
    load: async () => {
      answered.loaded.push(loadable.meta.name);
      return loadable;
    },
  });
  const commands: Commands = {
    enqueue: entry("The roles", "queue a command", enqueue, {
      short: { add: ["enqueue"] },
      also: { mail: ["enqueue", "-q", "mail"] },
    }),
    fail: entry("Around jobs", "fail", fail),
    version: entry("The rest", "show the version", version),
  };
  const io: Io = {
    stdout: (text) => void (answered.stdout += text),
    stdoutBytes: (bytes) => void (answered.stdout += new TextDecoder().decode(bytes)),
    stderr: (text) => void (answered.stderr += text),
    env: {},
    is_tty: false,
    columns: 80,
    ...more,
  };
  answered.code = await dispatch(raw, commands, io);
  return answered;
}
