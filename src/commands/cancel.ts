/** `lease cancel`: waiting jobs end at once, running ones are asked to. */

import type { CancelAnswer } from "../store/store.ts";
import { command } from "./cli/define.ts";
import { JSON_FLAG } from "./cli/shared.ts";
import { withStore } from "./context.ts";
import { SELECTION_FLAGS, selectIds } from "./job_ids.ts";

export default command({
  meta: { name: "cancel", description: "End jobs for good" },
  args: {
    ...SELECTION_FLAGS,
    reason: { type: "string", valueHint: "TEXT", description: "Why, to show with the job" },
    json: JSON_FLAG,
  },
  rest: "words",
  operands: "[ID…]",
  examples: [
    ["lease cancel 7 9-12", "these jobs"],
    ["lease cancel --task release-1.4 --reason 'wrong branch'", "all that wait or run for a task"],
  ],
  notes: [
    "The worker of a running job hears of it within a second: TERM, its --grace, then KILL. A job that finishes first " +
      "is completed.",
    { title: "Exit codes", rows: [["1", "a job had finished already, or there is no such job"]] },
  ],
  run: async ({ args, rest, io }) =>
    withStore(args, io, { create: false }, async ({ store }) => {
      const ids = await selectIds(store, "cancel", rest, args, ["blocked", "scheduled", "pending", "running"]);
      const answers = await store.cancel(ids, args.reason ?? null);
      for (const answer of answers) {
        if (args.json) io.stdout(`${JSON.stringify({ schema: 1, ...answer })}\n`);
        else if (isDone(answer)) io.stdout(`${answer.id} ${answer.status}\n`);
        else io.stderr(`lease: ${complaint(answer)}\n`);
      }
      return answers.every(isDone) ? 0 : 1;
    }),
});

function isDone({ status }: CancelAnswer): boolean {
  return status === "cancelled" || status === "cancelling";
}

function complaint({ id, status, state }: CancelAnswer): string {
  return status === "unknown" ? `there is no job ${id}` : `job ${id} is ${state} already: there is nothing to cancel`;
}
