/** `lease enqueue`: flags and words → one job → its id, alone, on stdout. */

import { LeaseError } from "../core/errors.ts";
import { checkNewJob } from "../core/new_job.ts";
import { command } from "./cli/define.ts";
import { withStore } from "./context.ts";
import { JOB_FLAGS, JOB_LISTS } from "./job_flags.ts";
import { newJob } from "./new_job.ts";
import type { JobArgs } from "./new_job.ts";

export default command({
  meta: { name: "enqueue", description: "Queue a command and print its id" },
  args: JOB_FLAGS,
  repeat: JOB_LISTS,
  rest: "command",
  examples: [
    ["lease enqueue -- ./build.sh release", "runs exactly these words, no shell"],
    ["lease enqueue -c 'make 2>&1 | tee out.log'", "runs a shell line"],
    ["lease enqueue -q mail --input @letter.txt -- bob@example.com", "for the workers of queue mail"],
    ["lease enqueue --at 'tomorrow 9:00' -- ./report.sh", "not before then, in local time"],
    ["lease enqueue --key nightly --lease 20m --retries 1 -- ./backup.sh", "one at a time, silent for up to 20m"],
  ],
  notes: [
    "Prints only the id, so that `id=$(lease enqueue -- …)` works. The working folder is recorded.",
    "A time without a day (--at 18:30) is the next time it is that late; a moment that has passed is refused, as at(1) does. A time that comes twice when clocks go back means the first that is still ahead; one that is skipped when they go forward means the moment at which it would have come.",
  ],
  run: async ({ args, lists, rest, given, io }) => {
    if (given.has("if_exists") && args.key === undefined) {
      throw new LeaseError("usage", "--if-exists says what to do about a --key: give that as well");
    }
    const job = await newJob(args as JobArgs, lists, rest, io);
    // Also here, so that a job that will be refused does not make a store.
    checkNewJob(job);
    const [queued] = await withStore(args, io, { create: true }, ({ store }) => store.enqueue([job]));
    io.stdout(`${queued?.id}\n`);
    return 0;
  },
});
