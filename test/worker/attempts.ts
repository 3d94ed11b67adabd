/** Attempts with real children on a store and a clock that the test owns. */

import { test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { calibrate } from "../../src/core/calibration.ts";
import type { Job } from "../../src/core/job.ts";
import type { Lease } from "../../src/leasing/lease.ts";
import { LeaseManager } from "../../src/leasing/manager.ts";
import { host } from "../../src/platform/machine.ts";
import { Attempt } from "../../src/worker/attempt.ts";
import type { AttemptOptions } from "../../src/worker/attempt_options.ts";
import { Enforcer } from "../../src/runner/enforcer.ts";
import { Fences } from "../../src/runner/fence.ts";
import { LogFlusher } from "../../src/worker/log_flusher.ts";
import type { LogCapture } from "../../src/runner/log/capture.ts";
import { decodeChunk } from "../../src/runner/log/chunk.ts";
import { Scratch } from "../../src/runner/scratch.ts";
import type { Store } from "../../src/store/store.ts";
import { Bench, intercept, LEASE_MS } from "../leasing/fixture.ts";
import type { JobOverrides } from "../support/jobs.ts";
import { linesFor } from "../support/reports.ts";

/** Tells when something was printed: output arrives in its own time. */
class ListeningFlusher extends LogFlusher {
  #bytes = 0;
  #heard = Promise.withResolvers<void>();

  override add(lease: Lease, capture: LogCapture): { wake: () => void; finish: () => Promise<number> } {
    const source = super.add(lease, capture);
    return {
      finish: source.finish,
      wake: () => {
        source.wake();
        this.#bytes = capture.total;
        this.#heard.resolve();
        this.#heard = Promise.withResolvers();
      },
    };
  }

  async printed(bytes: number): Promise<void> {
    while (this.#bytes < bytes) await this.#heard.promise;
  }
}

export interface Started {
  attempt: Attempt;
  id: number;
  lease: Lease;
  /** Resolves when the job has printed so many bytes. */
  printed: (bytes: number) => Promise<void>;
}

export class AttemptBench extends Bench {
  /** What was reported, as `level: message`. */
  readonly reports: string[] = [];
  readonly #scratch = new Scratch(this.path, `test-${basename(this.folder)}`);
  readonly #enforcer = new Enforcer(this.#scratch);
  readonly #fences = new Fences(`test-${basename(this.folder)}`, () => "a-store");

  override async dispose(): Promise<void> {
    this.#fences.end();
    await this.#enforcer.end();
    this.#scratch.remove();
    await super.dispose();
  }

  file(name: string): string {
    return join(this.folder, name);
  }

  read(name: string): string {
    return existsSync(this.file(name)) ? readFileSync(this.file(name), "utf8") : "";
  }

  localManager(verbs: Partial<Store> = {}): LeaseManager {
    return new LeaseManager({
      store: intercept(this.store, verbs),
      worker_id: "w1",
      host,
      clock: this.clock,
      random: () => 0.5,
      lease_ms: LEASE_MS,
    });
  }

  /** Enqueues a job, acquires it and starts it. */
  async start(job: JobOverrides, options: Partial<AttemptOptions> = {}, verbs: Partial<Store> = {}): Promise<Started> {
    const manager = this.localManager(verbs);
    const lease = await this.granted(job, manager);
    return this.begin(lease, { manager, ...options });
  }

  begin(lease: Lease, { manager, ...options }: Partial<AttemptOptions> & { manager: LeaseManager }): Started {
    const logs = new ListeningFlusher(manager.store, this.clock);
    const all: AttemptOptions = {
      clock: this.clock,
      report: linesFor(this.reports),
      store_url: this.path,
      times: calibrate({ lease_ms: LEASE_MS }),
      kill_grace_ms: 10_000,
      ...options,
    };
    const attempt = new Attempt(lease, all, {
      manager,
      logs,
      scratch: this.#scratch,
      store_id: "a-store",
      fences: this.#fences,
      enforcer: this.#enforcer,
      settleWithin: () => 0,
      givesUpSettles: () => false,
    });
    return { attempt, id: lease.job.id, lease, printed: (bytes) => logs.printed(bytes) };
  }

  /** Runs a shell script as a job to its settled end. */
  async run(text: string, job: JobOverrides = {}, options: Partial<AttemptOptions> = {}): Promise<Job> {
    const { attempt, id } = await this.start({ argv: ["/bin/sh", "-c", text], ...job }, options);
    await attempt.settled;
    return this.job(id);
  }

  /** Time passes in small steps until the attempt is settled: for ends that real processes take part in. */
  async passUntil(settled: Promise<unknown>, step_ms: number, steps = 400): Promise<void> {
    const end = { reached: false };
    void settled.then(
      () => (end.reached = true),
      () => (end.reached = true),
    );
    for (let step = 0; step < steps && !end.reached; step++) {
      await this.pass(step_ms, step_ms);
      // Signals need a moment to arrive.
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    if (!end.reached) throw new Error("the attempt did not end");
  }

  async logOf(id: number, attempt = 1): Promise<string> {
    const chunks = await this.store.logs({ job: id, attempt, from: 0, limit: 1_000 });
    const entries = chunks.flatMap(decodeChunk);
    return entries.map(({ bytes }) => new TextDecoder().decode(bytes)).join("");
  }

  /** The error checkpoints, oldest first. */
  async trail(id: number): Promise<Record<string, unknown>[]> {
    const found = await this.store.checkpoints({ job: id, kind: "error", limit: 99 });
    return found.toReversed().map(({ text }) => JSON.parse(text) as Record<string, unknown>);
  }
}

export function script(text: string): { argv: string[] } {
  return { argv: ["/bin/sh", "-c", text] };
}

/** Real processes take their time on a busy machine. */
const TIMEOUT_MS = 20_000;

/** Each test gets a bench of its own. */
export function attemptTest(title: string, body: (b: AttemptBench) => Promise<void>): void {
  test(
    title,
    async () => {
      const bench = await new AttemptBench().open();
      try {
        await body(bench);
      } finally {
        await bench.dispose();
      }
    },
    TIMEOUT_MS,
  );
}
