/**
 * A job that is a function of the worker's own program: what such a handler is given to prove its work, to say how far
 * it is and to leave notes. All of it is the lease's: once the attempt is over, or was lost, it says nothing any more.
 */

import type { Clock } from "../core/clock.ts";
import { checkCheckpoint, checkMessage } from "../core/check_job.ts";
import { LeaseError } from "../core/errors.ts";
import type { JobNote } from "../leasing/extender.ts";
import type { Heartbeat } from "../leasing/heartbeat.ts";
import type { Lease } from "../leasing/lease.ts";
import type { LeaseManager } from "../leasing/manager.ts";
import { HandlerRun, outputText, type HandlerEvents } from "../runner/handler.ts";

/** Runs one attempt; what it returns is the job's result. */
export interface Handling {
  run(tools: HandlerTools): unknown;
  /** Ends by force what a signal can't reach; none where it can't be ended. */
  kill?: (tools: HandlerTools) => void;
}

export interface HandlerGround {
  lease: Lease;
  manager: LeaseManager;
  heartbeat: Heartbeat;
  /** Written with the next extension of the lease, which comes soon for it. */
  tell(note: JobNote): void;
}

/** What a handler has; each of it may be taken out and used by itself. */
export class HandlerTools {
  readonly lease: Lease;
  readonly #context: HandlerGround;
  readonly #print: (text: string) => void;
  #run: HandlerRun | null = null;

  constructor(context: HandlerGround, print: (text: string) => void) {
    this.lease = context.lease;
    this.#context = context;
    this.#print = print;
  }

  began(run: HandlerRun): this {
    this.#run = run;
    return this;
  }

  get #over(): boolean {
    return this.#run?.exited ?? true;
  }

  /** Aborts when the job has to end, with the cause as its reason. */
  get signal(): AbortSignal {
    if (this.#run === null) throw new LeaseError("misuse", "the job has not begun");
    return this.#run.signal;
  }

  /** The job works. */
  readonly beat = (): void => {
    if (!this.#over) this.#context.heartbeat.beat();
  };

  /** How far it is, in percent, and what it is doing; a beat too. */
  readonly progress = (percent: number, message?: string): void => {
    if (!(percent >= 0 && percent <= 100)) {
      throw new LeaseError("usage", `progress ${percent} is not a percentage from 0 to 100`);
    }
    if (message !== undefined) checkMessage(message);
    if (this.#over) return;
    this.#context.heartbeat.beat();
    this.#context.tell({ progress: percent, message: message ?? null });
  };

  /** Notes how far it is, for the next attempt, and resolves when that is on disk. Rejects when the lease is lost. */
  readonly checkpoint = async (value: unknown): Promise<void> => {
    const { lease, manager, heartbeat } = this.#context;
    const text = outputText(value) ?? "null";
    checkCheckpoint(text);
    if (this.#over) throw lost(lease);
    heartbeat.beat();
    const [answer] = await manager.store.checkpoint([{ id: lease.job.id, token: lease.token, text }]);
    if (answer !== "accepted") throw lost(lease);
  };

  /** A line in the job's log, and by that a beat, unless the job counts only others. */
  readonly log = (...words: readonly unknown[]): void => {
    if (!this.#over) this.#print(words.map((word) => outputText(word) ?? String(word)).join(" "));
  };
}

function lost({ job, token }: Lease): LeaseError {
  return new LeaseError(
    "lease_lost",
    `attempt ${token} of job ${job.id} is over: nothing that it says counts any more`,
  );
}

const encoder = new TextEncoder();

export function runHandler(handling: Handling, context: HandlerGround, clock: Clock, events: HandlerEvents) {
  const tools = new HandlerTools(context, (text) => events.printed("stdout", encoder.encode(`${text}\n`)));
  const { kill } = handling;
  const call = {
    call: (run: HandlerRun) => handling.run(tools.began(run)),
    ...(kill === undefined ? {} : { kill: () => kill(tools) }),
    output_limit_bytes: context.lease.job.settings.output_limit_bytes,
  };
  return new HandlerRun(call, clock, events);
}
