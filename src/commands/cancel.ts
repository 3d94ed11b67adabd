/** `lease cancel`: waiting jobs end at once, running ones are asked to. */

import type { CancelAnswer } from "../store/store.ts";
import { jsonLine } from "../view/json.ts";
import { TEXT } from "../core/values.ts";
import { command } from "../cli/command.ts";
import { JSON_FLAG } from "../cli/flags.ts";
import { withStore } from "../cli/io.ts";
import { idPages, noSuchJobs, SELECTION_FLAGS, selectionOf } from "../cli/selection.ts";

const CANCELLABLE = ["blocked", "scheduled", "retrying", "pending", "running"] as const;

export default command({
  meta: { name: "cancel", description: "End jobs for good" },
  args: {
    ...SELECTION_FLAGS,
    status: {
      type: "enum",
      options: CANCELLABLE,
      valueHint: "STATES",
      description: "Only jobs in these states, a list by commas",
      fallback: "all that have not ended",
    },
    reason: { type: "string", value: TEXT, description: "Why, to show with the job" },
    json: JSON_FLAG,
  },
  repeat: ["status"],
  rest: "words",
  operands: "[ID…]",
  operand_values: { completer: "ids" },
  examples: [
    ["lease cancel 7 9-12", "these jobs"],
    ["lease cancel --task release-1.4 --reason 'wrong branch'", "all that wait or run for a task"],
    ["lease cancel --queue mail --status pending,blocked", "what has not begun"],
  ],
  notes: [
    "The worker of a running job hears of it within a second: TERM, its --grace, then KILL. A job that finishes first " +
      "is completed.",
  ],
  exit_codes: [["1", "a job had finished already, or there is no such job"]],
  run: async ({ args, lists, rest, io }) => {
    const only = selectionOf("cancel", rest, args, lists.status);
    const states = lists.status.length === 0 ? CANCELLABLE : lists.status;
    return withStore(args, io, { create: false }, async ({ store }) => {
      let all = true;
      const unknown: number[] = [];
      for await (const ids of idPages(store, "cancel", only, states)) {
        for (const answer of await store.cancel(ids, args.reason ?? null)) {
          all &&= isDone(answer);
          if (args.json) io.stdout(jsonLine({ ...answer, state: isDone(answer) ? answer.status : answer.state }));
          else if (isDone(answer)) io.stdout(`${answer.id} ${answer.status}\n`);
          else if (answer.status === "unknown") unknown.push(answer.id);
          else io.stderr(`lease: job ${answer.id} is ${answer.state} already: there is nothing to cancel\n`);
        }
      }
      for (const line of noSuchJobs(unknown)) io.stderr(`lease: ${line}\n`);
      return all ? 0 : 1;
    });
  },
});

function isDone({ status }: CancelAnswer): boolean {
  return status === "cancelled" || status === "cancelling";
}
