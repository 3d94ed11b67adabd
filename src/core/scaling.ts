/** How many slots a worker should have. Pure: the worker tells what it sees and does what this says. */

export interface Scaling {
  min: number;
  max: number;
  /** A slot more when so many jobs wait. */
  up_at: number;
  /** A slot less when one has been idle for so long. */
  down_after_ms: number;
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
