/**
 * Room: how many more jobs may start, by all limits and by what the acquirer's machine has, and which of the waiting ones
 * do. Everything is counted from what runs and from recent starts, as the engine read them under its lock; nothing is
 * remembered, so nothing can drift.
 *
 * A job that does not fit is passed over, so that others fill the gap. One that has waited for long is not passed over
 * any more: what it needs is kept free for it, and those behind it in turn get only what is left. So a job that needs
 * much waits at most that long and for what runs then, however many small ones come.
 */

import {
  limitsOf,
  OPEN_GATE,
  readGate,
  type Gate,
  type Limit,
  type LimitSettings,
  type LimitUse,
} from "../../core/gate.ts";
import { sizeOf, type Needs, type Resources } from "../../core/resources.ts";
import type { SqlRow, SqlValue } from "../../platform/platform.ts";
import { resourcesSchema } from "./bounds.ts";
import { fromJson } from "./facts.ts";

/** Until then a job that does not fit lets others go first. */
const KEEP_FREE_AFTER_MS = 60_000;

/** A limit, and of one with a rate the starts that it still counts. */
interface LimitNow extends LimitSettings {
  started: number;
}

export interface RoomFacts {
  /** Asked for those names alone that matter, of which there may be very many; null: nothing bounds it. */
  limit: (name: string) => LimitNow | null;
  /** What runs, by queue and gate. */
  running: readonly GateCount[];
  /** What attempts that run on the acquirer's machine were given. */
  held: readonly Resources[];
}

export class Room {
  readonly #facts: RoomFacts;
  readonly #limits = new Map<string, Places | null>();
  /** By limit, how many of the jobs that run count for it. */
  readonly #running = new Map<string, number>();
  readonly #have: Resources;
  /** What is left of each resource: ids or an amount. */
  readonly #free = new Map<string, string[] | number>();
  /** What of the ids that are left is kept for somebody. */
  readonly #kept = new Map<string, number>();
  readonly #gates = new Map<string, Gate>();

  constructor(facts: RoomFacts, have: Resources) {
    this.#facts = facts;
    for (const { queue, gate, count } of facts.running) {
      for (const name of limitsOf(queue, this.#gate(gate))) {
        this.#running.set(name, (this.#running.get(name) ?? 0) + count);
      }
    }
    this.#have = have;
    for (const [name, has] of Object.entries(have)) {
      const taken = facts.held.flatMap((held) => (held[name] === undefined ? [] : [held[name]]));
      // Another worker of the machine may have declared an amount as ids: each counts as one.
      const amount = taken.reduce<number>((sum, given) => sum + sizeOf(given), 0);
      const ids = new Set(taken.flatMap((given) => (typeof given === "number" ? [] : given)));
      this.#free.set(name, typeof has === "number" ? has - amount : has.filter((id) => !ids.has(id)));
    }
  }

  isLimited(queue: string): boolean {
    return this.#limit(queue) !== null;
  }

  /** How many jobs of this queue at this gate its limits let start. */
  placesAt(queue: string, gate: string): number {
    return Math.min(...this.#limitsAt(queue, this.#gate(gate)).flatMap(({ slots, starts }) => [slots, starts]));
  }

  /** Whether a job of this queue at this gate may start now; of any queue, where none is named. */
  isOpen(queue: string | null, gate: string): boolean {
    const { limits, needs } = this.#gate(gate);
    return this.#limitsFit(queue, { limits }) && this.#needsFit(needs);
  }

  #limitsFit(queue: string | null, gate: Pick<Gate, "limits">): boolean {
    return this.#limitsAt(queue, gate).every(({ slots, starts }) => slots > 0 && starts > 0);
  }

  #needsFit(needs: Needs): boolean {
    return Object.entries(needs).every(([name, amount]) => this.#left(name) >= amount);
  }

  #left(name: string): number {
    const free = this.#free.get(name) ?? 0;
    return (typeof free === "number" ? free : free.length) - (this.#kept.get(name) ?? 0);
  }

  /** Takes what a job of it needs; answers what it is given. */
  take(queue: string, gate: string): Resources {
    const { limits, needs } = this.#gate(gate);
    for (const limit of this.#limitsAt(queue, { limits })) {
      limit.slots -= 1;
      limit.starts -= 1;
    }
    return Object.fromEntries(Object.entries(needs).map(([name, amount]) => [name, this.#give(name, amount)]));
  }

  #give(name: string, amount: number): readonly string[] | number {
    const free = this.#free.get(name) ?? 0;
    if (typeof free !== "number") return free.splice(0, amount);
    this.#free.set(name, free - amount);
    return amount;
  }

  /**
   * Keeps free what a job would need that has waited for long. Only where it is sensible: the machine has enough when
   * nothing else runs, and where limits are in the way it is because of what runs. A job that waits for both keeps
   * nothing back: a resource must not idle for the sake of a limit that may be full for hours.
   */
  keepFree(queue: string, gate: string): void {
    const { limits, needs } = this.#gate(gate);
    const needed = Object.entries(needs);
    if (!needed.every(([name, amount]) => sizeOf(this.#have[name]) >= amount)) return;
    const limited = this.#limitsAt(queue, { limits });
    if (limited.some(({ starts }) => starts <= 0)) return;
    if (needed.length > 0 && !limited.every(({ slots }) => slots > 0)) return;
    for (const limit of limited) limit.slots -= 1;
    for (const [name, amount] of needed) this.#kept.set(name, (this.#kept.get(name) ?? 0) + amount);
  }

  /** One that can't be read has nothing in its way: whoever is granted it sees what is wrong. */
  #gate(text: string): Gate {
    let gate = this.#gates.get(text);
    if (gate === undefined) this.#gates.set(text, (gate = readGate(text) ?? OPEN_GATE));
    return gate;
  }

  #limitsAt(queue: string | null, gate: Pick<Gate, "limits">) {
    const names = queue === null ? gate.limits : limitsOf(queue, gate);
    return names.flatMap((name) => this.#limit(name) ?? []);
  }

  #limit(name: string): Places | null {
    let places = this.#limits.get(name);
    if (places === undefined) {
      const limit = this.#facts.limit(name);
      places = limit === null ? null : placesOf(limit, this.#running.get(name) ?? 0);
      this.#limits.set(name, places);
    }
    return places;
  }
}

/** What is left of a limit. */
interface Places {
  slots: number;
  starts: number;
}

function placesOf({ most, rate, started }: LimitNow, running: number): Places {
  return { slots: (most ?? Infinity) - running, starts: rate === null ? Infinity : rate.count - started };
}

/** A job in line. */
export interface Waiting {
  id: number;
  queue: string;
  gate: string;
  priority: number;
  run_at_ms: number;
}

export interface Picked extends Waiting {
  held: Resources;
}

export interface Wanted {
  count: number;
  /** Of them, so many are to start at once: the others have to be of those that nothing bounds. */
  at_once: number;
  /** In order of preference; null: all, as one. */
  queues: readonly string[] | null;
  now_ms: number;
}

/** Whose turn is before another's. */
export function turnIn(queues: Wanted["queues"]): (a: Waiting, b: Waiting) => number {
  const rank = ({ queue }: Waiting) => (queues === null ? 0 : queues.indexOf(queue));
  return (a, b) => rank(a) - rank(b) || b.priority - a.priority || a.run_at_ms - b.run_at_ms || a.id - b.id;
}

/** Who is granted, in turn. `lines`: the first of each queue and gate, as many as may be wanted of it. */
export function pickInTurn(lines: readonly Waiting[], room: Room, wanted: Wanted): Picked[] {
  const inTurn = lines.toSorted(turnIn(wanted.queues));
  const picks: Picked[] = [];
  const kept = new Set<string>();
  let bounded = 0;
  for (const waiting of inTurn) {
    if (picks.length >= wanted.count) break;
    const { queue, gate, run_at_ms } = waiting;
    const is_bound = gate !== "" || room.isLimited(queue);
    if (is_bound && bounded >= wanted.at_once) continue;
    if (room.isOpen(queue, gate)) {
      picks.push({ ...waiting, held: room.take(queue, gate) });
      if (is_bound) bounded += 1;
    } else if (wanted.now_ms - run_at_ms >= KEEP_FREE_AFTER_MS && !kept.has(`${queue}\0${gate}`)) {
      kept.add(`${queue}\0${gate}`);
      room.keepFree(queue, gate);
    }
  }
  return picks;
}

/** How many jobs of a queue and gate run, or wait. */
export interface GateCount {
  queue: string;
  gate: string;
  count: number;
}

const countFor = (name: string, counts: readonly GateCount[]) =>
  counts
    .filter(({ queue, gate }) => limitsOf(queue, readGate(gate) ?? OPEN_GATE).includes(name))
    .reduce((sum, { count }) => sum + count, 0);

export function limitUse(
  limit: Limit,
  running: readonly GateCount[],
  waiting: readonly GateCount[],
  starts: Pick<LimitUse, "started" | "next_start_at_ms">,
): LimitUse {
  return { ...limit, running: countFor(limit.name, running), waiting: countFor(limit.name, waiting), ...starts };
}

export function toLimit(row: SqlRow): Limit {
  const [count, per_ms] = [row["rate_count"], row["rate_ms"]] as (number | null)[];
  const rate = count === null || per_ms === null ? null : { count: count as number, per_ms: per_ms as number };
  return { name: row["name"] as string, most: row["most"] as number | null, rate };
}

/** As it is kept with the job; what can't be read holds nothing. */
export function toHeld(text: SqlValue | undefined): Resources {
  return text === null || text === undefined || text === "{}" ? {} : (fromJson(resourcesSchema, text) ?? {});
}
