/** What jobs really did, by the ledger that they kept, against what the store says, and what the store's own audit says. */

import { readFileSync } from "node:fs";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { SHAPES, type Kind, type TransferCell, type TransferRow } from "../../src/store/copy/transfer.ts";
import type { Store } from "../../src/store/store.ts";
import type { Unfenced } from "./fleet.ts";
import { LIMIT, type Jobs } from "./jobs.ts";
import type { World } from "./world.ts";

interface Line {
  what: string;
  token: number;
  at_ns: bigint;
  /** Of a beginning: what it was told of earlier progress, and which of the machine's things it was given. */
  checkpoint: number | null;
  gpu: string | null;
}

type Ledger = ReadonlyMap<number, readonly Line[]>;
type Row = Record<string, TransferCell>;

const LINE = /^(begin|alive|mark|end)(?:=(\d+))?(?:@(\S+))? (\d+) (\d+) (\d{19})$/;

function readLedger(path: string): Ledger {
  const jobs = new Map<number, Line[]>();
  for (const text of readFileSync(path, "utf8").split("\n")) {
    const [, what = "", checkpoint, gpu, job, token, at] = LINE.exec(text) ?? [];
    if (at === undefined) continue;
    const line = {
      what,
      token: Number(token),
      at_ns: BigInt(at),
      checkpoint: checkpoint === undefined ? null : Number(checkpoint),
      gpu: gpu ?? null,
    };
    const lines = jobs.get(Number(job));
    if (lines === undefined) jobs.set(Number(job), [line]);
    else lines.push(line);
  }
  return jobs;
}

async function rowsOf(store: Store, kind: Kind): Promise<Row[]> {
  const transfer = await store.transfer();
  const rows: Row[] = [];
  for (let behind: TransferRow | null = null; ;) {
    const page: TransferRow[] = await transfer.read(kind, behind, 1_000);
    for (const row of page)
      rows.push(Object.fromEntries(SHAPES[kind].names.map((name, at) => [name, row[at] ?? null])));
    behind = page.at(-1) ?? null;
    if (page.length < 1_000) return rows;
  }
}

const latest = (lines: readonly Line[]) => lines.reduce((last, { at_ns }) => (at_ns > last ? at_ns : last), 0n);
const begins = (lines: readonly Line[]) => lines.filter(({ what }) => what === "begin");

/** So long a worker without control groups may take to see what a job has started, on a machine that has much to do. */
const SEEN_WITHIN_MS = 1_000;

/**
 * Attempts of which no fence is left: their worker had no control groups, and was killed or stopped before it could see
 * what they had started, or let it go because they ended well. `lease doctor` says of that fence that it does not reach so
 * far.
 */
function withoutFence(attempts: readonly Row[], unfenced: Unfenced): Set<string> {
  const missed = attempts.filter(({ worker, cause, fence, started_at_ms }) => {
    const signals = unfenced.get(Number(String(worker).split(".").at(-2)));
    if (signals === undefined) return false;
    if (cause === "success") return true;
    const after = signals.map((at_ms) => at_ms - Number(started_at_ms));
    return fence === null || after.some((ms) => ms >= 0 && ms < SEEN_WITHIN_MS);
  });
  return new Set(missed.map(({ job_id, attempt }) => `${job_id} ${attempt}`));
}

/** Something of an earlier attempt happened after a later one had begun. */
function overlaps(ledger: Ledger, beyond: ReadonlySet<string>): string[] {
  return [...ledger].flatMap(([job, lines]) =>
    begins(lines).flatMap(({ token, at_ns }) => {
      const late_ns = latest(lines.filter((line) => line.token < token && !beyond.has(`${job} ${line.token}`))) - at_ns;
      if (late_ns <= 0n) return [];
      return [`job ${job}: attempt ${token} began ${Number(late_ns) / 1e6} ms before an earlier one was over`];
    }),
  );
}

/** How an attempt ends behind which the job waits for its parents anew, once it is retried. */
const COMPLETE: ReadonlySet<unknown> = new Set([undefined, "success", "cancelled"]);

/**
 * A child that began before its parent had ended as often as the child was to run. One that is tried again has begun
 * when its parents were done: whoever retries a parent alone meanwhile does not stop it.
 */
function disorders(ledger: Ledger, attempts: readonly Row[], { pairs }: Jobs): string[] {
  const causes = new Map(attempts.map(({ job_id, attempt, cause }) => [`${job_id} ${attempt}`, cause]));
  return pairs.flatMap(({ parent, child }) =>
    begins(ledger.get(child) ?? []).flatMap(({ token, at_ns }) => {
      if (!COMPLETE.has(causes.get(`${child} ${token - 1}`))) return [];
      const before = (ledger.get(parent) ?? []).filter((line) => line.at_ns < at_ns);
      const newest = Math.max(0, ...before.map((line) => line.token));
      const over = before.some((line) => line.token === newest && line.what === "end");
      return over ? [] : [`job ${child}: attempt ${token} began though job ${parent} was not done`];
    }),
  );
}

/** An attempt that was told of less progress than an earlier one had been acknowledged, or of more than there can be. */
function forgotten(ledger: Ledger): string[] {
  return [...ledger].flatMap(([job, lines]) =>
    begins(lines).flatMap(({ token, checkpoint }) => {
      const marks = lines.filter(({ what, token: by }) => what === "mark" && by < token).map(({ token: by }) => by);
      const told = checkpoint ?? 0;
      if (told >= Math.max(0, ...marks) && told < token) return [];
      return [`job ${job}: attempt ${token} was told of progress ${told}, and ${Math.max(0, ...marks)} was the last`];
    }),
  );
}

interface Use {
  job: number;
  token: number;
  gpu: string | null;
  from_ns: bigint;
  to_ns: bigint;
}

/** When attempts really lived, those aside that no fence could hold. */
function uses(ledger: Ledger, beyond: ReadonlySet<string>, only: (job: number) => boolean): Use[] {
  return [...ledger].flatMap(([job, lines]) =>
    begins(lines).flatMap(({ token, at_ns, gpu }) => {
      if (!only(job) || beyond.has(`${job} ${token}`)) return [];
      const own = lines.filter((line) => line.token === token);
      // What an attempt that came to its end has left behind is no use any more.
      const end = own.find(({ what }) => what === "end");
      return [{ job, token, gpu, from_ns: at_ns, to_ns: end?.at_ns ?? latest(own) }];
    }),
  );
}

/** More at a time than a limit allows, or one thing in two hands. */
function crowded(ledger: Ledger, beyond: ReadonlySet<string>, { limited }: Jobs): string[] {
  const of_limit = uses(ledger, beyond, (job) => limited.has(job));
  const others = (use: Use, all: readonly Use[]) =>
    all.filter((other) => other !== use && other.from_ns <= use.from_ns && other.to_ns > use.from_ns);
  const crowds = of_limit.filter((use) => others(use, of_limit).length >= LIMIT.most);
  const holders = uses(ledger, beyond, () => true).filter(({ gpu }) => gpu !== null);
  const doubles = holders.filter((use) => others(use, holders).some(({ gpu }) => gpu === use.gpu));
  return [
    ...crowds.map(({ job, token }) => `job ${job}: attempt ${token} began when limit ${LIMIT.name} was full`),
    ...doubles.map(({ job, token, gpu }) => `job ${job}: attempt ${token} was given ${gpu}, which another had`),
  ];
}

const OVER: ReadonlySet<unknown> = new Set(["completed", "cancelled", "failed"]);

function lost(ledger: Ledger, rows: readonly Row[], { acknowledged }: Jobs): string[] {
  const known = new Set(rows.map(({ id }) => id));
  const noted = new Set([...ledger].flatMap(([job, lines]) => (lines.some(({ what }) => what === "end") ? [job] : [])));
  const ours = (row: Row) => String(row["argv"]).includes("$LEASE_TOKEN");
  return [
    ...[...acknowledged].filter((id) => !known.has(id)).map((id) => `job ${id} was acknowledged and is gone`),
    ...rows.filter(({ state }) => !OVER.has(state)).map(({ id, state }) => `job ${id} is still ${state}`),
    ...rows
      .filter((row) => row["state"] === "completed" && ours(row) && !noted.has(Number(row["id"])))
      .map(({ id }) => `job ${id} is completed and never came to its end`),
  ];
}

export type Verdict = Readonly<
  Record<"lost" | "doubled" | "overlapping" | "out of order" | "over a limit" | "progress forgotten", readonly string[]>
> & {
  /** What the store's own history shows. */
  audit: readonly string[];
};

export async function judge(world: World, jobs: Jobs, unfenced: Unfenced): Promise<Verdict> {
  const ledger = readLedger(world.ledger);
  const store = await openStore(world.store, { clock: systemClock, random: systemRandom, trust: true });
  try {
    const [rows, attempts] = [await rowsOf(store, "jobs"), await rowsOf(store, "attempts")];
    const beyond = withoutFence(attempts, unfenced);
    world.count("attempts that no fence could hold", beyond.size);
    world.count("attempts", attempts.length);
    world.count("jobs acknowledged", jobs.acknowledged.size);
    for (const { state } of rows) world.count(`jobs ${state}`);
    const audited = await store.audit();
    const told = audited.flatMap(({ name, broken, explained_by }) =>
      broken.map(({ job, text }) => ({ name, explained_by, text: `${name}: job ${job}: ${text}` })),
    );
    world.count(
      "breaches that a person explains",
      told.filter(({ explained_by }) => explained_by !== undefined).length,
    );
    const breaches = told.filter(({ explained_by }) => explained_by === undefined);
    const doubled = breaches.filter(({ name }) => name === "done").map(({ text }) => text);
    const unwell = (await store.diagnose()).filter(({ name }) => name === "integrity" || name === "counts");
    return {
      lost: lost(ledger, rows, jobs),
      doubled,
      overlapping: overlaps(ledger, beyond),
      "out of order": disorders(ledger, attempts, jobs),
      "over a limit": crowded(ledger, beyond, jobs),
      "progress forgotten": forgotten(ledger),
      audit: [
        ...breaches.filter(({ name }) => name !== "done").map(({ text }) => text),
        ...unwell.filter(({ level }) => level !== "ok").map(({ name, value }) => `${name}: ${value}`),
      ],
    };
  } finally {
    await store.close();
  }
}
