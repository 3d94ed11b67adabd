/**
 * Fires what is due: each time of a schedule becomes one job, however many look. The store takes a time only while it is
 * the schedule's next, and writes the job and the time after it in one transaction; who comes second finds it gone.
 */

import type { Random } from "../core/clock.ts";
import { errorText } from "../core/errors.ts";
import type { Report } from "../core/report.ts";
import { dueTimes, jobAt, mayBeDue, rewound } from "../core/schedule.ts";
import type { Store } from "../store/store.ts";
import { timesOf } from "./schedule_times.ts";

export interface FiringOptions {
  store: Store;
  random: Random;
  report: Report;
}

/** Answers how many jobs were made. */
export async function fireSchedules({ store, random, report }: FiringOptions): Promise<number> {
  const due_ms = await store.nextSchedule();
  const begun_ms = due_ms === null ? 0 : await store.now();
  if (due_ms === null || due_ms > begun_ms) return 0;
  let made = 0;
  // Of many only a few are due.
  const concerned = (await store.schedules()).filter((schedule) => mayBeDue(schedule, begun_ms));
  for (const schedule of concerned) {
    try {
      const now_ms = await store.now();
      const next = await timesOf(schedule);
      const back = rewound(schedule, next, now_ms);
      if (back !== null) await store.rewindSchedule(schedule, back);
      const due = back === null ? dueTimes(schedule, next, now_ms) : null;
      if (due === null) continue;
      const jobs = due.at_ms.map((at_ms) => ({ at_ms, job: jobAt(schedule, at_ms, random()) }));
      const fired = await store.fire(schedule, jobs, due.next_at_ms);
      made += fired ?? 0;
    } catch (error) {
      // One that can't be fired must not keep the others from it.
      report("error", `schedule ${schedule.name} could not be fired: ${errorText(error)}`);
    }
  }
  return made;
}

/** The longest time after which a new schedule is noticed, and the shortest between two looks. */
const LOOK_EVERY_MS = 5_000;
const SHORTEST_MS = 20;

/** Whoever looks again and again is there when the next time comes, and learns of new schedules now and then. */
export class ScheduleLook {
  readonly #options: FiringOptions;
  /** Until the next look. */
  delay_ms = LOOK_EVERY_MS;

  constructor(options: FiringOptions) {
    this.#options = options;
  }

  /** Fires what is due; answers how many jobs that made. */
  async look(): Promise<number> {
    const { store } = this.#options;
    this.delay_ms = LOOK_EVERY_MS;
    const made = await fireSchedules(this.#options);
    const due_ms = await store.nextSchedule();
    const left_ms = due_ms === null ? 0 : due_ms - (await store.now());
    // What is due and yet was not fired is in trouble, and not worth a look every moment.
    if (left_ms > 0) this.delay_ms = Math.min(LOOK_EVERY_MS, Math.max(SHORTEST_MS, left_ms));
    return made;
  }
}
