/** `lease copy`: moves all of a store into another, for example from SQLite to PostgreSQL, or back. */

import { LeaseError } from "../core/errors.ts";
import { copyStore, type Copied } from "../store/copy/copy.ts";
import { jsonLine } from "../view/json.ts";
import { LOCATION } from "../core/values.ts";
import { command } from "../cli/command.ts";
import { JSON_FLAG, valueFlag } from "../cli/flags.ts";
import { withStore } from "../cli/io.ts";

export default command({
  meta: { name: "copy", description: "Copy everything in the store to another one" },
  args: {
    to: valueFlag(LOCATION, "The other store: new, or empty"),
    force: { type: "boolean", description: "Also while workers are live; what they change meanwhile may be missed" },
    json: JSON_FLAG,
  },
  rest: "none",
  examples: [
    ["lease copy --to postgres://lease@db.example/lease", "from the usual file to PostgreSQL"],
    ["lease copy --store postgres://lease@db.example/lease --to lease.db", "and back"],
  ],
  notes: [
    "Jobs, inputs, attempts, checkpoints, logs, dependencies, paused queues, limits, schedules and what was learned keep their ids and " +
      "times. In the end every row is read back and compared. A copy that was interrupted is begun again by the same " +
      "command. Stop the workers first, and start them on the other store afterwards.",
  ],
  run: async ({ args, io }) => {
    const { to } = args;
    if (to === undefined || to === "") throw new LeaseError("usage", "copy where? Name the other store with --to");
    return withStore(args, io, { create: false }, async ({ store: from }) =>
      withStore({ store: to, trust_store: args.trust_store }, io, { create: true }, async ({ store: target }) => {
        const onCopied = (kind: string, count: number) => {
          if (args.verbose) io.stderr(`${kind}: ${count}\n`);
        };
        const { counts, digest } = await copyStore({ from, to: target, force: args.force, onCopied });
        const between = { from: from.location, to: target.location };
        if (args.json) io.stdout(jsonLine({ ...between, ...counts, digest }));
        else
          io.stdout(
            `copied ${told(counts)} from ${between.from} to ${between.to}; both have digest ${digest.slice(0, 16)}\n`,
          );
        return 0;
      }),
    );
  },
});

/** What people have a word for; the rest goes along with these. */
const ONE_OF: Partial<Record<keyof Copied["counts"], string>> = {
  jobs: "job",
  inputs: "input",
  attempts: "attempt",
  checkpoints: "checkpoint",
  logs: "log",
  dependencies: "dependency",
  limits: "limit",
  schedules: "schedule",
};

function told(counts: Copied["counts"]): string {
  const parts = (Object.keys(counts) as (keyof typeof counts)[]).flatMap((kind) => {
    const [count, one] = [counts[kind], ONE_OF[kind]];
    return count === 0 || one === undefined ? [] : [`${count} ${count === 1 ? one : kind}`];
  });
  return parts.length === 0 ? "nothing" : parts.join(", ");
}
