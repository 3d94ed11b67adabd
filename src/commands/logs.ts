/** `lease logs`: what a job printed, and what it prints while it runs. */

import { LeaseError } from "../core/errors.ts";
import { isFinished } from "../core/job.ts";
import type { Job } from "../core/job.ts";
import { LogReader } from "../foreground/log_reader.ts";
import { COUNT, readIds } from "../core/values.ts";
import type { Store } from "../store/store.ts";
import { LogText, logJson, STAMPED } from "../view/log.ts";
import { visible } from "../view/text.ts";
import { command } from "../cli/command.ts";
import { valueFlag } from "../cli/flags.ts";
import { withStore } from "../cli/io.ts";
import { repeat, tellWhyWaiting } from "../cli/waiting.ts";

const PACE = { every_ms: 500, pause_ms: 0 } as const;
/** Ctrl-C just ends it: there is nothing to put in order. */
const NEVER = new Promise<never>(() => {});

export default command({
  meta: { name: "logs", description: "Show what a job printed" },
  args: {
    follow: { type: "boolean", alias: "f", description: "Go on until the job has ended" },
    attempt: valueFlag(COUNT, "Of this attempt", { fallback: "the newest" }),
    stream: { type: "enum", options: ["stdout", "stderr", "both"], default: "both", description: "Only this stream" },
    timestamps: { type: "boolean", description: "Begin each line with when it was printed" },
    json: { type: "boolean", description: "Print each line as an object: job, attempt, stream, at, text" },
  },
  rest: "words",
  operands: "ID",
  operand_values: { completer: "ids" },
  examples: [
    ["lease logs 7", "both streams in the order in which they came"],
    ["lease logs -f 7", "and what follows, through its retries, until it has ended"],
    ["lease logs 7 --attempt 1 --stream stderr --timestamps", "what the first attempt complained about, and when"],
  ],
  exit_codes: [["1", "there is no such job or attempt"]],
  run: async ({ args, rest, io }) => {
    const ids = readIds(rest, "logs");
    const [id] = ids;
    if (id === undefined || ids.length > 1) throw new LeaseError("usage", "logs of which job? Name one id");
    const { attempt: wanted = null } = args;
    return withStore(args, io, { create: false }, async ({ store }) => {
      const job = await jobOf(store, id);
      if (wanted !== null && wanted > job.token) {
        throw new LeaseError(
          "nothing_matched",
          `job ${id} has no attempt ${wanted}: it has run ${job.token === 1 ? "once" : `${job.token} times`}`,
        );
      }
      const plain = args.timestamps ? STAMPED : null;
      const format = args.json ? logJson(id, () => log.attempt) : plain;
      const text = new LogText({ stream: args.stream, format }, io.stdoutBytes);
      const log: LogReader = new LogReader({
        store,
        job: id,
        attempt: wanted ?? Math.max(job.token, 1),
        onEntry: (entry) => text.add(entry),
        onGap: (bytes) => text.gap(bytes),
      });
      await log.read();
      const waits = ["blocked", "scheduled", "pending"] as const;
      const say = (line: string) => io.stderr(`lease: ${visible(line)}\n`);
      const told = args.follow ? tellWhyWaiting(store, id, waits, say) : () => {};
      const follow = async () => {
        for (;;) {
          const now = await jobOf(store, id);
          // Read the end of the log only after the end of the attempt was seen: nothing can come behind it.
          const over =
            isFinished(now.state) || now.token > log.attempt || (wanted !== null && now.state.name !== "running");
          await log.read();
          if (!over) return null;
          if (wanted !== null || now.token <= log.attempt) return 0;
          text.end();
          log.turnTo(log.attempt + 1);
        }
      };
      if (args.follow) await repeat(store, NEVER, PACE, follow);
      told();
      text.end();
      return 0;
    });
  },
});

async function jobOf(store: Store, id: number): Promise<Job> {
  const [job] = await store.jobs([id]);
  if (job === null || job === undefined) throw new LeaseError("no_such_job", `there is no job ${id}`);
  return job;
}
