/**
 * A worker that somebody watches: the same store and the same report, with metrics and traces taken on the way. What they
 * need is loaded only where they are asked for.
 */

import type { EventFields, Report } from "../core/report.ts";
import type { SlotStates } from "../core/scaling.ts";
import type { ListenAddress } from "../core/values.ts";
import type { Store } from "../store/store.ts";
import { openTraces } from "./traced.ts";

export interface Watching {
  store: Store;
  report: Report;
  version: string;
  /** Where Prometheus finds the metrics; null: nobody asks for them. */
  metrics: ListenAddress | null;
  /** By which traces are asked for. */
  env: Readonly<Record<string, string | undefined>>;
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
  const { env, version } = watching;
  const traces = await openTraces(env, version, (text) => report("warn", text));
  const traced: Observed = {
    store: traces.store(store),
    report: traces.report(report),
    tells_beats: traces.on,
    begin: () => {},
    end: () => traces.end(),
  };
  return metrics === null ? traced : withMetrics(traced, metrics, version);
}

async function withMetrics(traced: Observed, address: ListenAddress, version: string): Promise<Observed> {
  const [{ Registry }, { WorkerMetrics }, { addStoreMetrics }, { serveMetrics }, { fenceInForce }] = await Promise.all([
    import("prom-client"),
    import("./metrics/worker_metrics.ts"),
    import("./metrics/store_metrics.ts"),
    import("./metrics/serve.ts"),
    import("../lookup/checkup.ts"),
  ]);
  const own = new Registry();
  const worker = new WorkerMetrics(own);
  const { store } = traced;
  const about = { version, fence: fenceInForce() };
  const read = async () => {
    const registry = new Registry();
    await addStoreMetrics(registry, store, about);
    return (await own.metrics()) + (await registry.metrics());
  };
  const listener = serveMetrics(address, read);
  const where: EventFields = { host: address.host, port: listener.port };
  traced.report("info", `metrics at http://${address.host}:${listener.port}/metrics`, where);
  return {
    store: worker.timed(store),
    report: worker.follow(traced.report),
    tells_beats: true,
    begin: (pool) => worker.watch(store, () => pool.statistics().slots),
    async end() {
      await listener.stop();
      await traced.end();
    },
  };
}
