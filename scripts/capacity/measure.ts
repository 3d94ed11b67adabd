/** What a job costs on a server of this machine, and what a fleet (fleet.ts) really does there. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import type { Store } from "../../src/store/store.ts";
import { startServer } from "../bench/league/postgres.ts";
import { cpuOf, job, median, times } from "../bench/harness.ts";
import type { Fleet, FleetWork } from "./fleet.ts";
import type { Costs } from "./model.ts";

/** More take more memory than they tell. */
const MOST_PROCESSES = 8;

export interface Seen {
  jobs_per_s: number;
  server_ms: number;
  worker_ms: number;
}

export class Ground {
  readonly #server: Awaited<ReturnType<typeof startServer>>;
  readonly #url: string;

  private constructor(server: Awaited<ReturnType<typeof startServer>>) {
    this.#server = server;
    this.#url = `${server.url}?schema=capacity`;
  }

  static async open(): Promise<Ground> {
    return new Ground(await startServer());
  }

  #store(): Promise<Store> {
    return openPostgres(this.#url, { clock: systemClock, random: systemRandom });
  }

  /** So many jobs per second, and what each took of the processors. */
  async run(fleet: Fleet): Promise<Seen> {
    const { workers, slots, job_ms, seconds } = fleet;
    const producer = await this.#store();
    const most = Math.ceil((workers * slots * seconds * 1_000) / job_ms) + 1_000;
    for (let added = 0; added < most; added += 10_000)
      await producer.enqueue(times(Math.min(10_000, most - added), () => job(["true"])));
    const processes = Math.min(workers, MOST_PROCESSES);
    const parts = times(processes, (n) => this.#start({ ...fleet, workers: shareOf(workers, processes, n) }));
    await Promise.all(parts.map(({ ready }) => ready));
    const [server_before, started_ms] = [serverCpu(), performance.now()];
    const works = await Promise.all(parts.map(({ go }) => go()));
    const taken_ms = performance.now() - started_ms;
    const done = works.reduce((sum, work) => sum + work.done, 0);
    const worker_ms = works.reduce((sum, work) => sum + work.cpu_ms, 0) / done;
    // Of those that end the server's processes know nothing any more.
    const server_ms = (serverCpu() - server_before) / done;
    await Promise.all(parts.map(({ end }) => end()));
    await producer.cancel(
      (await producer.outlines({ states: ["pending"], limit: most, newest_first: false })).map(({ id }) => id),
      null,
    );
    await producer.close();
    return { jobs_per_s: (done * 1_000) / taken_ms, server_ms, worker_ms };
  }

  #start(part: Fleet) {
    const script = join(import.meta.dir, "fleet.ts");
    const argv = [process.execPath, script, JSON.stringify({ ...part, url: this.#url })];
    const child = Bun.spawn(argv, { stdin: "pipe", stdout: "pipe", stderr: "inherit" });
    const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
    const line = async () => (await lines.read()).value ?? "";
    const tell = (word: string) => (child.stdin.write(`${word}\n`), child.stdin.flush());
    const ready = line();
    const go = async () => {
      await tell("go");
      return JSON.parse(await line()) as FleetWork;
    };
    const end = async () => {
      await tell("end");
      await child.exited;
    };
    return { ready, go, end };
  }

  /** One worker, hardly busy: nobody waits for anybody. */
  async costs(): Promise<Costs> {
    await this.run({ workers: 1, slots: 4, job_ms: 10, seconds: 2 });
    const { server_ms, worker_ms } = await this.run({ workers: 2, slots: 4, job_ms: 20, seconds: 8 });
    const store = await this.#store();
    await store.enqueue([job(["true"])]);
    const [grant] = await store.acquire({
      holder: "w",
      host: "h",
      count: 1,
      queues: null,
      task: null,
      lease_ms: 300_000,
    });
    const syncs: number[] = [];
    const before_ms = serverCpu();
    const beats = 300;
    for (let beat = 0; beat < beats; beat++) {
      const started_ms = performance.now();
      const { id = 0, token = 0 } = grant?.job ?? {};
      await store.extend([{ id, token, expires_in_ms: 300_000, beat_age_ms: 0, beats: beat }]);
      syncs.push(performance.now() - started_ms);
    }
    const beat_ms = (serverCpu() - before_ms) / beats;
    await store.close();
    return { server_ms, worker_ms, sync_ms: median(syncs), syncs: 2, beat_ms };
  }

  end(): Promise<void> {
    return this.#server.stop();
  }
}

/** Of so many, as evenly as it goes. */
function shareOf(all: number, parts: number, n: number): number {
  return Math.floor(all / parts) + (n < all % parts ? 1 : 0);
}

/** Of all its processes, those that have ended not counted: it keeps its connections while we measure. */
function serverCpu(): number {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .reduce((sum, pid) => {
      try {
        const is_server = readFileSync(`/proc/${pid}/comm`, "utf8").trim() === "postgres";
        return is_server ? sum + cpuOf(Number(pid)) : sum;
      } catch {
        return sum;
      }
    }, 0);
}
