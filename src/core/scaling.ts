/** How many slots a worker should have. Pure: the worker tells what it sees and does what this says. */

import { LeaseError } from "./errors.ts";

export interface Scaling {
  min: number;
  max: number;
  /** A slot more when so many jobs wait. */
  up_at: number;
  /** A slot less when one has been idle for so long. */
  down_after_ms: number;
}

/** The most that a worker can have. */
export const MOST_SLOTS = 10_000;

export type ScalingOption = "slots" | "min" | "max" | "scale_up_at" | "scale_down_after";

/** Null: a fixed number of slots. `spell` is how an error calls an option. */
export function scalingOf(
  given: Readonly<Partial<Record<ScalingOption, number | undefined>>>,
  spell: (option: ScalingOption) => string,
): Scaling | null {
  const { slots, min = 1, max, scale_up_at = 5, scale_down_after = 300_000 } = given;
  const alone = (["min", "scale_up_at", "scale_down_after"] as const).find((option) => given[option] !== undefined);
  if (alone === undefined && max === undefined) return null;
  if (slots !== undefined && (given.min !== undefined || max !== undefined)) {
    const both = `leave it out with ${spell("min")} and ${spell("max")}`;
    throw new LeaseError("usage", `${spell("slots")} is a fixed number of slots: ${both}`);
  }
  if (max === undefined) {
    const needs = `needs ${spell("max")}: say between how many slots to scale`;
    throw new LeaseError("usage", `${spell(alone ?? "min")} ${needs}`);
  }
  if (min > max) {
    throw new LeaseError(
      "usage",
      `${spell("min")} ${min} is more than ${spell("max")} ${max}: slots go from min up to max`,
    );
  }
  return { min, max, up_at: scale_up_at, down_after_ms: scale_down_after };
}

export function nextSlots(scaling: Scaling, seen: { slots: number; pending: number; idle_ms: number }): number {
  const { min, max, up_at, down_after_ms } = scaling;
  if (seen.slots < max && seen.pending >= up_at) return seen.slots + 1;
  if (seen.slots > min && seen.idle_ms >= down_after_ms) return seen.slots - 1;
  return seen.slots;
}

/** What the slots of a worker do: a draining worker's busy slots end after their job, its free ones have ended. */
export interface SlotStates {
  total: number;
  idle: number;
  processing: number;
  draining: number;
  stopped: number;
}

export function slotStates(total: number, busy: number, accepting: boolean): SlotStates {
  const free = Math.max(0, total - busy);
  return accepting
    ? { total, idle: free, processing: busy, draining: 0, stopped: 0 }
    : { total, idle: 0, processing: 0, draining: busy, stopped: free };
}
