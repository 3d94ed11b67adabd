/** `lease completions`: a script for a shell, and the names from the store that such a script asks for. */

import { LeaseError } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import { shownState, type ShownState } from "../../core/job.ts";
import { NAME_SOURCES, type NameSource } from "../../core/values.ts";
import type { Store } from "../../store/store.ts";
import { commandText, truncate, visible } from "../../view/text.ts";
import { command } from "../../cli/command.ts";
import { withStore, type Io, type StoreArgs } from "../../cli/io.ts";
import { loadConfig } from "../../cli/settings.ts";
import { bashScript } from "./bash.ts";
import { fishScript } from "./fish.ts";
import { completionModel } from "./model.ts";
import { zshScript } from "./zsh.ts";

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;
const SHELLS = Object.keys(SCRIPTS);

/** As many as a person looks through. */
const MOST_IDS = 50;
const LOOKED_AT = 1_000;
const WIDEST = 60;

export default command({
  meta: {
    name: "completions",
    description: "Print a script that completes commands, flags, queues and ids in a shell",
  },
  args: {
    query: {
      type: "enum",
      options: NAME_SOURCES,
      description: "Print names from the store instead, for such a script",
      hidden: true,
    },
  },
  rest: "words",
  operands: SHELLS.join("|"),
  operand_values: { words: SHELLS },
  ignores_config: true,
  examples: [
    ["source <(lease completions bash)", "in ~/.bashrc"],
    ["lease completions zsh > ~/.zfunc/_lease", "with ~/.zfunc in $fpath, before compinit"],
    ["lease completions fish > ~/.config/fish/completions/lease.fish", "found by fish at its next start"],
  ],
  run: async ({ args, rest, commands, io }) => {
    if (args.query !== undefined) return query(args.query, args, io);
    const [shell, extra] = rest;
    if (shell === undefined)
      throw new LeaseError("usage", `completions for which shell? Name one of ${SHELLS.join(", ")}`);
    if (extra !== undefined) throw new LeaseError("usage", `completions takes one shell, and got ${extra} as well`);
    if (!Object.hasOwn(SCRIPTS, shell)) {
      const meant = nearest(shell, SHELLS);
      const hint = meant === null ? `there are ${SHELLS.join(", ")}` : `did you mean ${meant}?`;
      throw new LeaseError("usage", `there are no completions for ${JSON.stringify(shell)}; ${hint}`);
    }
    io.stdout(SCRIPTS[shell as keyof typeof SCRIPTS](await completionModel(commands)));
    return 0;
  },
});

type QueryArgs = StoreArgs & { config: string | undefined };

/** In the middle of somebody's typing: whatever is wrong with settings or store, there is just nothing to offer. */
async function query(source: NameSource, args: QueryArgs, io: Io): Promise<number> {
  const ask = async () => {
    const chosen = args.store ?? (await loadConfig(args.config, io.env))?.value(null, "store");
    const located = { ...args, store: typeof chosen === "string" ? chosen : undefined };
    return withStore(located, io, { create: false }, ({ store }) => ASK[source](store));
  };
  const names = await ask().catch(() => []);
  io.stdout(names.map((name) => `${name}\n`).join(""));
  return 0;
}

/** One name a line, and behind a tab what it is; a name that would need more than a line is left out. */
const ASK: Readonly<Record<NameSource, (store: Store) => Promise<string[]>>> = {
  queues: async (store) => {
    const [counts, paused, workers] = await Promise.all([store.counts(), store.pausedQueues(), store.workers()]);
    const served = workers.flatMap(({ queues }) => queues ?? []);
    return distinct([...counts.map(({ queue }) => queue), ...paused, ...served]);
  },
  tasks: async (store) => distinct((await newest(store)).flatMap(({ task }) => task ?? [])),
  keys: async (store) => distinct((await newest(store)).flatMap(({ key }) => key ?? [])),
  schedules: async (store) => distinct((await store.schedules()).map(({ name }) => name)),
  limits: async (store) => distinct((await store.limits()).map(({ name }) => name)),
  ids: (store) => jobNames(store, null),
  live_ids: (store) => jobNames(store, [...WAITING, "running", "cancelling"]),
  waiting_ids: (store) => jobNames(store, WAITING),
  finished_ids: (store) => jobNames(store, ["completed", "failed", "cancelled"]),
};

const WAITING: readonly ShownState[] = ["pending", "scheduled", "retrying", "blocked"];

function newest(store: Store) {
  return store.list({ limit: LOOKED_AT, newest_first: true });
}

/** `states` null: any. */
async function jobNames(store: Store, states: readonly ShownState[] | null): Promise<string[]> {
  const jobs = await store.list({ ...(states === null ? {} : { states }), limit: MOST_IDS, newest_first: true });
  return jobs.map((job) => `${job.id}\t${shownState(job)} ${truncate(visible(commandText(job)), WIDEST)}`);
}

function distinct(names: readonly string[]): string[] {
  return [...new Set(names)].filter((name) => visible(name) === name).toSorted();
}
