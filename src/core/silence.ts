/**
 * What the silence watch of a running job has to do next, and when. Pure: the watch asks after every event and sleeps until
 * the answer.
 *
 *   last beat ─────────── half of what it has left: warn ─────────── shortly before its end: ask for the time that stopping takes
 *             ─────────── the end: stop the job as silent
 *
 * Above all of it stands the fence: a holder that could not renew kills the job before its lease is over.
 */

export interface SilenceState {
  /** All on the monotonic clock. */
  now_ms: number;
  last_beat_ms: number;
  /** When the holder must not act any more. */
  deadline_ms: number;
  timeout_at_ms: number | null;
  lease_ms: number;
  /** What a beat adds; the lease, unless it is less. */
  extension_ms?: number;
  /** It is not silent before: the lease was granted until then. */
  granted_until_ms?: number;
  warned: boolean;
  /** The closing extension was asked for since the last beat. */
  closing_asked: boolean;
  /** Somebody has already told the job to end. */
  stopping: boolean;
  /** The store is being asked for beats that others saw: silence is not judged before it answers. */
  asking?: boolean;
}

export type Duty = "warn" | "ask_closing" | "stop_silent" | "stop_timeout" | "kill_fenced";

/** Room that the kill itself needs before the end of a lease, or of what a beat adds where that is less. */
export function fenceMargin(lease_ms: number): number {
  return Math.min(500, lease_ms / 20);
}

/** How long before the end of its budget a silent job's closing extension is asked for. */
export function closingMargin(lease_ms: number): number {
  return Math.min(5_000, lease_ms / 5);
}

/** When the budget of a job without another beat is used up. */
export function silentAt(
  state: Pick<SilenceState, "last_beat_ms" | "lease_ms" | "extension_ms" | "granted_until_ms">,
): number {
  const { last_beat_ms, lease_ms, extension_ms = lease_ms, granted_until_ms = -Infinity } = state;
  return Math.max(last_beat_ms + extension_ms, granted_until_ms);
}

export function nextDuty(state: SilenceState): { duty: Duty; at_ms: number } {
  const { last_beat_ms, lease_ms, extension_ms = lease_ms } = state;
  const silent_at_ms = silentAt(state);
  const fence = { duty: "kill_fenced" as const, at_ms: state.deadline_ms - fenceMargin(extension_ms) };
  // After a pause of the whole worker everything is overdue at once, and only this can't wait.
  if (state.now_ms >= fence.at_ms) return fence;
  const duties: { duty: Duty; at_ms: number }[] = [fence];
  if (!state.stopping && state.timeout_at_ms !== null) {
    duties.push({ duty: "stop_timeout", at_ms: state.timeout_at_ms });
  }
  if (!state.stopping && state.asking !== true) {
    if (!state.warned) duties.push({ duty: "warn", at_ms: (last_beat_ms + silent_at_ms) / 2 });
    if (!state.closing_asked) duties.push({ duty: "ask_closing", at_ms: silent_at_ms - closingMargin(extension_ms) });
    else duties.push({ duty: "stop_silent", at_ms: silent_at_ms });
  }
  return duties.reduce((first, duty) => (duty.at_ms < first.at_ms ? duty : first));
}
