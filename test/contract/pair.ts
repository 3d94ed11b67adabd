/** A store and its reference: each command is given to both, and they must answer and then hold the same. */

import { expect } from "bun:test";
import type { JobChanges } from "../../src/core/changes.ts";
import { LeaseError } from "../../src/core/errors.ts";
import { WAITED_FOR, type Job, type NewJob } from "../../src/core/job.ts";
import { isRefusal, transition } from "../../src/core/transition.ts";
import type { AcquireRequest, RecoverRequest, Store } from "../../src/store/store.ts";
import { end, newJob } from "../support/jobs.ts";
import type { Command, Edit, Parents } from "./commands.ts";
import { Reference } from "./reference.ts";
import { acquireRequest, only, type Opened } from "./subject.ts";

const RANDOM = (): number => 0.5;

/** 0 is the newest of the list, 1 the one before, and so on, round and round. */
function pick<T>(list: readonly T[], recent: number): T | undefined {
  return list.at(-1 - (recent % list.length));
}

function codeOfRefusal(error: unknown): string {
  if (error instanceof LeaseError) return error.code;
  throw error;
}

type Asked = Pick<AcquireRequest, "holder" | "queues" | "task" | "count" | "job"> & { has_gpus?: boolean };

const EVERYTHING = { queues: null, task: null, count: 1 };

export class Pair {
  readonly #opened: Opened;
  readonly #met: Set<string>;
  readonly #model = new Reference();
  readonly #grants: Job[] = [];
  #store: Store;
  #looked: RecoverRequest[] = [];

  constructor(opened: Opened, met: Set<string>) {
    this.#opened = opened;
    this.#met = met;
    this.#store = opened.store;
  }

  async run(command: Command): Promise<void> {
    this.#model.now_ms = await this.#store.now();
    await this.#do(command);
    await this.#compare();
  }

  async #do(command: Command): Promise<void> {
    switch (command.do) {
      case "enqueue":
        return this.#enqueue(command.jobs);
      case "acquire":
        await this.#acquire(command);
        return;
      case "limit": {
        const { name, most } = command;
        this.#model.setLimit(name, most);
        await this.#store.setLimit(name, most === null ? null : { most, rate: null });
        return;
      }
      case "extend":
        return this.#withGrant(command.grant, async ({ id, token }) => {
          const request = {
            id,
            token,
            beats: 0,
            expires_in_ms: command.expires_in_ms,
            beat_age_ms: command.beat_age_ms,
          };
          const answer = only(await this.#store.extend([request]));
          const asked = answer.status === "extended" && answer.cancel_requested;
          this.#same("extend", asked ? "extended, cancel requested" : answer.status, this.#model.extend(request));
        });
      case "settle":
        return this.#withGrant(command.grant, (granted) => this.#settle(granted, command));
      case "checkpoint":
        return this.#withGrant(command.grant, async ({ id, token }) => {
          const request = { id, token, text: command.text };
          this.#same("checkpoint", only(await this.#store.checkpoint([request])), this.#model.checkpoint(request));
        });
      case "look":
        return this.#look(command);
      case "recover":
        return this.#recover();
      case "cancel":
        return this.#withJob(command.job, command.running, async (id) => {
          const { status } = only(await this.#store.cancel([id], command.reason));
          this.#same("cancel", status, this.#model.cancel(id, command.reason));
        });
      case "retry":
        return this.#retry(command.jobs);
      case "edit":
        return this.#edit(command);
      case "acquireOne":
        return this.#withJob(command.job, false, async (job) => {
          const granted = await this.#acquire({ ...EVERYTHING, holder: command.holder, job });
          this.#met.add(`acquire one ${granted > 0 ? "granted" : "refused"}`);
        });
      case "prune":
        return this.#prune(command.query);
      case "list":
        return this.#list(command);
      case "promote":
        return this.#same("promote", String(await this.#store.promote()), String(this.#model.promote()));
      case "pass":
        return this.#opened.passTime(command.ms);
      case "jump":
        return this.#opened.jumpTime?.(command.ms);
      case "reopen":
        await this.#store.close();
        this.#store = await this.#opened.reopen();
    }
  }

  #same(verb: string, answer: string, expected: string): void {
    this.#met.add(`${verb} ${answer}`);
    expect(`${verb} ${answer}`).toBe(`${verb} ${expected}`);
  }

  async #withGrant(recent: number, body: (granted: Job) => Promise<void>): Promise<void> {
    const granted = pick(this.#grants, recent);
    if (granted) await body(granted);
  }

  async #withJob(recent: number, running: boolean, body: (id: number) => Promise<void>): Promise<void> {
    const jobs = [...this.#model.jobs.values()].filter(({ state }) => !running || state.name === "running");
    const job = pick(jobs, recent);
    if (job) await body(job.id);
  }

  /** One batch by one: what a batch as a whole does is the suite's business. */
  async #enqueue(asked: Extract<Command, { do: "enqueue" }>["jobs"]): Promise<void> {
    for (const { parents, ...given } of asked) {
      const job = newJob({ ...given, ...this.#parents(parents) });
      const plan = this.#model.plan(job);
      const answer = await this.#store.enqueue([job]).then(only, codeOfRefusal);
      if (typeof answer === "string") {
        this.#same("enqueue", answer, "error" in plan ? plan.error : "accepted");
        continue;
      }
      const existing = "id" in plan && plan.id !== null;
      this.#same("enqueue", answer.created ? "created" : "existing", existing ? "existing" : "created");
      if (existing) expect(answer.id).toBe(plan.id as number);
      else {
        expect(answer.id).toBeGreaterThan(this.#model.newest_id);
        this.#model.add(answer.id, job);
      }
    }
  }

  /** Each of them in one way only. */
  #parents(
    asked: Parents,
    candidates: readonly number[] = [...this.#model.jobs.keys()],
  ): Pick<NewJob, "after" | "after_any" | "after_failed"> {
    const ids = { after: [] as number[], after_any: [] as number[], after_failed: [] as number[] };
    const seen = new Set<number>();
    for (const { recent, kind } of asked) {
      const id = pick(candidates, recent);
      if (id === undefined || seen.has(id)) continue;
      seen.add(id);
      ids[kind].push(id);
    }
    return ids;
  }

  /** Each of them once. */
  #known(recent: readonly number[], known: readonly number[] = [...this.#model.jobs.keys()]): number[] {
    return [...new Set(recent.map((one) => pick(known, one) ?? 0))].filter((id) => id > 0);
  }

  async #retry(recent: readonly number[]): Promise<void> {
    const ids = this.#known(recent);
    const answers = await this.#store.retry(ids);
    const expected = this.#model.retry(ids);
    for (const [index, { status }] of answers.entries()) this.#same("retry", status, expected[index] ?? "nothing");
  }

  async #edit(command: Edit): Promise<void> {
    const ids = this.#toEdit(command);
    const changes = this.#changes(command);
    const states = () => new Map([...this.#model.jobs].map(([id, { state }]) => [id, state.name]));
    const before = states();
    const answers = await this.#store.edit(ids, changes).catch(codeOfRefusal);
    expect(answers).toEqual(this.#model.edit(ids, changes));
    const statuses = typeof answers === "string" ? [answers] : answers.map(({ status }) => status);
    for (const status of statuses) this.#met.add(`edit ${status}`);
    for (const [id, state] of states()) {
      if (state === before.get(id)) continue;
      const status = statuses[ids.indexOf(id)] ?? "one that waits for it";
      this.#met.add(`edit ${status}, ${state}`);
    }
  }

  #toEdit({ jobs, among }: Edit): number[] {
    if (among !== "awaited") return this.#known(jobs, this.#model.ids(among));
    const first = pick(this.#model.ids("awaited"), jobs[0] ?? 0);
    return first === undefined
      ? this.#known(jobs, this.#model.ids("waiting"))
      : [first, ...this.#known(jobs.slice(1), this.#model.blockedBy(first))];
  }

  #changes({ changes, when, parents, parents_among }: Edit): JobChanges {
    const such = this.#model.ids(parents_among);
    const candidates = such.length > 0 ? such : this.#model.ids("waiting");
    const at_ms = when?.by === "at" ? this.#model.now_ms + when.in_ms : null;
    return {
      ...changes,
      ...(when === null ? {} : { when: { run_at_ms: at_ms, delay_ms: at_ms === null ? Math.max(0, when.in_ms) : 0 } }),
      ...(parents === null ? {} : { parents: { ...this.#parents(parents, candidates), after_task: [] } }),
    };
  }

  async #acquire({ holder, queues, task, count, job: id, has_gpus = false }: Asked): Promise<number> {
    const one = { ...(id === undefined ? {} : { job: id }), ...(has_gpus ? { have: { gpu: ["0", "1"] } } : {}) };
    const request = acquireRequest({ holder, queues, task, count, lease_ms: 20_000, ...one });
    const grants = await this.#store.acquire(request);
    const answered = grants.map(({ job, checkpoint, held }) => ({ id: job.id, token: job.token, checkpoint, held }));
    expect(answered as unknown).toEqual(this.#model.acquire(request));
    for (const { job, checkpoint, held } of grants) {
      this.#grants.push(job);
      if (job.limits.length > 0) this.#met.add("acquire limited");
      if ("gpu" in held) this.#met.add("acquire with a resource");
      this.#met.add("acquire granted");
      if (checkpoint !== null) this.#met.add("acquire with checkpoint");
    }
    return grants.length;
  }

  /** A worker decides by what it was granted or, when informed, by the job as it is now. */
  async #settle(granted: Job, { cause, informed, ended_ago_ms }: Extract<Command, { do: "settle" }>): Promise<void> {
    const { id, token } = granted;
    const now = only(await this.#store.jobs([id]));
    const known = informed && now?.token === token && now.state.name === "running" ? now : granted;
    const ended_at_ms = this.#model.now_ms - ended_ago_ms;
    const event = { type: "settle", token, end: end(cause), ended_at_ms } as const;
    const change = transition(known, event, { now_ms: this.#model.now_ms, random: RANDOM });
    if (isRefusal(change)) throw new Error(`core refused to settle: ${change.refused}`);
    const request = { id, token, change, ended_at_ms, process: null, audit: null };
    const answer = only(await this.#store.settle([request]));
    const said = answer.status === "stale" ? `stale, ${answer.reason}` : answer.status;
    this.#same("settle", said, this.#model.settle(request));
  }

  /** The first half of a sweep; whatever comes before the second half must be noticed there. */
  async #look({ grace_ms, dead_holders }: Extract<Command, { do: "look" }>): Promise<void> {
    const query = { grace_ms, dead_holders, after: null, limit: 1_000 };
    const found = await this.#store.expired(query);
    expect(found.map(({ job }) => job.id)).toEqual(this.#model.expired(query));
    this.#looked = found.flatMap(({ job, expires_at_ms, holder_dead }) => {
      const event = { type: "recover", cause: holder_dead ? "lost" : "expired", grace_ms } as const;
      const change = transition(job, event, { now_ms: this.#model.now_ms, random: RANDOM });
      return isRefusal(change)
        ? []
        : [{ id: job.id, token: job.token, expires_at_ms, change, process: null, audit: null }];
    });
    expect(this.#looked).toHaveLength(found.length);
  }

  async #recover(): Promise<void> {
    const answers = await this.#store.recover(this.#looked);
    for (const [index, request] of this.#looked.entries()) {
      this.#same("recover", answers[index] ?? "nothing", this.#model.recover(request));
    }
  }

  async #prune(query: Extract<Command, { do: "prune" }>["query"]): Promise<void> {
    const announced = (await this.#store.prunable(query)).reduce((sum, { count }) => sum + count, 0);
    const { count: gone } = await this.#store.prune(query);
    expect(gone).toBe(this.#model.prune(query));
    expect(gone).toBe(Math.min(announced, query.limit));
    this.#met.add(`prune ${gone > 0 ? "some" : "none"}`);
  }

  async #list({ query, behind, ids }: Extract<Command, { do: "list" }>): Promise<void> {
    const known = [...this.#model.jobs.keys()];
    const behind_id = behind === null ? undefined : pick(known, behind);
    const asked = {
      ...query,
      ...(behind_id === undefined ? {} : { behind_id }),
      ...(ids === null ? {} : { ids: ids.map((recent) => pick(known, recent) ?? 0) }),
    };
    const found = (await this.#store.list(asked)).map(({ id }) => id);
    expect(found).toEqual(this.#model.list(asked));
    this.#met.add(`list ${found.length > 1 ? "several" : found.length > 0 ? "one" : "none"}`);
  }

  async #compareFigures(): Promise<void> {
    const counts = (await this.#store.counts()).filter(({ count }) => count > 0);
    const selected = await this.#store.counts({ queues: ["a", "b"] });
    const retries = await this.#store.retryCounts();
    const named = (list: typeof counts) => list.map(({ queue, state, count }) => [`${queue} ${state}`, count]);
    expect({
      counts: Object.fromEntries(named(counts)),
      retries: Object.fromEntries(retries.map(({ retries: times, jobs }) => [times, jobs])),
    }).toEqual(this.#model.figures());
    expect(named(selected).toSorted()).toEqual(named(counts).toSorted());
  }

  async #compare(): Promise<void> {
    await this.#compareFigures();
    const uses = (await this.#store.limits()).map(({ name, most, running, waiting }) => ({
      name,
      most,
      running,
      waiting,
    }));
    expect(uses).toEqual(this.#model.limits());
    if (uses.some(({ most, running }) => most !== null && running > most))
      this.#met.add("limit lowered below what runs");
    if (uses.some(({ most, running }) => most === running)) this.#met.add("limit full");
    const ids = [...this.#model.jobs.keys()];
    const view = (job: Job | null): unknown => {
      if (!job) return null;
      const { id, state, token, failures, result, run_at_ms } = job;
      const { queue, task, priority, settings, limits, needs } = job;
      const asked = { queue, task, priority, settings, limits, needs };
      const made_up = [/^replaced/, new RegExp(WAITED_FOR)].find((text) => text.test(job.reason ?? ""));
      const reason = made_up === undefined ? job.reason : made_up.source;
      const inexact = this.#opened.slack_ms > 0;
      return {
        id,
        token,
        failures,
        result,
        reason,
        asked,
        ...(inexact ? { state: state.name } : { state, run_at_ms }),
      };
    };
    expect((await this.#store.jobs(ids)).map(view)).toEqual([...this.#model.jobs.values()].map(view));
    const links = await this.#store.links(ids);
    expect(links.map(({ job, parent }) => `${job} ${parent}`).toSorted()).toEqual(this.#model.links().toSorted());
    for (const [id, attempts] of this.#model.attempts) {
      const stored = await this.#store.attempts(id);
      expect(stored.map(({ token, worker, end: ended }) => ({ token, worker, cause: ended?.cause ?? null }))).toEqual(
        attempts,
      );
    }
    const asked = await this.#store.cancelRequests("w1");
    expect(asked.map(({ id, token }) => `${id} ${token}`).toSorted()).toEqual(
      this.#model.cancelRequests("w1").toSorted(),
    );
  }
}
