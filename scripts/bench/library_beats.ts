/**
 * A thousand handlers at once that beat each second: how long the event loop stands still, and how many commits that
 * takes. The lease is so short that each beat is an extension.
 */

import { open } from "../../src/index.ts";
import { countCommits, newStorePath, plainFigure, quantile } from "./harness.ts";

const JOBS = 1_000;
const SECONDS = 10;
/** A commit takes along what comes within this. */
const WINDOW_MS = 20;

const commits = countCommits();
await using queue = await open(newStorePath());
await queue.enqueue(Array.from({ length: JOBS }, (_, n) => ({ input: n })));
const begun = Promise.withResolvers<void>();
let running = 0;
const over = new AbortController();
const worker = queue.worker({ slots: JOBS, lease: "10s", interval: "1s", sweep: false }, async (_job, { beat }) => {
  if ((running += 1) === JOBS) begun.resolve();
  const timer = setInterval(beat, 1_000);
  await new Promise<void>((done) => over.signal.addEventListener("abort", () => done()));
  clearInterval(timer);
});
await begun.promise;
const stalls: number[] = [];
const committed_before = commits.count;
let last_ms = performance.now();
const started_ms = last_ms;
while (performance.now() - started_ms < SECONDS * 1_000) {
  await new Promise((done) => setTimeout(done, 1));
  const now_ms = performance.now();
  stalls.push(now_ms - last_ms - 1);
  last_ms = now_ms;
}
const windows = (performance.now() - started_ms) / WINDOW_MS;
const per_window = (commits.count - committed_before) / windows;
over.abort();
await worker.stop();
plainFigure("library-beats/stall p99", quantile(stalls, 0.99), "ms", { at_most: 50 });
plainFigure("library-beats/stall max", Math.max(...stalls), "ms", {});
plainFigure("library-beats/commits", per_window, "per window", { at_most: 1 });
