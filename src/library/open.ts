/** The way into the library: a location → a queue. */

import process from "node:process";
import { storeLocation } from "../config/location.ts";
import type { Clock, Random } from "../core/clock.ts";
import { LeaseError } from "../core/errors.ts";
import type { Level, Report } from "../core/report.ts";
import { systemClock, systemRandom } from "../platform/clock.ts";
import { machineTime } from "../platform/machine.ts";
import { openTraces } from "../observe/traced.ts";
import { VERSION } from "../platform/build_info.ts";
import { openStore } from "../store/open.ts";
import { OPEN_VALUES, readOptions } from "./options.ts";
import { Queue } from "./queue.ts";
import { readableEnv } from "./readable_env.ts";

/** How a store is opened, and who hears of trouble. */
export interface OpenOptions {
  /** Accept a store that others can write. It decides what gets executed. */
  trust_store?: boolean;
  /** Make the store if there is none; so it is unless told. */
  create?: boolean;
  /** What workers and sweeps have to say; warnings and errors go to the console unless told. */
  report?: Report;
  /** Time, unless it is the machine's: see `@lease/queue/testing`. */
  clock?: Clock;
  /** Jitter, unless it is random. */
  random?: Random;
}

const MEMORY = ":memory:";

/**
 * Opens a queue: a path, `postgres://…`, or `":memory:"` for one that is gone when it is closed. Without a location it is
 * the store of the `lease` command: `LEASE_STORE`, or the one in the user's folder for state.
 *
 * @example
 * ```ts
 * await using queue = await open("jobs.db");
 * await queue.enqueue({ input: { page: 1 } });
 * ```
 */
export async function open(location?: string, options: OpenOptions = {}): Promise<Queue> {
  const { trust_store = false, create = true } = readOptions(options, OPEN_VALUES, ["report", "clock", "random"]);
  const { clock = systemClock, random = systemRandom, report: told = toConsole } = options;
  if (location !== undefined && (typeof location !== "string" || location === "")) {
    throw new LeaseError("usage", 'a location is a text: a path, "postgres://…", or ":memory:"');
  }
  const memory = location === MEMORY;
  const place = memory ? MEMORY : storeLocation(location ?? (process.env["LEASE_STORE"] || undefined), process.env);
  const notice = (text: string) => told("warn", text);
  const opened = await openStore(place, { clock, random, trust: trust_store, create, memory, notice });
  const store_url = place.includes("://") ? place : opened.location;
  const traces = await openTraces(readableEnv, VERSION, notice);
  const [store, report] = [traces.store(opened), traces.report(told)];
  const own_time = () => ({ boot_id: "one that was given", uptime_ms: clock.mono_ms(), suspends: 0 });
  const machine_time = clock === systemClock ? machineTime : own_time;
  return new Queue({ store, store_url, clock, random, report, machine_time, traces });
}

const toConsole: Report = Object.assign(
  (level: Level, text: string) => {
    if (level === "warn" || level === "error") console.warn(`lease: ${text}`);
  },
  { least_level: "warn" as const },
);
