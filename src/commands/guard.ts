/** `lease guard`: runs a command only while the job that calls it holds its lease. */

import { LeaseError } from "../core/errors.ts";
import { holdsLease } from "../core/transition.ts";
import { systemClock } from "../platform/clock.ts";
import { inheritRun } from "../runner/inherit.ts";
import type { Store } from "../store/store.ts";
import { command } from "../cli/command.ts";
import { leaseLost, ownJob, refuseOtherLife, withStore } from "../cli/io.ts";
import { repeat } from "../cli/waiting.ts";
import { onSignals } from "../cli/signals.ts";

/** How often the lease is looked at while the command runs. */
const PACE = { every_ms: 500, pause_ms: 500 } as const;

export default command({
  meta: { name: "guard", description: "From inside a job: run a command only while the lease is held" },
  args: {},
  rest: "command",
  ignores_config: true,
  examples: [["lease guard -- ./deploy.sh", "the step that must never run twice at the same time"]],
  notes: ["The lease is checked before the command starts and while it runs; when it is lost the command is killed."],
  exit_codes: [
    ["4", "the lease is lost"],
    ["other", "the command's own"],
  ],
  run: async ({ args, rest, io }) => {
    const own = ownJob(io.env);
    const { id, token } = own;
    if (rest.length === 0) throw new LeaseError("usage", "guard what? Write the command after --");
    return withStore(args, io, { create: false }, async ({ store }) => {
      await refuseOtherLife(store, own);
      await refuseWithoutLease(store, id, token);
      const run = await inheritRun(rest);
      let lost: LeaseError | null = null;
      const release = onSignals(["SIGTERM", "SIGINT", "SIGHUP"], (signal) => run.kill(signal));
      const code = await repeat(store, run.exit_code, PACE, async () => {
        // A store in trouble takes no lease away.
        await refuseWithoutLease(store, id, token).catch((error) => {
          if (!(error instanceof LeaseError) || error.code !== "lease_lost") return;
          lost = error;
          run.kill("SIGKILL");
        });
        return null;
      })
        .catch((error) => {
          // Nobody can say any more whose the lease is.
          run.kill("SIGKILL");
          throw error;
        })
        .finally(release);
      if (lost !== null) throw lost;
      return code;
    });
  },
});

async function refuseWithoutLease(store: Store, id: number, token: number): Promise<void> {
  const [job] = await store.jobs([id]);
  const now_ms = await store.now().catch(() => systemClock.wall_ms());
  if (job !== null && job !== undefined && holdsLease(job, token, now_ms)) return;
  throw await leaseLost(store, { id, token });
}
