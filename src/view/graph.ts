/** A task as a tree: who waits for whom, in which state each is, and the chain that has taken longest so far. */

import { formatDuration } from "../core/duration.ts";
import { shownState, type Job, type ShownState } from "../core/job.ts";
import { runtimeOf } from "./lists.ts";
import { paintState, type Screen } from "./style.ts";
import { commandText, pad, truncate, visible } from "./text.ts";

export interface GraphPage {
  task: string;
  jobs: readonly Job[];
  links: readonly { job: number; parent: number; kind: "success" | "any" | "failure" }[];
  cut: boolean;
  critical: { ids: readonly number[]; took_ms: number };
}

const WAYS = { success: "", any: "any end of ", failure: "failure of " } as const;

export function graphText(page: GraphPage, screen: Screen): string {
  const { jobs, critical, cut } = page;
  const counts = Map.groupBy(jobs, shownState);
  const states = [...counts].map(([state, some]) => `${some.length} ${state}`).join(", ");
  const lines = [`Task ${visible(page.task)}  ${states}`, ""];
  lines.push(...treeLines([...new Tree(page).rows(screen.now_ms)], screen));
  if (cut) lines.push(`… and more: only the first ${jobs.length} are shown`);
  if (critical.ids.length > 1) {
    lines.push("", `longest way so far: ${critical.ids.join(" → ")}, ${formatDuration(critical.took_ms)}`);
  }
  return `${lines.join("\n")}\n`;
}

class Tree {
  readonly #roots: readonly Job[];
  readonly #page: GraphPage;
  readonly #children = new Map<number, Job[]>();
  readonly #parents: ReadonlyMap<number, GraphPage["links"]>;
  /** Under which of its parents a job stands. */
  readonly #under = new Map<number, number>();

  constructor(page: GraphPage) {
    this.#page = page;
    this.#parents = Map.groupBy(page.links, ({ job }) => job);
    const known = new Set(page.jobs.map(({ id }) => id));
    const critical = new Set(page.critical.ids);
    const roots: Job[] = [];
    for (const job of page.jobs) {
      const above = (this.#parents.get(job.id) ?? []).map(({ parent }) => parent).filter((id) => known.has(id));
      // Under the one that it waited longest for, so that the longest way is one line of the tree.
      const parent = above.find((id) => critical.has(id) && critical.has(job.id)) ?? above.at(-1);
      if (parent === undefined) roots.push(job);
      else {
        this.#under.set(job.id, parent);
        this.#children.set(parent, [...(this.#children.get(parent) ?? []), job]);
      }
    }
    this.#roots = roots;
  }

  /** Each job once, children under their parents. */
  *rows(now_ms: number): Generator<Row> {
    const open: [job: Job, lead: string, below: string][] = this.#roots.toReversed().map((job) => [job, "", ""]);
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const [one, before, behind] = next;
      yield this.#row(one, before, now_ms);
      const children = this.#children.get(one.id) ?? [];
      for (const [index, child] of children.toReversed().entries()) {
        const last = index === 0;
        open.push([child, `${behind}${last ? "└─ " : "├─ "}`, `${behind}${last ? "   " : "│  "}`]);
      }
    }
  }

  #row(job: Job, lead: string, now_ms: number): Row {
    const { critical } = this.#page;
    const ran_ms = runtimeOf(job, now_ms) ?? 0;
    const others = (this.#parents.get(job.id) ?? [])
      .filter(({ parent, kind }) => parent !== this.#under.get(job.id) || kind !== "success")
      .map(({ parent, kind }) => `${WAYS[kind]}${parent}`);
    return {
      lead,
      job,
      state: shownState(job),
      took: ran_ms === 0 ? "" : formatDuration(ran_ms),
      mark: critical.ids.length > 1 && critical.ids.includes(job.id) ? " *" : "",
      after: others.length === 0 ? "" : `  after ${others.slice(0, 3).join(", ")}${others.length > 3 ? " …" : ""}`,
    };
  }
}

interface Row {
  lead: string;
  job: Job;
  state: ShownState;
  took: string;
  mark: string;
  after: string;
}

/** Of the screen, for the tree itself: what is deeper stands beside its column. */
const TREE_SHARE = 1 / 3;

function treeLines(rows: readonly Row[], { paint, width }: Screen): string[] {
  const widest = (text: (row: Row) => string) => rows.reduce((most, row) => Math.max(most, text(row).length), 0);
  const tree = widest(({ lead, job }) => `${lead}${job.id}`);
  const tree_width = Math.min(tree, width === null ? tree : Math.max(8, Math.floor(width * TREE_SHARE) - 1));
  const [states, times, marks] = [widest(({ state }) => state), widest(({ took }) => took), widest(({ mark }) => mark)];
  return rows.map(({ lead, job, state, took, mark, after }) => {
    const gap = " ".repeat(Math.max(0, tree_width - `${lead}${job.id}`.length));
    const facts = `${pad("", states - state.length)}${times === 0 ? "" : `  ${pad(took, times, "right")}`}${pad(mark, marks)}`;
    const used = lead.length + String(job.id).length + gap.length + 1 + state.length + facts.length + 2;
    const room = width === null ? Infinity : Math.max(8, width - used - after.length);
    const command = truncate(visible(commandText(job)), room);
    return `${paint.dim(lead)}${job.id}${gap} ${paintState(paint, state)(state)}${facts}  ${command}${paint.dim(after)}`;
  });
}
