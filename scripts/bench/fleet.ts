/**
 * Four worker processes with four slots each on one file, where they compete for SQLite's one write lock: the total
 * beside `xargs -P16`, how evenly they share, and whether leases get extended in time while they do.
 */

import { Database } from "bun:sqlite";
import type { Turn } from "./harness.ts";
import {
  filledStore,
  has,
  job,
  leaseBinary,
  median,
  plainFigure,
  quantile,
  quiet,
  ratioFigure,
  script,
  skipped,
  timed,
  timedShell,
  times,
} from "./harness.ts";
import type { ProbeInput, ProbeOutput } from "./probed_worker.ts";

const TURNS = 5;
const WORKERS = 4;
const SLOTS = 4;
const JOBS = 10_000;

const jobs = times(JOBS, () => job(["/bin/true"]));

async function xargs(): Promise<number> {
  return (JOBS * 1_000) / (await timedShell(`seq ${JOBS} | xargs -P${WORKERS * SLOTS} -n1 /bin/true`));
}

/** The share of the worker that got least, as a part of what would be fair. */
function smallestShare(store: string): number {
  const database = new Database(store, { readonly: true });
  const rows = database
    .query<{ jobs: number }, []>(
      "SELECT count(a.worker) AS jobs FROM workers AS w LEFT JOIN attempts AS a ON a.worker = w.id GROUP BY w.id",
    )
    .all();
  database.close();
  if (rows.length !== WORKERS) throw new Error(`${rows.length} of ${WORKERS} workers took part`);
  return Math.min(...rows.map((row) => row.jobs)) / (JOBS / WORKERS);
}

const shares: number[] = [];

async function fleet(): Promise<number> {
  const store = await filledStore(jobs);
  const started_ms = performance.now();
  await Promise.all(
    times(WORKERS, () => timed([leaseBinary(), "worker", "-j", String(SLOTS), "--until-empty", "--store", store])),
  );
  const taken_ms = performance.now() - started_ms;
  shares.push(smallestShare(store));
  return (JOBS * 1_000) / taken_ms;
}

const turns: Turn[] = [];
for (let turn = 0; turn < TURNS; turn++) {
  await quiet();
  const before = await xargs();
  const ours = await fleet();
  turns.push({ ours, other: (before + (await xargs())) / 2 });
}
ratioFigure("fleet 4×4 / xargs -P16", "jobs/s", turns, { at_least: 0.95 });
plainFigure("fleet: smallest share", median(shares), "of fair", { at_least: 0.8 });

/** Under the same load, jobs that talk in one slot of each worker, with a lease short enough to need extensions. */
const LEASE_MS = 2_000;
const TALK_SECONDS = 6;
const TALKER = `$| = 1; my $end = time + ${TALK_SECONDS}; while (time < $end) { print "line\\n"; select(undef, undef, undef, 0.02) }`;

if (has("perl")) {
  const talkers = times(WORKERS, () => ({ ...job(["perl", "-e", TALKER], { lease_ms: LEASE_MS }), priority: 1 }));
  const store = await filledStore([...talkers, ...jobs]);
  const input: ProbeInput = { store, slots: SLOTS, lease_ms: LEASE_MS };
  const seen = await Promise.all(times(WORKERS, () => script<ProbeOutput>("probed_worker.ts", input)));
  const extend_ms = seen.flatMap((worker) => worker.extend_ms);
  plainFigure("fleet: extension p99", quantile(extend_ms, 0.99), "ms", { at_most: 100 });
  const stalls = seen.map((worker) => quantile(worker.late_ms, 0.99));
  plainFigure("fleet: stall p99, worst worker", Math.max(...stalls), "ms", { at_most: 50 });
} else skipped("fleet: extension, stall", "there is no perl");
