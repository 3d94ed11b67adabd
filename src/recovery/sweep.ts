/**
 * Recovery: finds running jobs whose lease ended, or whose worker is provably gone from this machine, clears away what
 * is left of them, and gives them back or ends them as core decides. Any number of sweeps may run at once: each write
 * rechecks that the job is still exactly as it was found.
 */

import { isSettledWithin, JUMP_TRUST_MS } from "../core/clock.ts";
import type { Clock, MachineTime, Random } from "../core/clock.ts";
import { errorText, isStoreTrouble, LeaseError } from "../core/errors.ts";
import { hookOf } from "../core/hook.ts";
import type { LogChunk, SweepCounts, WorkerRecord } from "../core/records.ts";
import { RepeatedTrouble, aboutJob, type EventFields } from "../core/report.ts";
import { isRefusal, transition, type Change } from "../core/transition.ts";
import { host, isProvenDead, machineTime, processText } from "../platform/machine.ts";
import type { ExpiredLease } from "../store/queries.ts";
import type { RecoverRequest } from "../store/store.ts";
import type { HousekeepingOptions } from "./housekeeping.ts";
import { keepHouse } from "./housekeeping.ts";
import { LAST_LINES, Tail } from "../runner/log/tail.ts";
import { fireSchedules, ScheduleLook } from "./schedules.ts";
import { killLeftovers, LeftoverSearch, removeBelongings, type Leftovers } from "./leftovers.ts";

export interface RecoverySweepOptions extends HousekeepingOptions {
  clock: Clock;
  random: Random;
  /** What LEASE_STORE told the jobs. */
  store_url: string;
  grace_ms: number;
  every_ms: number;
  /** Between two looks for workers that died on this machine, once started; none unless it is given. */
  dead_every_ms?: number;
  /** Write an error checkpoint for each recovered job; as the store has it unless told. */
  checkpoints?: boolean;
  /** The machine's own, unless a test has another. */
  machine_time?: () => MachineTime;
}

/** With more workers on a machine each looks less often, so that in all about so many look in that time. */
const LOOKERS = 4;
/** Should all but one die at once, it still finds out soon. */
const MOST_APART = 5;

export interface SweepStatistics {
  running: boolean;
  total_scans: number;
  total_recovered: number;
  total_failed: number;
  last_scan: SweepCounts | null;
}

/** Jobs per commit: short enough that a beat never waits long behind it. */
export const SWEEP_PAGE = 1_000;
/** A grace that no lease ever outlives. */
const NEVER_MS = 2 ** 50;

/** The first sweep has fired what was due. */
const FIRST_FIRING_MS = 250;

export class RecoverySweep {
  readonly #options: RecoverySweepOptions;
  readonly #statistics: SweepStatistics = {
    running: false,
    total_scans: 0,
    total_recovered: 0,
    total_failed: 0,
    last_scan: null,
  };
  #loops: Loop[] = [];
  readonly #trouble: RepeatedTrouble;
  /** Workers of whose jobs something can't be seen from here. */
  readonly #left_to_others = new Set<string>();
  /** Workers on this machine, when they were last looked at. */
  #live_here = 1;
  /** What is said once, however often it is found. */
  readonly #told = new Set<string>();

  constructor(options: RecoverySweepOptions) {
    this.#options = options;
    this.#trouble = new RepeatedTrouble(options.clock);
  }

  statistics(): SweepStatistics {
    return { ...this.#statistics };
  }

  /** Sweeps now and then every `every_ms`, a little apart from others that started at the same moment. */
  start(onScan: (counts: SweepCounts) => void = () => {}, onFired: () => void = () => {}): void {
    if (this.#statistics.running) return;
    this.#statistics.running = true;
    const { clock, random, every_ms, dead_every_ms } = this.#options;
    const sweep = async () => {
      try {
        const counts = await this.scan();
        this.#trouble.over();
        onScan(counts);
      } catch (error) {
        if (this.#trouble.tellNow()) this.#options.report("error", `sweep failed: ${errorText(error)}`);
      }
    };
    this.#loops = [new Loop(clock, 0, () => every_ms * (0.9 + 0.2 * random()), sweep)];
    const schedules = new ScheduleLook(this.#options);
    const fire = async () => {
      // The sweeps report a store that can't be used.
      if ((await schedules.look().catch(() => 0)) > 0) onFired();
    };
    this.#loops.push(new Loop(clock, FIRST_FIRING_MS, () => schedules.delay_ms, fire));
    if (dead_every_ms === undefined) return;
    const look = async () => {
      try {
        const counts = await this.scanDead();
        if (counts !== null) onScan(counts);
      } catch {
        // The sweeps report a store that can't be used.
      }
    };
    const delay = () => dead_every_ms * Math.min(MOST_APART, Math.max(1, this.#live_here / LOOKERS));
    this.#loops.push(new Loop(clock, dead_every_ms, delay, look));
  }

  async stop(options: { wait?: boolean; timeout_ms?: number } = {}): Promise<void> {
    this.#statistics.running = false;
    const under_way = this.#loops.map((loop) => loop.end()).filter((work) => work !== null);
    if (options.wait === false || under_way.length === 0) return;
    await isSettledWithin(this.#options.clock, options.timeout_ms ?? 10_000, Promise.all(under_way));
  }

  /** One pass over everything. */
  async scan(): Promise<SweepCounts> {
    const dead = await this.#deadWorkers();
    const counts = await this.#recoverAll(dead, await this.#graceNow(), true);
    await fireSchedules(this.#options);
    await keepHouse(this.#options);
    this.#remember(counts);
    return counts;
  }

  /** Schedules whose time has come; answers how many jobs that made. */
  fireDue(): Promise<number> {
    return fireSchedules(this.#options);
  }

  /** Only what workers that died on this machine left behind: cheap enough for every second. */
  async scanDead(): Promise<SweepCounts | null> {
    const dead = await this.#deadWorkers();
    if (dead.length === 0) return null;
    const counts = await this.#recoverAll(dead, NEVER_MS, false);
    this.#remember(counts);
    return counts;
  }

  /** After a jump of the clock live workers get one interval to put their leases right; the dead are dead anyway. */
  async #graceNow(): Promise<number> {
    const { store, grace_ms, every_ms, report, machine_time = machineTime } = this.#options;
    if (!(await store.noticeClockJump(machine_time(), Math.max(every_ms, 2 * JUMP_TRUST_MS)))) return grace_ms;
    report("warn", "the clock was set ahead or the machine slept: leases that seem over are left to the next sweep");
    return NEVER_MS;
  }

  async #deadWorkers(): Promise<WorkerRecord[]> {
    const workers = await this.#options.store.workers({ live_on: host });
    const dead = workers.filter((worker) => isProvenDead(worker.process));
    this.#live_here = workers.length - dead.length;
    return dead;
  }

  /** `always`: it is told of also when there was nothing to do. */
  async #recoverAll(dead: readonly WorkerRecord[], grace_ms: number, always: boolean): Promise<SweepCounts> {
    const { store, clock } = this.#options;
    const { checkpoints = (await store.retention()).checkpoints } = this.#options;
    const started_ms = clock.mono_ms();
    const counts = noCounts();
    const dead_holders = dead.map(({ id }) => id);
    let [trusted_ms, after]: [number, { expires_at_ms: number; id: number } | null] = [grace_ms, null];
    for (;;) {
      const more = { after, limit: SWEEP_PAGE, last_chunks: checkpoints ? LAST_LINES : 0 };
      const found: ExpiredLease[] = await store.expired({ grace_ms: trusted_ms, dead_holders, ...more });
      // The clock may have been set since it was asked about, and before this look.
      if (found.some(({ holder_dead }) => !holder_dead)) trusted_ms = await this.#graceNow();
      const page = trusted_ms === NEVER_MS ? found.filter(({ holder_dead }) => holder_dead) : found;
      await this.#recoverPage(page, counts, checkpoints);
      const last = found.at(-1);
      if (last === undefined || found.length < SWEEP_PAGE) break;
      after = { expires_at_ms: last.expires_at_ms, id: last.job.id };
    }
    const here = dead.filter(({ id }) => !this.#left_to_others.delete(id));
    for (const worker of here) {
      removeBelongings(this.#options.store_url, worker.id);
      // Any number may find it at once; one of them says so.
      if (await store.buryWorker(worker.id)) this.#options.report("warn", `worker ${worker.id} died without a word`);
    }
    counts.scan_duration_ms = Math.round(clock.mono_ms() - started_ms);
    if (counts.expired_found > 0 || always) await store.noteRecovery(counts);
    return counts;
  }

  async #recoverPage(page: readonly ExpiredLease[], counts: SweepCounts, checkpoints: boolean): Promise<void> {
    if (page.length === 0) return;
    counts.expired_found += page.length;
    const requests: RecoverRequest[] = [];
    // One moment for all, so that the store finds many that end alike.
    const now_ms = await this.#options.store.now();
    const search = new LeftoverSearch(await this.#options.store.storeId(), this.#options.store_url);
    for (const lease of page) {
      try {
        if (isLeftToOthers(lease, search, now_ms)) {
          this.#left_to_others.add(lease.attempt.worker);
          continue;
        }
        counts.orphans_killed += await this.#clear(lease, search);
        const request = this.#decide(lease, now_ms, checkpoints);
        if (request !== null) requests.push(request);
      } catch (error) {
        counts.errors += 1;
        this.#tellOnce(lease, `could not be recovered: ${errorText(error)}`);
      }
    }
    await this.#write(requests, counts);
  }

  /** One that can't be written must not keep the others from it: they are then written one by one. */
  async #write(requests: readonly RecoverRequest[], counts: SweepCounts): Promise<void> {
    if (requests.length === 0) return;
    try {
      const answers = await this.#options.store.recover(requests);
      for (const [index, request] of requests.entries()) {
        if (answers[index] !== "recovered") continue;
        count(counts, request);
        this.#options.report("info", recoveredText(request), aboutRecovery(request));
      }
    } catch (error) {
      // Not about any of them: the others would only wait as long for the same answer.
      if (isStoreTrouble(error)) throw error;
      if (requests.length > 1) {
        for (const request of requests) await this.#write([request], counts);
        return;
      }
      counts.errors += 1;
      this.#options.report("error", `job ${requests[0]?.id} could not be recovered: ${errorText(error)}`);
    }
  }

  /** Nobody is killed for a lease that was put right since it was read; the write has a fence of its own. */
  async #isSame({ job, expires_at_ms }: ExpiredLease): Promise<boolean> {
    const [now] = await this.#options.store.jobs([job.id]);
    return now?.state.name === "running" && now.token === job.token && now.state.expires_at_ms === expires_at_ms;
  }

  /** Nothing of the old attempt may run when the next one starts. */
  async #clear(lease: ExpiredLease, search: LeftoverSearch): Promise<number> {
    const leftovers = leftoversOf(lease);
    if (leftovers === null) return 0;
    const stranger = search.stranger(leftovers);
    // One that is to be cancelled runs no more, whatever lives.
    if (stranger !== null && !isToBeCancelled(lease)) throw new LeaseError("store_corrupt", strangerText(stranger));
    const { killed, survivors } = await killLeftovers(leftovers, search, this.#options.clock, () =>
      this.#isSame(lease),
    );
    if (survivors.length > 0) this.#tellOnce(lease, `can't kill ${survivors.map(processText).join(", ")}`);
    return killed;
  }

  #tellOnce({ job: { id, token } }: ExpiredLease, text: string): void {
    const told = `job ${id}: ${text}`;
    if (this.#told.has(`${token} ${told}`)) return;
    this.#told.add(`${token} ${told}`);
    this.#options.report("error", told, { job: id, attempt: token, token });
  }

  #decide(lease: ExpiredLease, now_ms: number, checkpoints: boolean): RecoverRequest | null {
    const { random, grace_ms } = this.#options;
    const { job, attempt, expires_at_ms } = lease;
    const cause = lease.holder_dead ? "lost" : "expired";
    const change = transition(job, { type: "recover", cause, grace_ms }, { now_ms, random });
    if (isRefusal(change)) return null;
    const last_lines = lastLines(lease.last_chunks);
    const audit = {
      holder: attempt.worker,
      host: attempt.host,
      last_lines,
      granted_at_ms: attempt.started_at_ms,
      expires_at_ms,
    };
    return {
      id: job.id,
      token: job.token,
      change: withLastLine(change, last_lines.at(-1) ?? null),
      process: null,
      expires_at_ms,
      audit: checkpoints ? audit : null,
      hook: hookOf(job, change, last_lines),
    };
  }

  #remember(counts: SweepCounts): void {
    this.#statistics.total_scans += 1;
    this.#statistics.total_recovered += counts.recovered;
    this.#statistics.total_failed += counts.failed;
    this.#statistics.last_scan = counts;
    this.#options.report("debug", `swept: ${counts.expired_found} expired`, { event: "swept", ...counts });
  }
}

/** Of a job that ran on this machine. */
export function leftoversOf({ job, attempt }: ExpiredLease): Leftovers | null {
  if (attempt.host !== host) return null;
  return { job: job.id, before_token: job.token + 1, process: attempt.process };
}

/** Until its lease is over: then the enforcer of its worker has killed it. */
function isLeftToOthers(lease: ExpiredLease, search: LeftoverSearch, now_ms: number): boolean {
  const leftovers = leftoversOf(lease);
  return leftovers !== null && lease.holder_dead && now_ms <= lease.expires_at_ms && search.isOutOfSight();
}

function isToBeCancelled({ job: { state } }: ExpiredLease): boolean {
  return state.name === "running" && state.cancel_requested_at_ms !== null;
}

function strangerText(pid: number): string {
  return `damaged: its row names ${processText(pid)}, which is not the job's and was left alone`;
}

/** Work that is done again and again until it is ended, never twice at once. */
class Loop {
  #cancelTimer = () => {};
  #under_way: Promise<void> | null = null;
  #ended = false;

  constructor(clock: Clock, first_ms: number, next_ms: () => number, work: () => Promise<void>) {
    const after = (delay_ms: number) => {
      this.#cancelTimer = clock.after(delay_ms, () => {
        this.#under_way = work().then(() => {
          this.#under_way = null;
          if (!this.#ended) after(next_ms());
        });
      });
    };
    after(first_ms);
  }

  /** What of it is still under way. */
  end(): Promise<void> | null {
    this.#ended = true;
    this.#cancelTimer();
    return this.#under_way;
  }
}

/** Nobody can be asked about the attempt any more: what of its log reached the store must do. */
function lastLines(chunks: readonly LogChunk[]): string[] {
  if (chunks.length === 0) return [];
  const tail = new Tail();
  for (const chunk of chunks) tail.addChunk(chunk);
  return tail.lines(LAST_LINES);
}

function withLastLine(change: Change, last_line: string | null): Change {
  return last_line === null || change.ended === null ? change : { ...change, ended: { ...change.ended, last_line } };
}

function count(counts: SweepCounts, { change, audit }: RecoverRequest): void {
  if (change.state.name === "failed") counts.failed += 1;
  else if (change.state.name === "cancelled") counts.cancelled += 1;
  else counts.recovered += 1;
  if (audit !== null) counts.checkpoints_created += 1;
}

function recoveredText({ id, change: { state, ended, before } }: RecoverRequest): string {
  const whose = before.state.name === "running" ? ` of worker ${before.state.holder}` : "";
  return `job ${id}: attempt ${before.token}${whose} is over (${ended.error}), now ${state.name}`;
}

function aboutRecovery({ change: { state, ended, before } }: RecoverRequest): EventFields {
  return { event: "recovered", ...aboutJob(before), cause: ended.cause, state: state.name };
}

function noCounts(): SweepCounts {
  return {
    expired_found: 0,
    recovered: 0,
    failed: 0,
    cancelled: 0,
    checkpoints_created: 0,
    orphans_killed: 0,
    errors: 0,
    scan_duration_ms: 0,
  };
}
