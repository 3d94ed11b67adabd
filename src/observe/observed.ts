/**
 * A worker that somebody watches: the same store and the same report, with metrics and traces taken on the way. What they
 * need is loaded only where they are asked for.
 */

import type { EventFields, Report } from "../core/report.ts";
import type { SlotStates } from "../core/scaling.ts";
import type { ListenAddress } from "../core/values.ts";
import type { Store } from "../store/store.ts";

export interface Watching {
  store: Store;
  report: Report;
  version: string;
  /** Where Prometheus finds the metrics; null: nobody asks for them. */
  metrics: ListenAddress | null;
}

export interface Observed {
  store: Store;
  report: Report;
  /** Metrics and traces want to hear of each beat. */
  tells_beats: boolean;
  begin(pool: { statistics(): { slots: SlotStates } }): void;
  end(): Promise<void>;
}

export async function observed(watching: Watching): Promise<Observed> {
  const { store, report, metrics } = watching;
  const plain: Observed = { store, report, tells_beats: false, begin: () => {}, end: async () => {} };
  return metrics === null ? plain : withMetrics(plain, metrics, watching.version);
}

async function withMetrics(plain: Observed, address: ListenAddress, version: string): Promise<Observed> {
  const [{ Registry }, { WorkerMetrics }, { addStoreMetrics }, { serveMetrics }, { fenceInForce }] = await Promise.all([
    import("prom-client"),
    import("./metrics/worker_metrics.ts"),
    import("./metrics/store_metrics.ts"),
    import("./metrics/serve.ts"),
    import("../lookup/checkup.ts"),
  ]);
  const own = new Registry();
  const worker = new WorkerMetrics(own);
  const { store } = plain;
  const about = { version, fence: fenceInForce() };
  const read = async () => {
    const registry = new Registry();
    await addStoreMetrics(registry, store, about);
    return (await own.metrics()) + (await registry.metrics());
  };
  const listener = serveMetrics(address, read);
  const where: EventFields = { host: address.host, port: listener.port };
  plain.report("info", `metrics at http://${address.host}:${listener.port}/metrics`, where);
  return {
    store: worker.timed(store),
    report: worker.follow(plain.report),
    tells_beats: true,
    begin: (pool) => worker.watch(store, () => pool.statistics().slots),
    end: () => listener.stop(),
  };
}
