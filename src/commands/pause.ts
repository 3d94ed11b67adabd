/** `lease pause`: workers take no more jobs of a queue. */

import { command } from "../cli/command.ts";
import { pauseOrResume } from "../cli/pausing.ts";

export default command({
  meta: { name: "pause", description: "Take no more jobs of a queue" },
  args: {},
  rest: "words",
  operands: "QUEUE…",
  operand_values: { completer: "queues" },
  examples: [["lease pause mail", "running jobs go on, new ones wait; lease resume mail ends it"]],
  run: (context) => pauseOrResume("pause", context),
});
