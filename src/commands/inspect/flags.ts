/** The flags of inspect, and which of them each list understands. */

import { LeaseError } from "../../core/errors.ts";
import { ID, integer, KEY, QUEUE, SINCE, TASK } from "../../core/values.ts";
import { SORTS } from "../../store/queries.ts";
import { QUEUE_STATES } from "../../view/queues.ts";
import { WORKER_STATES } from "../../view/workers.ts";
import type { FlagValues } from "../../cli/command.ts";
import { flagName, JSON_FLAG, section, valueFlag } from "../../cli/flags.ts";

export const DEFAULT_LIMIT = 50;
export const MOST_LISTED = 1_000_000;
const KINDS = ["error", "progress"] as const;

/** What each list can be sorted by; the first is how it comes. */
export const LIST_SORTS = {
  jobs: SORTS,
  queues: ["queue", ...QUEUE_STATES],
  workers: ["started", "seen", "completed", "failed"],
  leases: ["expires", "beat", "started", "id"],
  checkpoints: ["id"],
} as const;

export type ListName = keyof typeof LIST_SORTS;
export const LIST_NAMES = Object.keys(LIST_SORTS) as ListName[];

const ALL_SORTS = [...new Set(Object.values(LIST_SORTS).flat())];
const ALL_STATES = [...QUEUE_STATES, ...WORKER_STATES];

export const INSPECT_FLAGS = {
  watch: { type: "boolean", alias: "w", description: "Keep it live: redrawn every second and on changes, q quits" },
  json: JSON_FLAG,
  tsv: { type: "boolean", description: "Print a list as tab-separated values with a header" },
  show_env: { type: "boolean", description: "Of a job: show the values of its --env, not only their names" },
  ...section("Of a list", {
    status: {
      type: "enum",
      options: ALL_STATES,
      valueHint: "STATES",
      description: "Jobs, or workers, in these states; a list by commas",
    },
    queue: valueFlag(QUEUE, "Of this queue", { alias: "q" }),
    task: valueFlag(TASK, "With this label", { alias: "t" }),
    key: valueFlag(KEY, "Jobs with this key", { alias: "k" }),
    job: valueFlag(ID, "Checkpoints of this job"),
    kind: { type: "enum", options: KINDS, description: "Checkpoints of this kind" },
    stale: { type: "boolean", description: "Leases that are over and not recovered" },
    since: valueFlag(SINCE, "Something happened to it since then: 2h (ago), or 2026-03-01T09:30:00Z"),
    limit: valueFlag(integer({ min: 1, max: MOST_LISTED }), "At most so many", { fallback: String(DEFAULT_LIMIT) }),
    sort: { type: "enum", options: ALL_SORTS, valueHint: "BY", description: "See below" },
    reverse: { type: "boolean", alias: "r", description: "In the opposite order" },
  }),
} as const;

/** Without `status`, which can be repeated. */
export type InspectArgs = FlagValues<typeof INSPECT_FLAGS, "status">;

const COMMON = ["limit", "sort", "reverse"] as const;

const UNDERSTOOD: Readonly<Record<ListName, readonly (keyof typeof INSPECT_FLAGS)[]>> = {
  jobs: ["status", "queue", "task", "key", "since", ...COMMON],
  queues: ["queue", ...COMMON],
  workers: ["status", "queue", "since", ...COMMON],
  leases: ["queue", "task", "stale", ...COMMON],
  checkpoints: ["job", "task", "kind", "since", ...COMMON],
};

const OF_LISTS = new Set<string>(Object.values(UNDERSTOOD).flat());

/** `list` null: the overview, or the pages of jobs. */
export function checkFlags(list: ListName | null, given: ReadonlyMap<string, string>): void {
  const understood: readonly string[] = list === null ? [] : UNDERSTOOD[list];
  const wrong = [...given.keys()].find((name) => OF_LISTS.has(name) && !understood.includes(name));
  if (wrong !== undefined) {
    const flag = `--${flagName(wrong)}`;
    const where = LIST_NAMES.filter((name) => (UNDERSTOOD[name] as readonly string[]).includes(wrong));
    const whose = list === null ? "inspect without a list" : `inspect ${list}`;
    throw new LeaseError("usage", `${whose} has no ${flag}; write lease inspect ${where.join("|")} ${flag} …`);
  }
  if (list === null && given.has("tsv")) {
    throw new LeaseError("usage", `--tsv is for lists: lease inspect ${LIST_NAMES.join("|")} --tsv`);
  }
  if (given.has("json") && given.has("tsv")) throw new LeaseError("usage", "--json or --tsv, not both");
  if (given.has("show_env") && list !== null) throw new LeaseError("usage", "--show-env is for jobs by id");
}

/** `value` if it is one of those that this list knows. */
export function oneOf<const T extends string>(list: ListName, flag: string, value: string, options: readonly T[]): T {
  const found = options.find((option) => option === value);
  if (found !== undefined) return found;
  throw new LeaseError("usage", `${flag} ${value} does not go with inspect ${list}; use ${options.join(", ")}`);
}
