/** `lease watchdog`: recovers what hung or dead workers left behind, once or again and again. */

import { calibrate } from "../core/calibration.ts";
import type { SweepCounts } from "../core/records.ts";
import { systemClock, systemRandom } from "../platform/clock.ts";
import { observed } from "../observe/observed.ts";
import { VERSION } from "../platform/build_info.ts";
import { RecoverySweep } from "../recovery/sweep.ts";
import type { Store } from "../store/store.ts";
import { AGE, DURATION, KEPT } from "../core/values.ts";
import { jsonLine } from "../view/json.ts";
import { command } from "../cli/command.ts";
import { JSON_FLAG, LOG_FORMAT_FLAG, valueFlag } from "../cli/flags.ts";
import { withStore } from "../cli/io.ts";
import { roleLog } from "../cli/role_log.ts";
import { onSignals } from "../cli/signals.ts";

export default command({
  meta: { name: "watchdog", description: "Recover jobs whose worker hangs or is gone" },
  args: {
    once: { type: "boolean", description: "Sweep once and end, for cron" },
    every: valueFlag(DURATION, "Time between sweeps", { fallback: "1m" }),
    grace: valueFlag(DURATION, "After the end of a lease", { fallback: "1m" }),
    checkpoints: {
      type: "boolean",
      default: true,
      description: "Note each recovery as an error checkpoint",
      negativeDescription: "Keep no note of recoveries",
    },
    keep_checkpoints: valueFlag(KEPT, "Newest to keep per task, or none to trim", { fallback: "100" }),
    prune: valueFlag(AGE, "Also delete jobs that finished longer ago", { fallback: "none is deleted" }),
    log_format: LOG_FORMAT_FLAG,
    json: JSON_FLAG,
  },
  rest: "none",
  examples: [
    ["lease watchdog --once", "from cron, on any number of machines at once"],
    ["lease watchdog --every 10s --grace 0", "as a service, without patience"],
  ],
  notes: [
    "Workers sweep by themselves; a watchdog is for when none may be left. Any number may run at once.",
    "What --keep-checkpoints and --checkpoints say is kept in the store, and holds for the sweeps of workers too.",
  ],
  run: async ({ args, given, io }) => {
    const { every = null, grace = null, keep_checkpoints, prune: prune_ms = null } = args;
    const times = calibrate({ sweep_every_ms: every, sweep_grace_ms: grace });
    return withStore(args, io, { create: true }, async ({ store, store_url }) => {
      // For every sweep, or those of the workers would undo it.
      const kept = keep_checkpoints === undefined ? {} : { keep_checkpoints };
      const noted = !args.checkpoints || given.has("checkpoints") ? { checkpoints: args.checkpoints } : {};
      if (Object.keys({ ...kept, ...noted }).length > 0) await store.setRetention({ ...kept, ...noted });
      const report = await roleLog("watchdog", args, io);
      const watched = await observed({ store, report, version: VERSION, metrics: null, env: io.env });
      const sweep = new RecoverySweep({
        store: watched.store,
        store_url,
        clock: systemClock,
        random: systemRandom,
        report: watched.report,
        grace_ms: times.sweep_grace_ms,
        every_ms: times.sweep_every_ms,
        prune_ms,
      });
      const print = (counts: SweepCounts) => io.stdout(args.json ? jsonLine(counts) : sweepText(counts));
      try {
        if (!args.once) await untilSignal(store, sweep, print);
        else {
          const counts = await sweep.scan();
          // Cron mails what is printed, every minute.
          if (args.json || didSomething(counts)) print(counts);
        }
      } finally {
        await watched.end();
      }
      return 0;
    });
  },
});

async function untilSignal(store: Store, sweep: RecoverySweep, print: (counts: SweepCounts) => void): Promise<void> {
  const asked = Promise.withResolvers<void>();
  const release = onSignals(["SIGTERM", "SIGINT"], () => asked.resolve());
  const stopGuarding = store.onReplaced(asked.reject);
  sweep.start((counts) => {
    try {
      print(counts);
    } catch (error) {
      // Nobody reads what it does any more: that ends it, like any program in a pipe.
      asked.reject(error);
    }
  });
  try {
    await asked.promise;
  } finally {
    release();
    stopGuarding();
    await sweep.stop();
  }
}

function didSomething(counts: SweepCounts): boolean {
  return Object.values({ ...counts, scan_duration_ms: 0 }).some((count) => count > 0);
}

function sweepText(counts: SweepCounts): string {
  const { scan_duration_ms, expired_found, ...rest } = counts;
  const parts = Object.entries(rest)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${count} ${name.replaceAll("_", " ")}`);
  const what = parts.length === 0 ? "nothing to do" : parts.join(", ");
  return `${expired_found} expired: ${what} (${scan_duration_ms} ms)\n`;
}
