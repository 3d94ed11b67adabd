/**
 * Eight jobs that print a thousand lines a second each: the worker's event loop must stay free, and the store must see
 * no more than a quiet job would cause.
 */

import { filledStore, has, job, plainFigure, quantile, script, skipped, times } from "./harness.ts";
import type { ProbeInput, ProbeOutput } from "./probed_worker.ts";

const JOBS = 8;
const SECONDS = 8;
const LEASE_MS = 5_000;
const INTERVAL_MS = LEASE_MS / 10;

/** Line by line, each with its own write; keeps to its rate on a busy machine. */
const CHATTER = `use Time::HiRes qw(time sleep); my ($start, $said) = (time, 0);
  while ($said < ${SECONDS * 1_000}) {
    my $due = int((time - $start) * 1000);
    while ($said < $due) { syswrite(STDOUT, sprintf("line %06d of a job that says a lot\\n", $said++)) }
    sleep 0.001;
  }`;

if (has("perl")) {
  const store = await filledStore(times(JOBS, () => job(["perl", "-e", CHATTER], { retries: 0 })));
  const input: ProbeInput = { store, slots: JOBS, lease_ms: LEASE_MS };
  const seen = await script<ProbeOutput>("probed_worker.ts", input);
  if (seen.completed !== JOBS) throw new Error(`only ${seen.completed} of ${JOBS} jobs completed`);
  const most = Math.max(...Object.values(seen.extensions));
  plainFigure("chatty: stall p99", quantile(seen.late_ms, 0.99), "ms", { at_most: 50 });
  plainFigure("chatty: stall, longest", Math.max(...seen.late_ms), "ms", {});
  const intervals = (seen.seconds * 1_000) / INTERVAL_MS;
  plainFigure("chatty: extensions", most / intervals, "/interval", { at_most: 1 });
  plainFigure("chatty: log commits", seen.log_writes / seen.seconds, "/s", { at_most: 10 });
} else skipped("chatty", "there is no perl");
