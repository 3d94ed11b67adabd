import { describe, expect, test } from "bun:test";
import { criticalPath } from "../../src/lookup/task_graph.ts";
import { graphText } from "../../src/view/graph.ts";
import { plain } from "../../src/view/style.ts";
import { jobIn } from "../support/jobs.ts";

const NOW_MS = 1_000_000;

const ran = (id: number, from_s: number, to_s: number) =>
  jobIn({ name: "completed", finished_at_ms: to_s * 1_000 }, { id, token: 1, started_at_ms: from_s * 1_000 });
const link = (job: number, parent: number, kind: "success" | "any" = "success") => ({ job, parent, kind });

/** 1 ─▶ 2 ─▶ 4 and 1 ─▶ 3 ─▶ 4 ─▶ 5, of which 5 runs. */
const jobs = [
  ran(1, 0, 10),
  ran(2, 10, 70),
  ran(3, 10, 15),
  ran(4, 70, 80),
  jobIn(
    { name: "running", holder: "w", expires_at_ms: 0, cancel_requested_at_ms: null },
    { id: 5, token: 1, started_at_ms: NOW_MS - 5_000 },
  ),
  jobIn({ name: "blocked" }, { id: 6 }),
];
const links = [link(2, 1), link(3, 1), link(4, 2), link(4, 3), link(5, 4), link(6, 5, "any")];
const graph = { task: "rel", jobs, links, cut: false };

describe("the graph of a task", () => {
  test("has the chain that took longest so far, what runs included", () => {
    expect(criticalPath(graph, NOW_MS)).toEqual({ ids: [1, 2, 4, 5], took_ms: 85_000 });
    expect(criticalPath({ ...graph, jobs: [], links: [] }, NOW_MS)).toEqual({ ids: [], took_ms: 0 });
  });

  test("finds it down a chain of any length, and beside jobs of other tasks", () => {
    const many = Array.from({ length: 20_000 }, (_, index) => ran(index + 1, index, index + 1));
    const chain = many.slice(1).map(({ id }) => link(id, id - 1));
    const path = criticalPath({ ...graph, jobs: many, links: [...chain, link(1, 99_999)] }, NOW_MS);
    expect([path.ids.length, path.took_ms]).toEqual([20_000, 20_000_000]);
  });

  test("has an end, also in a store that is damaged so that jobs wait for each other", () => {
    const circle = [link(1, 3), link(2, 1), link(3, 2), link(4, 4), link(5, 2)];
    const path = criticalPath({ ...graph, links: circle }, NOW_MS);
    expect(path.ids).toContain(2);
    expect(new Set(path.ids).size).toBe(path.ids.length);
  });

  test("keeps its columns together where a chain is too deep to stand in one", () => {
    const deep = Array.from({ length: 30 }, (_, index) => ran(index + 1, index, index + 1));
    const chain = deep.slice(1).map(({ id }) => link(id, id - 1));
    const page = { ...graph, jobs: deep, links: chain, critical: { ids: [], took_ms: 0 } };
    const lines = graphText(page, { now_ms: NOW_MS, width: 60, paint: plain }).split("\n").slice(2, -1);
    expect(lines[0]).toBe("1                   completed  1s  true");
    expect(lines[3]).toBe("      └─ 4          completed  1s  true");
    expect(lines[9]).toBe("                        └─ 10 completed  1s  true");
  });

  test("is drawn as a tree, each job once, on the longest way where it is part of it", () => {
    const text = graphText(
      { ...graph, critical: criticalPath(graph, NOW_MS) },
      { now_ms: NOW_MS, width: 80, paint: plain },
    );
    expect(text).toBe(`Task rel  4 completed, 1 running, 1 blocked

1             completed  10s *  true
├─ 2          completed   1m *  true
│  └─ 4       completed  10s *  true  after 3
│     └─ 5    running     5s *  true
│        └─ 6 blocked           true  after any end of 5
└─ 3          completed   5s    true

longest way so far: 1 → 2 → 4 → 5, 1m25s
`);
  });
});
