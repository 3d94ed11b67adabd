/**
 * What was tried of a job, and noted on the way: read again when the job has moved on, and now and then while it runs.
 * What is over stays as it was.
 */

import { isFinished, type Job } from "../../core/job.ts";
import type { AttemptRecord, Checkpoint } from "../../core/records.ts";
import type { Glance } from "../../store/store.ts";

interface Past {
  attempts: AttemptRecord[];
  checkpoints: Checkpoint[];
}

interface Known extends Past {
  of: string;
  until_ms: number;
}

const CHECKPOINTS = 100;
/** How many beats an attempt had is no news. */
const GOOD_FOR_MS = 2_000;
const OVER_FOR_MS = 30_000;
const MOST_KNOWN = 100;
const NOTHING: Past = { attempts: [], checkpoints: [] };

/** For a look at everything else of it. */
export const WITHOUT_PAST: Pick<Glance, "attempts" | "checkpoints"> = {
  attempts: async () => [],
  checkpoints: async () => [],
};

export class PastOfJobs {
  readonly #known = new Map<number, Known>();
  readonly #forget: (job: number) => void;

  /** `forget`: what is remembered of the answers about that job is too old. */
  constructor(forget: (job: number) => void) {
    this.#forget = forget;
  }

  /** Null: it has to be read. */
  known(job: Job, now_ms: number): Past | null {
    // Nobody ever had it.
    if (job.token === 0) return NOTHING;
    const known = this.#known.get(job.id);
    return known !== undefined && known.of === momentOf(job) && known.until_ms > now_ms ? known : null;
  }

  async read(store: Glance, job: Job, now_ms: number): Promise<Past> {
    let { attempts, checkpoints } = await ask(store, job);
    // They may have been read for somebody else a moment before the job was, which nobody may look at again.
    if (!agrees(job, attempts)) {
      this.#forget(job.id);
      ({ attempts, checkpoints } = await ask(store, job));
    }
    const until_ms = now_ms + (isFinished(job.state) ? OVER_FOR_MS : GOOD_FOR_MS);
    this.#known.delete(job.id);
    if (agrees(job, attempts)) this.#known.set(job.id, { of: momentOf(job), until_ms, attempts, checkpoints });
    for (const id of this.#known.keys()) if (this.#known.size > MOST_KNOWN) this.#known.delete(id);
    return { attempts, checkpoints };
  }
}

async function ask(store: Glance, { id }: Job): Promise<Past> {
  const [attempts, checkpoints] = await Promise.all([
    store.attempts(id),
    store.checkpoints({ job: id, limit: CHECKPOINTS }),
  ]);
  return { attempts, checkpoints };
}

/** What changes when an attempt begins or ends, or says how far it is. */
function momentOf({ token, state, progress }: Job): string {
  return `${token} ${state.name} ${progress ?? ""}`;
}

/** Whether both are of the same moment. */
function agrees({ token, state }: Job, attempts: readonly AttemptRecord[]): boolean {
  const last = attempts.at(-1);
  // A store that came from elsewhere may hold none.
  if (last === undefined) return isFinished(state);
  return last.token === token && (last.ended_at_ms === null) === (state.name === "running");
}
