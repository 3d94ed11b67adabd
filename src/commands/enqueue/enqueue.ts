/** `lease enqueue`: flags and words → one job → its id, alone, on stdout. The plainest lines never get here: quick.ts. */

import { LeaseError } from "../../core/errors.ts";
import type { NewJob } from "../../core/job.ts";
import { checkNewJob } from "../../core/check_job.ts";
import { ARRAY } from "../../core/value_lists.ts";
import { textValue } from "../../core/values.ts";
import { command } from "../../cli/command.ts";
import { section, valueFlag } from "../../cli/flags.ts";
import { isTerminal, withInbox, withStore } from "../../cli/io.ts";
import { JOB_FLAGS, JOB_LISTS } from "../../cli/job_flags.ts";
import { newJob } from "../../cli/new_job.ts";
import { openTraces } from "../../observe/traced.ts";
import { VERSION } from "../../platform/build_info.ts";
import { systemClock } from "../../platform/clock.ts";
import { visible } from "../../view/text.ts";

export default command({
  meta: { name: "enqueue", description: "Queue a command and print its id" },
  args: {
    ...JOB_FLAGS,
    ...section("Many at once", {
      from: valueFlag(
        textValue("FILE|-", "files"),
        "Queue a job for each line of this file, all or none: JSON, or text with --lines",
      ),
      array: valueFlag(
        ARRAY,
        "Queue a job for each number, 1-100 or 0-90:10; it takes the place of {} in the command and --key",
      ),
      lines: {
        type: "boolean",
        description: "The lines are words: each takes the place of {} in the command and --key, or goes behind it",
      },
    }),
  },
  repeat: JOB_LISTS,
  rest: "command",
  examples: [
    ["lease enqueue -- ./build.sh release", "runs exactly these words, no shell"],
    ["lease enqueue -c 'make 2>&1 | tee out.log'", "runs a shell line"],
    ["lease enqueue -q mail --input @letter.txt -- bob@example.com", "for the workers of queue mail"],
    ["lease enqueue --at 'tomorrow 9:00' -- ./report.sh", "not before then, in local time"],
    [
      "lease enqueue --from jobs.jsonl",
      'a job per line, all or none: {"argv": ["./thumb.sh", "a.png"], "lease": "30s"}',
    ],
    ["ls *.png | lease enqueue --from - --lines -- ./thumb.sh {}", "a job per line of text"],
    ["lease enqueue --array 1-100 -- ./render.sh frame-{}", "a hundred jobs; LEASE_ARRAY_INDEX is the number too"],
    ["lease enqueue --key nightly --lease 20m --retries 1 -- ./backup.sh", "one at a time, silent for up to 20m"],
  ],
  notes: [
    "Prints only the id, so that `id=$(lease enqueue -- …)` works. The working folder is recorded.",
    "With --from it prints an id per line. A JSON line has the names of the flags (retry_on for --retry-on), and argv or shell; flags are the defaults of every line. With -c, {} stands for the line as one quoted word. Empty lines of text count, as with GNU parallel; empty lines of JSON don't.",
    "An --input that begins with @ is a file; @@ stands for a text that begins with @.",
    "A time without a day (--at 18:30) is the next time it is that late; a moment that has passed is refused, as at(1) does. A time that comes twice when clocks go back means the first that is still ahead; one that is skipped when they go forward means the moment at which it would have come.",
  ],
  exit_codes: [
    ["0", "the id is on disk"],
    ["1", "with --if-exists fail: a live job has the key"],
    ["125", "the store could not be used"],
  ],
  run: async ({ args, lists, rest, before_dashes, given, io }) => {
    const { from, lines } = args;
    if (lines && from === undefined)
      throw new LeaseError("usage", "--lines of what? Name a file by --from, - for stdin");
    if (given.has("if_exists") && args.key === undefined && (from === undefined || lines)) {
      throw new LeaseError("usage", "--if-exists says what to do about a --key: give that as well");
    }
    if (from === "-" && args.input === "-") {
      throw new LeaseError("usage", "--from and --input can't both read stdin: give one of them a file");
    }
    if (args.array !== undefined && from !== undefined) {
      throw new LeaseError("usage", "--array and --from both say how many: give one of them");
    }
    const job = await newJob(args, lists, rest, io);
    const say = (text: string) => io.stderr(`lease: ${visible(text)}\n`);
    const traces = await openTraces(io.env, VERSION, say);
    try {
      if (args.array !== undefined)
        return await (await import("./array.ts")).enqueueArray(args.array, job, args, io, traces);
      if (from !== undefined) {
        const { enqueueBulk } = await import("./bulk.ts");
        return await enqueueBulk({ from, lines, defaults: job, shell: args.shell }, args, io, traces);
      }
      // Also here, so that a job that will be refused does not make a store.
      checkNewJob(job);
      const remarks = await import("./remarks.ts");
      const stray = before_dashes !== null ? null : remarks.strayFlagRemark(rest, JOB_FLAGS);
      if (stray !== null && isTerminal(2)) say(stray);
      for (const remark of remarks.lineRemarks(job, given.has("at"), systemClock.wall_ms())) say(remark);
      const [queued] = await withInbox(args, io, (inbox) => traces.producer(inbox).enqueue([job]));
      if (queued === undefined) return 0;
      io.stdout(`${queued.id}\n`);
      if (queued.created && !waitsForOthers(job)) return 0;
      await withStore(args, io, { create: false }, async ({ store }) => {
        for (const remark of await remarks.queuedRemarks(store, job, queued)) say(remark);
      });
      return 0;
    } finally {
      await traces.end();
    }
  },
});

/** Then one of them may have ended already in a way that this one can't live with. */
function waitsForOthers({ after, after_any, after_failed, after_task }: NewJob): boolean {
  return [after, after_any, after_failed, after_task].some(({ length }) => length > 0);
}
