/**
 * Random commands for a store, as plain data, so that a sequence that fails can be shrunk and read. A command names
 * jobs and grants by how recent they are; which ones those are is decided when it runs.
 */

import * as fc from "fast-check";
import type { JobChanges } from "../../src/core/changes.ts";
import { CAUSES, type Cause, type ShownState, STATE_NAMES } from "../../src/core/job.ts";
import { SORTS, type ListQuery, type PruneQuery } from "../../src/store/queries.ts";
import type { JobOverrides } from "../support/jobs.ts";

/** By how recent they are, and how they have to end. */
export type Parents = { recent: number; kind: "after" | "after_any" | "after_failed" }[];

/** `in_ms`: from when it runs. */
export interface Edit {
  do: "edit";
  jobs: number[];
  /** Out of which: all, those that wait, or of these such that another waits for, which is then named as well. */
  among: "all" | "waiting" | "awaited";
  changes: Omit<JobChanges, "when" | "parents">;
  when: { in_ms: number; by: "at" | "delay" } | null;
  parents: Parents | null;
  /** Which of them, if there are such. */
  parents_among: "all" | "waiting" | "ended";
}

export type Command =
  | { do: "enqueue"; jobs: (JobOverrides & { parents: Parents })[] }
  | { do: "acquire"; holder: string; queues: string[] | null; task: string | null; count: number; has_gpus: boolean }
  | { do: "limit"; name: string; most: number | null }
  | { do: "extend"; grant: number; expires_in_ms: number; beat_age_ms: number | null }
  | { do: "settle"; grant: number; cause: Cause; informed: boolean; ended_ago_ms: number }
  | { do: "checkpoint"; grant: number; text: string }
  | { do: "look"; grace_ms: number; dead_holders: string[] }
  | { do: "recover" }
  | { do: "cancel"; job: number; running: boolean; reason: string | null }
  | { do: "retry"; jobs: number[] }
  | Edit
  | { do: "acquireOne"; holder: string; job: number }
  | { do: "prune"; query: PruneQuery & { limit: number } }
  | { do: "list"; query: ListQuery; behind: number | null; ids: number[] | null }
  | { do: "promote" }
  | { do: "pass"; ms: number }
  | { do: "jump"; ms: number }
  | { do: "reopen" };

/**
 * Times that meet exactly try what happens in the very millisecond of an expiry. An engine with a clock of its own
 * can't meet it; there, leases end half-way between the steps of time.
 */
export function commandSequences(exact: boolean): fc.Arbitrary<Command[]> {
  const leases = exact ? [10_000, 20_000, 9_999] : [15_000, 25_000];
  const holders = fc.constantFrom("w1", "w2", "w3");
  const queue = fc.constantFrom("a", "b");
  const task = fc.constantFrom(null, null, "t");
  const recent = fc.nat({ max: 5 });

  const kind = fc.constantFrom("after" as const, "after" as const, "after_any" as const, "after_failed" as const);
  const parent = fc.record({ recent, kind });
  const parents = fc.array(parent, { maxLength: 2 });
  const jobs = fc
    .record({
      queue,
      task,
      key: fc.constantFrom(null, null, null, "k", "l"),
      if_exists: fc.constantFrom("skip" as const, "fail" as const, "replace" as const),
      priority: fc.integer({ min: -1, max: 1 }),
      delay_ms: fc.constantFrom(0, 0, 0, ...leases),
      retries: fc.integer({ min: 0, max: 2 }),
      retry_on: fc.constantFrom("any" as const, "any" as const, "lost" as const),
      lease_ms: fc.constantFrom(null, ...leases),
      parents: fc.oneof({ weight: 2, arbitrary: fc.constant<Parents>([]) }, { weight: 1, arbitrary: parents }),
      bound: fc.constantFrom<Partial<Pick<JobOverrides, "limits" | "needs">>>(
        {},
        {},
        { limits: ["x"] },
        { needs: { gpu: 1 } },
        { needs: { gpu: 2 } },
      ),
    })
    .map(({ retries, retry_on, lease_ms, bound, ...rest }) => ({
      ...rest,
      // No job counts for two limits here, so that the model needs to know of no places that are kept for such.
      ...(rest.queue === "b" ? bound : {}),
      settings: { retries, retry_on, lease_ms },
    }));

  const edit = edits(leases, recent, parents);
  const kinds: [number, fc.Arbitrary<Command>][] = [
    [4, command({ do: "enqueue", jobs: fc.array(jobs, { minLength: 1, maxLength: 2 }) })],
    [
      6,
      command({
        do: "acquire",
        holder: holders,
        queues: fc.constantFrom<string[] | null>(null, ["a"], ["a", "b"], ["b", "a"]),
        task,
        count: fc.integer({ min: 1, max: 3 }),
        has_gpus: fc.boolean(),
      }),
    ],
    [2, command({ do: "limit", name: fc.constantFrom("a", "x"), most: fc.constantFrom(null, 0, 1, 2) })],
    [
      3,
      command({
        do: "extend",
        grant: recent,
        expires_in_ms: fc.constantFrom(...leases),
        beat_age_ms: fc.constantFrom(null, 0, 1_000),
      }),
    ],
    [
      4,
      command({
        do: "settle",
        grant: recent,
        cause: fc.constantFrom(...CAUSES),
        informed: fc.boolean(),
        ended_ago_ms: fc.constantFrom(0, 5_000),
      }),
    ],
    [4, command({ do: "checkpoint", grant: recent, text: fc.string({ maxLength: 5 }) })],
    [
      2,
      command({
        do: "look",
        grace_ms: fc.constantFrom(0, 10_000),
        dead_holders: fc.subarray(["w1", "w2"], { maxLength: 1 }),
      }),
    ],
    [2, command({ do: "recover" })],
    [2, command({ do: "cancel", job: recent, running: fc.boolean(), reason: fc.constantFrom(null, "not needed") })],
    [3, command({ do: "retry", jobs: fc.array(recent, { minLength: 1, maxLength: 3 }) })],
    [3, command(edit)],
    // Of those that others wait for, and by what has ended: else few edits would end a job, let alone several.
    [4, command({ ...edit, among: fc.constant("awaited"), parents, parents_among: fc.constant("ended") })],
    [2, command({ do: "acquireOne", holder: holders, job: recent })],
    [2, command({ do: "prune", query: prunes(exact) })],
    [
      4,
      command({
        do: "list",
        query: lists(exact),
        behind: rarely(recent),
        ids: rarely(fc.array(recent, { maxLength: 4 })),
      }),
    ],
    [1, command({ do: "promote" })],
    [3, command({ do: "pass", ms: fc.constantFrom(10_000, 10_000, 20_000, ...(exact ? [1] : [])) })],
    [exact ? 1 : 0, command({ do: "jump", ms: fc.constantFrom(-3_600_000, -10_000, 3_600_000) })],
    [1, command({ do: "reopen" })],
  ];
  const any = fc.oneof(...kinds.map(([weight, arbitrary]) => ({ weight, arbitrary })));
  return fc.array(any, { minLength: 1, maxLength: 120, size: "max" });
}

const SHOWN: readonly ShownState[] = [...STATE_NAMES, "retrying", "cancelling"];

/** What is moved to the other queue keeps to what is bound there (see the jobs that are enqueued). */
function edits(
  leases: number[],
  recent: fc.Arbitrary<number>,
  parents: fc.Arbitrary<Parents>,
): Fields<Edit> & { do: "edit" } {
  const place = fc.constantFrom<Edit["changes"]>(
    {},
    {},
    { queue: "a", limits: [], needs: {} },
    { queue: "b" },
    { queue: "b", limits: ["x"], needs: {} },
    { queue: "b", limits: [], needs: { gpu: 1 } },
  );
  const settings = fc.record(
    { retries: fc.integer({ min: 0, max: 2 }), lease_ms: fc.constantFrom(null, ...leases) },
    { requiredKeys: [] },
  );
  const rest = fc.record(
    { priority: fc.integer({ min: -1, max: 1 }), task: fc.constantFrom(null, "t"), settings },
    { requiredKeys: [] },
  );
  const when = fc.record({
    in_ms: fc.constantFrom(0, 0, ...leases, -10_000),
    by: fc.constantFrom("at" as const, "delay" as const),
  });
  return {
    do: "edit",
    jobs: fc.array(recent, { minLength: 1, maxLength: 3 }),
    among: fc.constantFrom("all" as const, "waiting" as const, "awaited" as const, "awaited" as const),
    changes: fc.tuple(place, rest).map(([moved, changed]) => ({ ...moved, ...changed })),
    when: rarely(when),
    parents: fc.option(parents, { freq: 4 }),
    parents_among: fc.constantFrom("all" as const, "waiting" as const, "ended" as const, "ended" as const),
  };
}

/** Which of two jobs that ended in the same moment is the older one, only an exact clock can tell. */
function prunes(exact: boolean): fc.Arbitrary<PruneQuery & { limit: number }> {
  return fc.record(
    {
      older_than_ms: fc.constantFrom(0, exact ? 10_000 : 5_000),
      states: fc.subarray(["completed" as const, "failed" as const, "cancelled" as const], { minLength: 1 }),
      limit: exact ? fc.integer({ min: 1, max: 3 }) : fc.constant(1_000),
      queues: fc.constantFrom(["a"], ["b", "a"]),
      task: fc.constant("t"),
    },
    { requiredKeys: ["older_than_ms", "states", "limit"] },
  );
}

function rarely<T>(some: fc.Arbitrary<T>): fc.Arbitrary<T | null> {
  return fc.oneof({ weight: 3, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: some });
}

const FILTERS = ["states", "queues", "task", "key", "holder"] as const;

/** Few conditions at a time: all of them together would leave nothing to put in order. */
function lists(exact: boolean): fc.Arbitrary<ListQuery> {
  const sorts = SORTS.filter((sort) => exact || sort === "id" || sort === "priority" || sort === "attempts");
  const filters = fc.record({
    states: fc.subarray([...SHOWN], { minLength: 1 }),
    queues: fc.constantFrom(["a"], ["b", "a"]),
    task: fc.constant("t"),
    key: fc.constantFrom("k", "l"),
    holder: fc.constantFrom("w1", "w2"),
  });
  const rest = fc.record({
    sort: fc.constantFrom(...sorts),
    limit: fc.constantFrom(1, 3, 1_000),
    newest_first: fc.boolean(),
  });
  return fc
    .tuple(filters, rest, fc.subarray([...FILTERS], { maxLength: 2 }))
    .map(([all, query, kept]) => ({ ...query, ...Object.fromEntries(kept.map((name) => [name, all[name]])) }));
}

type Fields<C extends Command> = { [K in keyof C]: K extends "do" ? C[K] : fc.Arbitrary<C[K]> };

function command<N extends Command["do"]>(
  fields: Fields<Extract<Command, { do: N }>> & { do: N },
): fc.Arbitrary<Command> {
  const { do: name, ...rest } = fields;
  return fc.record({ ...rest, do: fc.constant(name) }) as unknown as fc.Arbitrary<Command>;
}
