/** `lease prune`: deletes finished jobs with all that belongs to them. With a person at a terminal only if they say --yes. */

import process from "node:process";
import { AGE, QUEUE, TASK } from "../core/values.ts";
import { LeaseError } from "../core/errors.ts";
import type { PruneQuery } from "../store/queries.ts";
import type { Store } from "../store/store.ts";
import { jsonLine } from "../view/json.ts";
import { command } from "../cli/command.ts";
import { JSON_FLAG, statesFlag, valueFlag } from "../cli/flags.ts";
import { isTerminal, withStore, type ColorChoice, type Io } from "../cli/io.ts";
import { showProgress } from "../cli/progress.ts";
import { FIRST_STEP } from "../core/steps.ts";
import { betweenSteps, defined, FINISHED_STATES } from "../lookup/selected.ts";
import { pruneAll } from "../recovery/housekeeping.ts";

export default command({
  meta: { name: "prune", description: "Delete finished jobs with their attempts, logs and checkpoints" },
  args: {
    older_than: valueFlag(AGE, "Finished at least so long ago: 30d, 12h"),
    status: statesFlag(FINISHED_STATES, "Jobs that ended like this, a list by commas", "completed,failed,cancelled"),
    queue: valueFlag(QUEUE, "Of this queue", { alias: "q" }),
    task: valueFlag(TASK, "With this label", { alias: "t" }),
    yes: { type: "boolean", alias: "y", description: "Delete, also at a terminal" },
    dry_run: { type: "boolean", alias: "n", description: "Only tell what would be deleted" },
    json: JSON_FLAG,
  },
  repeat: ["status"],
  rest: "none",
  examples: [
    ["lease prune --older-than 30d", "at a terminal: what would go"],
    ["lease prune --older-than 30d --yes", "and now it goes"],
    ["lease prune --status completed --queue mail --older-than 1d", "from cron: deletes"],
  ],
  notes: [
    "Where standard input or output is a terminal, nothing is deleted without --yes; elsewhere, as in cron, --dry-run " +
      "only tells. Jobs that have not ended are never deleted. That there was nothing to delete is no error.",
  ],
  run: async ({ args, lists, given, io }) => {
    if (!SELECTORS.some((name) => given.has(name))) {
      throw new LeaseError("usage", "prune what? Say --older-than 30d, or --status, --queue or --task");
    }
    if (args.yes && args.dry_run) throw new LeaseError("usage", "--yes or --dry-run, not both");
    const query: PruneQuery = {
      older_than_ms: args.older_than ?? 0,
      states: lists.status.length === 0 ? FINISHED_STATES : [...new Set(lists.status)],
      ...defined({ queues: args.queue === undefined ? undefined : [args.queue], task: args.task }),
    };
    const is_attended = io.is_tty || Boolean(process.stdin.isTTY);
    const dry_run = args.dry_run || (!args.yes && is_attended);
    return withStore(args, io, { create: false }, async ({ store }) => {
      const old = await store.prunable(query);
      const found = old.reduce((sum, { count }) => sum + count, 0);
      const deleted = dry_run ? 0 : await pruneShown(store, query, found, args.color, io);
      if (deleted > 0) await store.tidy();
      if (args.json) {
        const counts = Object.fromEntries(old.map(({ state, count }) => [state, count]));
        io.stdout(jsonLine({ dry_run, completed: 0, failed: 0, cancelled: 0, ...counts, deleted }));
      } else io.stdout(`${dry_run ? plan(old, found) : `${jobs(deleted)} deleted`}\n`);
      return 0;
    });
  },
});

/** With how far it is, where somebody looks on and it takes a while. */
async function pruneShown(store: Store, query: PruneQuery, found: number, color: ColorChoice, io: Io): Promise<number> {
  let done = 0;
  const hide = found > FIRST_STEP && isTerminal(2) ? showProgress(() => done, found, color, io) : () => {};
  const stepped = (total: number) => {
    done = total;
    return betweenSteps();
  };
  return pruneAll(store, query, { most: found, stepped }).finally(hide);
}

const SELECTORS = ["older_than", "status", "queue", "task"] as const;

function plan(old: readonly { state: string; count: number }[], found: number): string {
  if (found === 0) return "nothing to delete";
  const parts = old.filter(({ count }) => count > 0).map(({ state, count }) => `${count} ${state}`);
  return `would delete ${jobs(found)} (${parts.join(", ")}); --yes does it`;
}

function jobs(count: number): string {
  return `${count} ${count === 1 ? "job" : "jobs"}`;
}
