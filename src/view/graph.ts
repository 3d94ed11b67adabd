/** A task as a tree: who waits for whom, in which state each is, and the chain that has taken longest so far. */

import { formatDuration } from "../core/duration.ts";
import { shownState, type Job } from "../core/job.ts";
import { runtimeOf } from "./lists.ts";
import { paintState, type Screen } from "./style.ts";
import { commandText, truncate, visible } from "./text.ts";

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
  const tree = new Tree(page);
  for (const root of tree.roots) tree.draw(root, "", "", lines, screen);
  if (cut) lines.push(`… and more: only the first ${jobs.length} are shown`);
  if (critical.ids.length > 1) {
    lines.push("", `longest way so far: ${critical.ids.join(" → ")}, ${formatDuration(critical.took_ms)}`);
  }
  return `${lines.join("\n")}\n`;
}

class Tree {
  readonly roots: readonly Job[];
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
    this.roots = roots;
  }

  draw(job: Job, lead: string, below: string, lines: string[], screen: Screen): void {
    const open: [job: Job, lead: string, below: string][] = [[job, lead, below]];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const [one, before, behind] = next;
      lines.push(this.#line(one, before, screen));
      const children = this.#children.get(one.id) ?? [];
      for (const [index, child] of children.toReversed().entries()) {
        const last = index === 0;
        open.push([child, `${behind}${last ? "└─ " : "├─ "}`, `${behind}${last ? "   " : "│  "}`]);
      }
    }
  }

  #line(job: Job, lead: string, { paint, width, now_ms }: Screen): string {
    const { critical } = this.#page;
    const state = shownState(job);
    const ran_ms = runtimeOf(job, now_ms) ?? 0;
    const took = ran_ms === 0 ? "" : ` ${formatDuration(ran_ms)}`;
    const others = (this.#parents.get(job.id) ?? [])
      .filter(({ parent, kind }) => parent !== this.#under.get(job.id) || kind !== "success")
      .map(({ parent, kind }) => `${WAYS[kind]}${parent}`);
    const after = others.length === 0 ? "" : `  after ${others.slice(0, 3).join(", ")}${others.length > 3 ? " …" : ""}`;
    const mark = critical.ids.length > 1 && critical.ids.includes(job.id) ? " *" : "";
    const plain = `${lead}${job.id} ${state}${took}${mark}`;
    const room = width === null ? Infinity : Math.max(8, width - plain.length - after.length - 2);
    const command = truncate(visible(commandText(job)), room);
    return `${paint.dim(lead)}${job.id} ${paintState(paint, state)(state)}${took}${mark}  ${command}${paint.dim(after)}`;
  }
}
