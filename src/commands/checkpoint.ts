/** `lease checkpoint`: a job notes how far it is, and its next attempt reads the last note. */

import { checkCheckpoint, CHECKPOINT_LIMIT_BYTES } from "../core/check_job.ts";
import { LeaseError } from "../core/errors.ts";
import { command } from "../cli/command.ts";
import { leaseLost, ownJob, refuseOtherLife, readStdin, withStore } from "../cli/io.ts";

export default command({
  meta: { name: "checkpoint", description: "From inside a job: note how far it is, for its next attempt" },
  args: {},
  rest: "words",
  ignores_config: true,
  operands: "[TEXT|-]",
  examples: [
    ['lease checkpoint "page $page"', "note it"],
    ["lease checkpoint", "print the last note; the same as $LEASE_CHECKPOINT at the start"],
  ],
  exit_codes: [
    ["1", "without TEXT: there is no note"],
    ["4", "the lease is lost: the note was not taken, stop at once"],
  ],
  run: async ({ args, rest, io }) => {
    const own = ownJob(io.env);
    const { id, token } = own;
    if (rest.length > 1) throw new LeaseError("usage", "checkpoint takes one text: quote it");
    const text = rest[0] === "-" ? await textOfStdin() : rest[0];
    if (text !== undefined) checkCheckpoint(text);
    return withStore(args, io, { create: false }, async ({ store }) => {
      await refuseOtherLife(store, own);
      if (text === undefined) {
        const [note] = await store.checkpoints({ job: id, kind: "progress", limit: 1 });
        if (note === undefined) return 1;
        io.stdout(`${note.text}\n`);
        return 0;
      }
      const [answer] = await store.checkpoint([{ id, token, text }]);
      if (answer !== "accepted") throw await leaseLost(store, { id, token });
      return 0;
    });
  },
});

/** Without the end of its last line, as `$(…)` has it: the next attempt compares it with what it knows. */
async function textOfStdin(): Promise<string> {
  return new TextDecoder().decode(await readStdin(CHECKPOINT_LIMIT_BYTES)).replace(/\r?\n$/, "");
}
