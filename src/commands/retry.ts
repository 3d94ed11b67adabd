/** `lease retry`: finished jobs run again, with all their retries. */

import type { RetryAnswer } from "../store/store.ts";
import { jsonLine } from "../view/json.ts";
import { command } from "../cli/command.ts";
import { JSON_FLAG } from "../cli/flags.ts";
import { withStore } from "../cli/io.ts";
import { idPages, noSuchJobs, SELECTION_FLAGS, selectionOf } from "../cli/selection.ts";

const FINISHED = ["completed", "failed", "cancelled"] as const;

export default command({
  meta: { name: "retry", description: "Run finished jobs again" },
  args: {
    ...SELECTION_FLAGS,
    status: {
      type: "enum",
      options: FINISHED,
      valueHint: "STATES",
      description: "Jobs that ended like this, a list by commas",
      fallback: "failed",
    },
    json: JSON_FLAG,
  },
  repeat: ["status"],
  rest: "words",
  operands: "[ID…]",
  operand_values: { completer: "ids" },
  examples: [
    ["lease retry 7", "whatever its end was"],
    ["lease retry --queue mail", "all that failed in queue mail"],
    ["lease retry --status failed,cancelled --task release-1.4", "what a task has not got done"],
    ["lease retry --status failed", "everything that failed"],
  ],
  exit_codes: [["1", "a job has not finished, its key is taken, or there is no such job"]],
  run: async ({ args, lists, rest, io }) => {
    const only = selectionOf("retry", rest, args, lists.status);
    const states = lists.status.length === 0 ? (["failed"] as const) : lists.status;
    return withStore(args, io, { create: false }, async ({ store }) => {
      let all = true;
      const unknown: number[] = [];
      for await (const ids of idPages(store, "retry", only, states)) {
        for (const answer of await store.retry(ids)) {
          all &&= answer.status === "pending";
          if (args.json)
            io.stdout(jsonLine({ ...answer, state: answer.status === "pending" ? "pending" : answer.state }));
          else if (answer.status === "pending") io.stdout(`${answer.id} pending\n`);
          else if (answer.status === "unknown") unknown.push(answer.id);
          else io.stderr(`lease: ${complaint(answer)}\n`);
        }
      }
      for (const line of noSuchJobs(unknown)) io.stderr(`lease: ${line}\n`);
      return all ? 0 : 1;
    });
  },
});

function complaint({ id, status, state }: RetryAnswer): string {
  if (status === "key_taken") return `job ${id} can't run again while another job with its key is live`;
  return `job ${id} is ${state}: only finished jobs can be retried`;
}
