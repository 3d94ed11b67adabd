/** What pause and resume do: the same to the queues that are named, in two directions. */

import { checkName } from "../core/check_job.ts";
import { LeaseError } from "../core/errors.ts";
import { queueRemarks } from "../lookup/queues.ts";
import { visible } from "../view/text.ts";
import { withStore, type Io, type StoreArgs } from "./io.ts";

interface Named {
  args: StoreArgs;
  rest: readonly string[];
  io: Io;
}

export async function pauseOrResume(verb: "pause" | "resume", { args, rest, io }: Named): Promise<number> {
  if (rest.length === 0) throw new LeaseError("usage", `${verb} which queue? Name one`);
  for (const queue of rest) checkName("queue", queue);
  return withStore(args, io, { create: false }, async ({ store }) => {
    for (const remark of await queueRemarks(store, rest)) {
      if (remark !== null) io.stderr(`lease: ${visible(remark)}\n`);
    }
    await store.setPaused(rest, verb === "pause");
    return 0;
  });
}
