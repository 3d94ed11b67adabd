/** `lease retry`: finished jobs run again, with all their retries. */

import { doomedBy } from "../core/job.ts";
import { command } from "../cli/command.ts";
import { JSON_FLAG, statesFlag } from "../cli/flags.ts";
import { changeJobs, retryText, SELECTION_FLAGS } from "../cli/selection.ts";
import { FINISHED_STATES } from "../lookup/selected.ts";
import type { JobOutline } from "../store/queries.ts";

export default command({
  meta: { name: "retry", description: "Run finished jobs again" },
  args: {
    ...SELECTION_FLAGS,
    status: statesFlag(
      FINISHED_STATES,
      "Jobs that ended like this, a list by commas",
      "failed, and what was cancelled because of those",
    ),
    json: JSON_FLAG,
  },
  repeat: ["status"],
  rest: "words",
  operands: "[ID…]",
  operand_values: { completer: "finished_ids" },
  examples: [
    ["lease retry 7", "whatever its end was"],
    ["lease retry --queue mail", "all that failed in queue mail"],
    ["lease retry --status failed,cancelled --task release-1.4", "what a task has not got done"],
    ["lease retry --status failed", "everything that failed"],
  ],
  notes: [
    "A job that waits for others waits for them again, as when it was enqueued: a pipeline runs in order, whatever of it " +
      "is retried. One that failed and is not retried keeps it blocked.",
  ],
  exit_codes: [["1", "a job has not finished, its key is taken, or there is no such job"]],
  run: (context) =>
    changeJobs(context, {
      verb: "retry",
      states: ["failed", "cancelled"],
      fits: pipelines(),
      change: (store, ids) => store.retry(ids),
      done: ["pending", "blocked"],
      complaint: retryText,
    }),
});

/**
 * A pipeline is more than what failed of it: what could not run because of that goes along, and so on. What waits for one
 * that somebody cancelled does not: it would wait for ever.
 */
function pipelines(): (job: JobOutline) => boolean {
  const retried = new Set<number>();
  return ({ id, state, reason }) => {
    const parent = doomedBy(state, reason);
    const fits = state === "failed" || (parent !== null && retried.has(parent));
    if (fits) retried.add(id);
    return fits;
  };
}
