/** `lease beat`: a job says that it works, how far it is, and hears whether it should go on. */

import { parseDuration } from "../core/duration.ts";
import { checkMessage } from "../core/check_job.ts";
import { LeaseError } from "../core/errors.ts";
import { PERCENT, TEXT } from "../core/values.ts";
import { command } from "../cli/command.ts";
import { valueFlag } from "../cli/flags.ts";
import { leaseLost, ownJob, refuseOtherLife, withStore, type Io } from "../cli/io.ts";

/** As its worker has them; one that is not told beats as often as it likes. */
function timesOf({ LEASE_INTERVAL, LEASE_EXTENSION }: Io["env"]) {
  const extension_ms = LEASE_EXTENSION === undefined ? null : parseDuration(LEASE_EXTENSION, "LEASE_EXTENSION");
  return { interval_ms: parseDuration(LEASE_INTERVAL ?? "0", "LEASE_INTERVAL"), extension_ms };
}

export default command({
  meta: { name: "beat", description: "From inside a job: prove that it works, and hear whether to go on" },
  args: {
    progress: valueFlag(PERCENT, "How far it is, 0 to 100"),
    message: valueFlag(TEXT, "What it is doing"),
  },
  rest: "none",
  ignores_config: true,
  examples: [
    ["lease beat --progress 40 --message 'linking'", "in a script that prints nothing for long"],
    ["lease beat || exit", "end when cancel was requested or the lease is lost"],
  ],
  exit_codes: [
    ["0", "go on"],
    ["3", "cancel was requested: clean up and end"],
    ["4", "the lease is lost: stop at once, somebody else may be at it"],
  ],
  run: async ({ args, io }) => {
    const own = ownJob(io.env);
    const { id, token } = own;
    const { progress = null, message = null } = args;
    if (message !== null) checkMessage(message);
    return withStore(args, io, { create: false }, async ({ store }) => {
      await refuseOtherLife(store, own);
      const attempt = (await store.attempts(id)).find((other) => other.token === token);
      if (attempt === undefined) {
        throw new LeaseError("lease_lost", `there is no attempt ${token} of job ${id} any more`);
      }
      const { interval_ms, extension_ms } = timesOf(io.env);
      const expires_in_ms = Math.min(extension_ms ?? Infinity, attempt.lease_ms);
      const beat = { id, token, expires_in_ms, beat_age_ms: 0, beats: 0 };
      // The worker may have got more time than a beat gives, to stop this very job.
      const [answer] = await store.extend([{ ...beat, at_least: true, interval_ms, by_job: true, progress, message }]);
      if (answer === undefined || answer.status !== "extended") throw await leaseLost(store, { id, token });
      if (answer.cancel_requested)
        throw new LeaseError("cancel_requested", `cancel of job ${id} was requested: end it`);
      return 0;
    });
  },
});
