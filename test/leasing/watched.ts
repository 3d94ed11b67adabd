/** A job under the eyes of a watch, as an attempt would have it, and what the watch said about it. */

import { LeaseExtender } from "../../src/leasing/extender.ts";
import { Heartbeat } from "../../src/leasing/heartbeat.ts";
import type { Lease } from "../../src/leasing/lease.ts";
import { SilenceWatch } from "../../src/leasing/silence_watch.ts";
import type { Store } from "../../src/store/store.ts";
import { intercept, LEASE_MS, type Bench } from "./fixture.ts";
import type { JobOverrides } from "../support/jobs.ts";

export const GRACE_MS = 10_000;
/** Asked for on top of the grace. */
export const SLACK_MS = 2_000;
export const RENEWED_TOO_LATE = "lost: it could not be renewed in time";

export interface Watched {
  lease: Lease;
  heartbeat: Heartbeat;
  watch: SilenceWatch;
  /** What the watch said, each with the time since the grant. */
  said: [word: string, at_ms: number][];
}

interface WatchOptions {
  job?: JobOverrides;
  timeout_ms?: number | null;
  verbs?: Partial<Store>;
  /** With an extender, so that beats are written. */
  extended?: boolean;
}

/** The job was granted just now. */
export async function watched(b: Bench, options: WatchOptions = {}): Promise<Watched> {
  const manager = b.managerOf("w1", intercept(b.store, options.verbs ?? {}));
  const lease = await b.granted(options.job, manager);
  const heartbeat = new Heartbeat(b.clock);
  const start_ms = b.clock.mono_ms();
  const said: [string, number][] = [];
  const say = (word: string): void => void said.push([word, b.clock.mono_ms() - start_ms]);
  const extender = new LeaseExtender(manager, {
    clock: b.clock,
    interval_ms: LEASE_MS / 10,
    enabled: options.extended ?? false,
  });
  const detach = extender.attach(lease, heartbeat);
  const watch: SilenceWatch = new SilenceWatch(
    { lease, heartbeat, manager, clock: b.clock, timeout_ms: options.timeout_ms ?? null, grace_ms: GRACE_MS },
    {
      halfSilent: () => say("warn"),
      stop: (cause) => {
        say(cause);
        detach();
        watch.stopping(GRACE_MS);
      },
      lost: (why) => {
        say(`lost: ${why}`);
        detach();
        watch.end();
      },
    },
  );
  return { lease, heartbeat, watch, said };
}

export const words = ({ said }: Watched): string[] => said.map(([word]) => word);
