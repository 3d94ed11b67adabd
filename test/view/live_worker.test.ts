import { describe, expect, test } from "bun:test";
import { workerPicture, type ShownJob } from "../../src/view/live_worker.ts";
import { ansi, plain } from "../../src/view/style.ts";
import { paintedWidth } from "../../src/view/text.ts";

const job = (more: Partial<ShownJob> = {}): ShownJob => ({
  id: 7,
  command: "make test",
  elapsed_ms: 41_300,
  progress: null,
  message: null,
  last_line: "linking",
  silent_ms: 200,
  lease_ms: 300_000,
  stopping: false,
  ...more,
});
const progress = { completed: 3, failed: 1, running: 1, left: 4, elapsed_ms: 10_000 };
const size = { columns: 100, rows: 30 };
const picture = (jobs: ShownJob[], more = size) => workerPicture(jobs, progress, more, plain);

describe("a worker's picture", () => {
  test("has a line per job with what it printed last, and one that tells how far it is", () => {
    expect(picture([job(), job({ id: 12, command: "./x.sh", elapsed_ms: 900, last_line: null })])).toEqual([
      " 7  make test     41s  linking",
      "12  ./x.sh         0s",
      "━━━━━━━━━─────────── 3 done, 1 failed, 1 running, 4 left, 0.4/s, 10s to go",
    ]);
  });

  test("has what a job says about itself instead of its last line", () => {
    expect(picture([job({ progress: 40, message: "objects" })])[0]).toBe("7  make test     41s  40 % objects");
  });

  test("names a silence that grows, and a job that is being stopped", () => {
    expect(picture([job({ silent_ms: 110_000 })])[0]).toBe("7  make test     41s  silent 1m50s of 5m  linking");
    expect(picture([job({ silent_ms: 4_000, lease_ms: 5_000 })])[0]).toEndWith("41s  linking");
    expect(picture([job({ stopping: true })])[0]).toEndWith("stopping");
  });

  test("shows as many jobs as there is room for, and counts the others", () => {
    const many = Array.from({ length: 40 }, (_, index) => job({ id: index + 1 }));
    const lines = picture(many, { columns: 80, rows: 12 });
    expect(lines).toHaveLength(7);
    expect(lines.at(-2)).toBe("… and 35 more");
  });

  test("obeys nothing that a job printed, and is as wide with colours as without", () => {
    const nasty = job({ command: "a\u001b[2Jb", last_line: "x\u001b]0;owned\u0007y\r\n" });
    const [line = ""] = workerPicture([nasty], progress, size, ansi);
    expect(Bun.stripANSI(line)).not.toContain("\u001b");
    expect(paintedWidth(line)).toBe(paintedWidth(picture([nasty])[0] ?? ""));
  });
});
