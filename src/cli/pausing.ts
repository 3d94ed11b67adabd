/** What pause and resume have in common: names of queues, and which of the two. */

import { LeaseError } from "../core/errors.ts";
import { checkName } from "../core/check_job.ts";
import type { AnyCommand } from "./command.ts";
import { command } from "./command.ts";
import { visible } from "../view/text.ts";
import { withStore } from "./io.ts";
import { queueRemarks } from "../lookup/queues.ts";

interface Pausing {
  name: "pause" | "resume";
  description: string;
  paused: boolean;
  example: readonly [string, string];
}

export function pauseCommand({ name, description, paused, example }: Pausing): AnyCommand {
  return command({
    meta: { name, description },
    args: {},
    rest: "words",
    operands: "QUEUE…",
    examples: [example],
    run: async ({ args, rest, io }) => {
      if (rest.length === 0) throw new LeaseError("usage", `${name} which queue? Name one`);
      for (const queue of rest) checkName("queue", queue);
      return withStore(args, io, { create: false }, async ({ store }) => {
        for (const remark of await queueRemarks(store, rest)) {
          if (remark !== null) io.stderr(`lease: ${visible(remark)}\n`);
        }
        await store.setPaused(rest, paused);
        return 0;
      });
    },
  });
}
