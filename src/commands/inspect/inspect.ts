/** `lease inspect`: what is going on, lists of it, or all about some jobs. */

import { LeaseError } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import { readIds } from "../../core/values.ts";
import { jobPages, LogEnds } from "../../lookup/job_pages.ts";
import { overviewNow } from "../../lookup/overview.ts";
import { queueRemarks } from "../../lookup/queues.ts";
import { criticalPath, taskGraph } from "../../lookup/task_graph.ts";
import type { Store } from "../../store/store.ts";
import { graphText } from "../../view/graph.ts";
import { jobText } from "../../view/job.ts";
import { graphJson, jobDetailJson, jsonLine, overviewJson, tsvHeader, tsvLine } from "../../view/json.ts";
import { overviewText } from "../../view/overview.ts";
import type { Screen } from "../../view/style.ts";
import { visible } from "../../view/text.ts";
import { command } from "../../cli/command.ts";
import { screenOf, withStore, type Io } from "../../cli/io.ts";
import { noSuchJobs } from "../../cli/selection.ts";
import { checkFlags, INSPECT_FLAGS, LIST_NAMES, LIST_SORTS, listView } from "./lists.ts";
import type { InspectArgs, Seen, View } from "./lists.ts";
import { watch } from "./watch.ts";

export default command({
  meta: { name: "inspect", description: "Show what is going on, lists of it, or all about a job" },
  args: INSPECT_FLAGS,
  repeat: ["status"],
  rest: "words",
  operands: `[ID…|TASK|${LIST_NAMES.join("|")}]`,
  operand_values: { completer: "ids", words: LIST_NAMES },
  examples: [
    ["lease inspect", "queues, workers, leases, latest failures"],
    ["lease inspect 7 9-12", "everything about these jobs: why they wait, settings, attempts, last lines"],
    ["lease inspect release-1.4", "a task as a tree: who waits for whom, and which way took longest so far"],
    ["lease inspect jobs --status failed --since 1d", "what failed since yesterday, and why"],
    ["lease inspect jobs --status pending,scheduled,blocked", "what waits, and what for"],
    ["lease inspect jobs --match deploy", "whose command has that in it"],
    ["lease inspect leases --stale", "whose lease is over, and for how long"],
    ["lease inspect workers --watch", "who does what, live; q, Esc or Ctrl-C ends it"],
    ["lease inspect jobs --json --limit 1000 | jq .id", "one object per line"],
  ],
  notes: [
    { title: "Sorts", rows: LIST_NAMES.map((list) => [list, LIST_SORTS[list].join(", ")] as const) },
    "Jobs come with what runs first, then what waits, then what is over, each with the newest first; by another sort, and as " +
      "JSON or TSV, with the newest, the highest, the most first (by due: what is due next). Leases come with the one that " +
      "ends next, checkpoints with the newest; --reverse turns that round.",
  ],
  exit_codes: [["1", "there is no such job, or nothing in the list matches"]],
  run: async ({ args, lists, rest, given, io }) => {
    const view = viewOf(args, lists.status, rest, given);
    return withStore(args, io, { create: false }, async ({ store }) =>
      args.watch ? keepLive(store, view, args, io) : print(store, view, args, io),
    );
  },
});

function viewOf(
  args: InspectArgs,
  statuses: readonly string[],
  words: readonly string[],
  given: ReadonlyMap<string, string>,
): View {
  const [first, ...more] = words;
  const list = LIST_NAMES.find((name) => name === first) ?? null;
  checkFlags(list, given);
  if (first === undefined) return overviewView;
  if (list !== null) return listView(list, args, statuses, more);
  if (more.length === 0 && !/^\d+([-,]|$)/.test(first)) return taskView(first);
  return pagesView(readIds(words, "inspect"), words, args.show_env);
}

/** A word that is no id may be a task. */
function taskView(task: string): View {
  return {
    title: task,
    tsv: null,
    narrowed: false,
    async *look(store) {
      const graph = await taskGraph(store, task);
      if (graph === null) throw notATask(task);
      const page = (now_ms: number) => ({ ...graph, critical: criticalPath(graph, now_ms) });
      yield {
        text: (screen) => graphText(page(screen.now_ms), screen),
        objects: (at_ms) => [graphJson(page(at_ms))],
      };
    },
  };
}

function notATask(word: string): LeaseError {
  const meant = /^\p{L}/u.test(word) ? nearest(word, LIST_NAMES) : null;
  if (meant !== null) {
    return new LeaseError("usage", `inspect has no list ${JSON.stringify(word)}; did you mean ${meant}?`);
  }
  const what = `inspect ${JSON.stringify(word)} is not a job id`;
  return new LeaseError("usage", `${what}: write 7, or 9-12 for a range; and no job has it as its task`);
}

const overviewView: View = {
  title: "",
  tsv: null,
  narrowed: false,
  async *look(store, now_ms) {
    const overview = await overviewNow(store, now_ms);
    yield { text: (screen) => overviewText(overview, screen), objects: (at_ms) => [overviewJson(overview, at_ms)] };
  },
};

/** Jobs of which all is told at once. */
const PAGE = 50;

function pagesView(ids: readonly number[], words: readonly string[], show_env: boolean): View {
  const ends = new LogEnds();
  return {
    title: words.join(" "),
    tsv: null,
    narrowed: false,
    async *look(store, now_ms, whole) {
      const page = whole ? ids.length : PAGE;
      for (let from = 0; from < ids.length; from += page) {
        const asked = ids.slice(from, from + page);
        const found = await jobPages(store, asked, now_ms, whole ? ends : new LogEnds());
        const at = (at_ms: number) =>
          found.flatMap((facts) => (facts === null ? [] : [{ ...facts, reason: facts.reason(at_ms), show_env }]));
        yield {
          text: (screen) => Array.from(at(screen.now_ms), (shown) => jobText(shown, screen)).join("\n"),
          objects: (at_ms) => at(at_ms).map((shown) => jobDetailJson(shown.job, shown)),
          missing: asked.filter((_, index) => found[index] === null),
        };
      }
    },
  };
}

type Printing = Pick<InspectArgs, "json" | "tsv" | "queue"> & { color: "auto" | "always" | "never" };

async function print(store: Store, view: View, args: Printing, io: Io): Promise<number> {
  const screen = screenOf(args.color, io, await store.now());
  if (args.tsv && view.tsv !== null) io.stdout(tsvHeader(view.tsv));
  const missing: number[] = [];
  let is_empty = view.narrowed;
  let pages = 0;
  for await (const seen of view.look(store, screen.now_ms, !args.json && !args.tsv && view.tsv !== null)) {
    const text = formatted(seen, view, args, screen);
    io.stdout(pages > 0 && !args.json && !args.tsv && text !== "" ? `\n${text}` : text);
    pages += text === "" ? 0 : 1;
    missing.push(...(seen.missing ?? []));
    is_empty &&= view.narrowed && seen.objects(screen.now_ms).length === 0;
  }
  // Perhaps the name is misspelt.
  const [remark] = is_empty && args.queue !== undefined ? await queueRemarks(store, [args.queue]) : [];
  if (remark) io.stderr(`lease: ${visible(remark)}\n`);
  for (const complaint of noSuchJobs(missing)) io.stderr(`lease: ${complaint}\n`);
  return missing.length > 0 || is_empty ? 1 : 0;
}

/** A terminal that can't move its cursor gets what a pipe gets. */
function keepLive(store: Store, view: View, args: Printing, io: Io): Promise<number> {
  const live = io.is_tty && io.env["TERM"] !== "dumb" && !args.json && !args.tsv;
  const screenAt = (now_ms: number) => screenOf(args.color, io, now_ms);
  const format = (seen: Seen, screen: Screen) => formatted(seen, view, args, screen);
  if (args.tsv && view.tsv !== null) io.stdout(tsvHeader(view.tsv));
  return watch({ store, view, io, live, screenAt, format });
}

function formatted(seen: Seen, view: View, args: Printing, screen: Screen): string {
  const { now_ms } = screen;
  if (args.json) return seen.objects(now_ms).map(jsonLine).join("");
  if (!args.tsv || view.tsv === null) return seen.text(screen);
  const names = view.tsv;
  return (seen.rows ?? seen.objects)(now_ms)
    .map((row) => tsvLine(names, row))
    .join("");
}
