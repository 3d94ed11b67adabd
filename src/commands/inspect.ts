/** `lease inspect`: what is going on, or all about some jobs. */

import { parseIds } from "../config/values.ts";
import { LeaseError } from "../core/errors.ts";
import type { LogChunk } from "../core/records.ts";
import { decodeChunk } from "../runner/log.ts";
import { Tail } from "../runner/lines.ts";
import type { Store } from "../store/store.ts";
import { jobText } from "../view/job.ts";
import { jobDetailJson, jsonLine, overviewJson } from "../view/json.ts";
import { overviewText } from "../view/overview.ts";
import { NO_FACTS, reasonOf } from "../view/reason.ts";
import { command } from "./cli/define.ts";
import { JSON_FLAG } from "./cli/shared.ts";
import { screenOf, withStore } from "./context.ts";
import { overviewOf } from "./overview.ts";

const LAST_LINES = 10;
const PAGE = 16;

export default command({
  meta: { name: "inspect", description: "Show what is going on, or all about a job" },
  args: { json: JSON_FLAG },
  rest: "words",
  operands: "[ID…]",
  examples: [
    ["lease inspect", "queues, workers, leases, latest failures"],
    ["lease inspect 7", "everything about job 7: settings, attempts, last lines"],
    ["lease inspect 7 9-12 --json", "one object per line"],
  ],
  notes: [{ title: "Exit codes", rows: [["1", "there is no such job"]] }],
  run: async ({ args, rest, io }) =>
    withStore(args, io, { create: false }, async ({ store }) => {
      const screen = screenOf(args.color, io, await store.now());
      if (rest.length === 0) {
        const overview = await overviewOf(store, screen.now_ms);
        io.stdout(args.json ? jsonLine(overviewJson(overview, screen.now_ms)) : overviewText(overview, screen));
        return 0;
      }
      const ids = parseIds(rest, "inspect");
      let unknown = 0;
      for (const id of ids) {
        const page = await jobPage(store, id, screen.now_ms);
        if (page === null) {
          unknown += 1;
          if (ids.length > 1) io.stderr(`lease: there is no job ${id}\n`);
        } else io.stdout(args.json ? jsonLine(jobDetailJson(page.job, page)) : jobText(page, screen));
      }
      if (unknown > 0 && ids.length === 1) throw new LeaseError("no_such_job", `there is no job ${ids[0]}`);
      return unknown > 0 ? 1 : 0;
    }),
});

async function jobPage(store: Store, id: number, now_ms: number) {
  const [job] = await store.jobs([id]);
  if (job === null || job === undefined) return null;
  const [attempts, checkpoints] = await Promise.all([store.attempts(id), store.checkpoints({ job: id, limit: 100 })]);
  return {
    job,
    reason: reasonOf(job, NO_FACTS, now_ms),
    attempts,
    checkpoints,
    parents: [],
    last_lines: await lastLines(store, id, job.token),
  };
}

/** Of the newest attempt's log, the end. */
async function lastLines(store: Store, id: number, attempt: number): Promise<string[]> {
  const tail = new Tail();
  let chunks: LogChunk[];
  let from = 0;
  do {
    chunks = await store.logs({ job: id, attempt, from, limit: PAGE });
    for (const chunk of chunks) {
      for (const { bytes } of decodeChunk(chunk)) tail.add(bytes);
      from = chunk.start + chunk.bytes;
    }
  } while (chunks.length === PAGE);
  return tail.lines(LAST_LINES);
}
