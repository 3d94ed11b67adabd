/** `lease cancel`: waiting jobs end at once, running ones are asked to. */

import { GRACE, TEXT } from "../core/values.ts";
import { command } from "../cli/command.ts";
import { JSON_FLAG, statesFlag, valueFlag } from "../cli/flags.ts";
import { cancelText, changeJobs, SELECTION_FLAGS } from "../cli/selection.ts";

const CANCELLABLE = ["blocked", "scheduled", "retrying", "pending", "running"] as const;

export default command({
  meta: { name: "cancel", description: "End jobs for good" },
  args: {
    ...SELECTION_FLAGS,
    status: statesFlag(CANCELLABLE, "Only jobs in these states, a list by commas", "all that have not ended"),
    reason: valueFlag(TEXT, "Why, to show with the job"),
    grace: valueFlag(GRACE, "Time between TERM and KILL for those that set none; never: send nothing", {
      fallback: "the worker's, 10s",
    }),
    cascade: { type: "boolean", description: "With all that waits for them, in whatever way" },
    wait: { type: "boolean", description: "Until all of them have ended" },
    json: JSON_FLAG,
  },
  repeat: ["status"],
  rest: "words",
  operands: "[ID…]",
  operand_values: { completer: "live_ids" },
  examples: [
    ["lease cancel 7 9-12", "these jobs"],
    ["lease cancel --task release-1.4 --reason 'wrong branch'", "all that wait or run for a task"],
    ["lease cancel 7 --grace 1m --wait", "with a minute to clean up, and until it is over"],
    ["lease cancel --queue mail --status pending,blocked", "what has not begun"],
  ],
  notes: [
    "The worker of a running job hears of it within a second: TERM, the grace (the job's, this one, or the worker's), " +
      "then KILL. With --grace never it is told by `lease beat` alone, and ends by itself. However it ends then, it is " +
      "cancelled, unless it had ended before.",
  ],
  exit_codes: [
    ["1", "a job had finished already, or there is no such job; with --wait: one completed or failed first"],
  ],
  run: (context) =>
    changeJobs(context, {
      verb: "cancel",
      states: CANCELLABLE,
      change: (store, ids) => {
        const { reason = null, grace = null, cascade } = context.args;
        return store.cancel(ids, reason, { grace, cascade });
      },
      done: ["cancelled", "cancelling"],
      ...(context.args.wait ? { awaited: "cancelling" as const } : {}),
      complaint: cancelText,
    }),
});
