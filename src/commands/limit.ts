/** `lease limit`: bounds how many jobs run, or start per time, across all workers; alone it lists what is in use. */

import { checkLimitName } from "../core/check_job.ts";
import { LeaseError } from "../core/errors.ts";
import { RATE } from "../core/plan_values.ts";
import { integer, readValue } from "../core/values.ts";
import { command } from "../cli/command.ts";
import { JSON_FLAG, valueFlag } from "../cli/flags.ts";
import { screenOf, withStore } from "../cli/io.ts";
import { jsonLine } from "../view/json.ts";
import { limitJson, limitsText } from "../view/limits.ts";
import { visible } from "../view/text.ts";

const MOST = integer({ min: 0, max: 1_000_000 });

export default command({
  meta: { name: "limit", description: "Bound how many jobs run, or start per time, across all workers" },
  args: {
    rate: valueFlag(RATE, "At most so many starts in any such time: 10/1m"),
    json: JSON_FLAG,
  },
  rest: "words",
  operands: "[NAME [N|none]]",
  operand_values: { completer: "limits", words: ["none"] },
  examples: [
    ["lease limit github 3", "at most three jobs run that were queued with --limit github"],
    ["lease limit mail 5", "at most five jobs of queue mail: a queue is a limit by its own name"],
    ["lease limit api --rate 10/1m", "at most ten start in any minute"],
    ["lease limit", "all limits, and what is in use of them"],
    ["lease limit github none", "no bound any more"],
  ],
  notes: [
    "Counted from the leases that are held and from recent starts, so that it holds whoever dies. A limit below what " +
      "runs takes effect as those end. Setting one again replaces it: what is not named is not bounded. Jobs within a " +
      "limit start by priority, then age.",
  ],
  exit_codes: [
    ["0", "done"],
    ["1", "there is no such limit"],
    ["125", "the store could not be used"],
  ],
  run: async ({ args, rest, io }) => {
    const [name, bound, extra] = rest;
    if (extra !== undefined) throw new LeaseError("usage", `limit takes a name and a number, and got ${extra} as well`);
    const { rate } = args;
    if (name === undefined && rate !== undefined) throw new LeaseError("usage", "--rate of which limit? Name it");
    if (name !== undefined) checkLimitName(name);
    const none = bound === "none";
    if (none && rate !== undefined) throw new LeaseError("usage", "none takes the whole limit away: leave out --rate");
    const most = bound === undefined || none ? null : readValue(MOST, bound, "the number of jobs");
    const sets = bound !== undefined || rate !== undefined;
    return withStore(args, io, { create: sets && !none }, async ({ store }) => {
      if (name !== undefined && sets) {
        const known = await store.setLimit(name, none ? null : { most, rate: rate ?? null });
        if (!known) throw new LeaseError("nothing_matched", `there is no limit ${visible(name)}`);
        if (none) {
          io.stdout(`${visible(name)} has no limit now\n`);
          return 0;
        }
      }
      const uses = (await store.limits()).filter((use) => name === undefined || use.name === name);
      const [use] = uses;
      if (name !== undefined && use === undefined)
        throw new LeaseError("nothing_matched", `there is no limit ${visible(name)}: set it with lease limit NAME N`);
      if (args.json) for (const one of uses) io.stdout(jsonLine(limitJson(one)));
      else io.stdout(limitsText(uses, screenOf(args.color, io, await store.now())));
      if (sets && use !== undefined && use.most !== null && use.running > use.most)
        io.stderr(`lease: ${use.running} run now: the limit takes effect as they end\n`);
      return 0;
    });
  },
});
