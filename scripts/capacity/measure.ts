/**
 * What a job costs on a server of this machine, and what many workers really do there: each has a store of its own, with
 * its own connections and its own commits, and slots whose jobs only take time.
 */

import { readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import { isRefusal, transition } from "../../src/core/transition.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import type { Grant, Store } from "../../src/store/store.ts";
import { startServer } from "../bench/league/postgres.ts";
import { cpuOf, job, median, SUCCESS, times } from "../bench/harness.ts";
import type { Costs } from "./model.ts";

export interface Fleet {
  workers: number;
  slots: number;
  job_ms: number;
  seconds: number;
}

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
  async run({ workers, slots, job_ms, seconds }: Fleet): Promise<Seen> {
    const producer = await this.#store();
    const most = Math.ceil((workers * slots * seconds * 1_000) / job_ms) + 1_000;
    for (let added = 0; added < most; added += 10_000)
      await producer.enqueue(times(Math.min(10_000, most - added), () => job(["true"])));
    const stores = await Promise.all(times(workers, () => this.#store()));
    const [server_before, own_before] = [serverCpu(), process.cpuUsage()];
    const started_ms = performance.now();
    const until_ms = started_ms + seconds * 1_000;
    let done = 0;
    const slot = async (store: Store, holder: string) => {
      const request = { holder, host: "capacity", count: 1, queues: ["default"], task: null, lease_ms: 300_000 };
      while (performance.now() < until_ms) {
        const [grant] = await store.acquire(request);
        if (grant === undefined) return;
        await Bun.sleep(job_ms);
        await settle(store, grant);
        done += 1;
      }
    };
    await Promise.all(stores.flatMap((store, n) => times(slots, () => slot(store, `worker ${n}`))));
    const taken_ms = performance.now() - started_ms;
    const own = process.cpuUsage(own_before);
    const server_ms = (serverCpu() - server_before) / done;
    await Promise.all(stores.map((store) => store.close()));
    await producer.cancel(
      (await producer.outlines({ states: ["pending"], limit: most, newest_first: false })).map(({ id }) => id),
      null,
    );
    await producer.close();
    return { jobs_per_s: (done * 1_000) / taken_ms, server_ms, worker_ms: (own.user + own.system) / 1_000 / done };
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

async function settle(store: Store, { job: granted }: Grant): Promise<void> {
  const { id, token } = granted;
  const change = transition(
    granted,
    { type: "settle", token, end: SUCCESS },
    { now_ms: await store.now(), random: Math.random },
  );
  if (isRefusal(change)) throw new Error(change.refused);
  await store.settle([{ id, token, change, process: null, audit: null }]);
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
