/** `lease retry`: finished jobs run again, with all their retries. */

import type { RetryAnswer } from "../store/store.ts";
import { command } from "./cli/define.ts";
import { JSON_FLAG } from "./cli/shared.ts";
import { withStore } from "./context.ts";
import { SELECTION_FLAGS, selectIds } from "./job_ids.ts";

const FINISHED = ["completed", "failed", "cancelled"] as const;

export default command({
  meta: { name: "retry", description: "Run finished jobs again" },
  args: {
    ...SELECTION_FLAGS,
    status: {
      type: "enum",
      options: FINISHED,
      description: "Of a task or queue, only these",
      default: "failed",
    },
    json: JSON_FLAG,
  },
  rest: "words",
  operands: "[ID…]",
  examples: [
    ["lease retry 7", "whatever its end was"],
    ["lease retry --queue mail", "all that failed in queue mail"],
  ],
  notes: [{ title: "Exit codes", rows: [["1", "a job has not finished, its key is taken, or there is no such job"]] }],
  run: async ({ args, rest, io }) =>
    withStore(args, io, { create: false }, async ({ store }) => {
      const ids = await selectIds(store, "retry", rest, args, [args.status]);
      const answers = await store.retry(ids);
      for (const answer of answers) {
        if (args.json) io.stdout(`${JSON.stringify({ schema: 1, ...answer })}\n`);
        else if (answer.status === "pending") io.stdout(`${answer.id} pending\n`);
        else io.stderr(`lease: ${complaint(answer)}\n`);
      }
      return answers.every(({ status }) => status === "pending") ? 0 : 1;
    }),
});

function complaint({ id, status, state }: RetryAnswer): string {
  if (status === "unknown") return `there is no job ${id}`;
  if (status === "key_taken") return `job ${id} can't run again while another job with its key is live`;
  return `job ${id} is ${state}: only finished jobs can be retried`;
}
