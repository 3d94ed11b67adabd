/** `lease resume`: workers take jobs of a queue again. */

import { command } from "../cli/command.ts";
import { pauseOrResume } from "../cli/pausing.ts";

export default command({
  meta: { name: "resume", description: "Take jobs of a paused queue again" },
  args: {},
  rest: "words",
  operands: "QUEUE…",
  operand_values: { completer: "queues" },
  examples: [["lease resume mail", "what has gathered is run"]],
  run: (context) => pauseOrResume("resume", context),
});
