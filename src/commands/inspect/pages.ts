/** Everything about jobs by their ids. */

import type { Job } from "../../core/job.ts";
import { conclude, subjectOf, type Learned } from "../../core/learning.ts";
import { Tail } from "../../runner/log/tail.ts";
import type { Store } from "../../store/store.ts";
import { jobText, type JobPage } from "../../view/job.ts";
import { jobDetailJson } from "../../view/json.ts";
import { around } from "../../lookup/why_waiting.ts";
import type { View } from "./view.ts";

const PAGE = 50;
const CHECKPOINTS = 100;
const LAST_LINES = 10;
const CHUNKS = 16;

export function pagesView(ids: readonly number[], words: readonly string[], show_env: boolean): View {
  const ends = new LogEnds();
  return {
    title: words.join(" "),
    tsv: null,
    narrowed: false,
    async *look(store, now_ms, whole) {
      const page = whole ? ids.length : PAGE;
      for (let from = 0; from < ids.length; from += page) {
        yield await seenPages(store, ids.slice(from, from + page), now_ms, {
          ends: whole ? ends : new LogEnds(),
          show_env,
        });
      }
    },
  };
}

async function seenPages(
  store: Store,
  ids: readonly number[],
  now_ms: number,
  { ends, show_env }: { ends: LogEnds; show_env: boolean },
) {
  const found = await store.jobs(ids);
  const jobs = found.filter((job) => job !== null);
  const { reason, parents } = await around(store, jobs, now_ms);
  const pages: Omit<JobPage, "reason">[] = [];
  for (const job of jobs) {
    const [learned, attempts, checkpoints, last_lines] = await Promise.all([
      learnedBy(store, job),
      store.attempts(job.id),
      store.checkpoints({ job: job.id, limit: CHECKPOINTS }),
      ends.lines(store, job),
    ]);
    pages.push({ job, learned, attempts, checkpoints, last_lines, parents: parents(job), show_env });
  }
  return {
    text: (screen: Parameters<typeof jobText>[1]) =>
      pages.map((page) => jobText({ ...page, reason: reason(page.job, screen.now_ms) }, screen)).join("\n"),
    objects: (at_ms: number) =>
      pages.map((page) => jobDetailJson(page.job, { ...page, reason: reason(page.job, at_ms) })),
    missing: ids.filter((_, index) => found[index] === null),
  };
}

/** What earlier runs have taught about the lease of a job that wants it so. */
async function learnedBy(store: Store, job: Job): Promise<Learned | null> {
  if (job.settings.lease_ms !== "auto") return null;
  const [learned] = await store.learned([subjectOf(job)]);
  return learned ?? conclude(0, {});
}

/** The ends of logs, remembered, so that a watch reads only what is new. */
class LogEnds {
  readonly #read = new Map<number, { attempt: number; from: number; tail: Tail }>();

  /** Of the newest attempt. */
  async lines(store: Store, { id, token: attempt }: Job): Promise<string[]> {
    const before = this.#read.get(id);
    const end = before?.attempt === attempt ? before : { attempt, from: 0, tail: new Tail() };
    this.#read.set(id, end);
    for (;;) {
      const chunks = await store.logs({ job: id, attempt, from: end.from, limit: CHUNKS });
      for (const chunk of chunks) {
        end.tail.addChunk(chunk);
        end.from = chunk.start + chunk.bytes;
      }
      if (chunks.length < CHUNKS) return end.tail.lines(LAST_LINES);
    }
  }
}
