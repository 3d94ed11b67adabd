/** `lease pause`: workers take no more jobs of a queue. */

import { pauseCommand } from "../cli/pausing.ts";

export default pauseCommand({
  name: "pause",
  description: "Take no more jobs of a queue",
  paused: true,
  example: ["lease pause mail", "running jobs go on, new ones wait; lease resume mail ends it"],
});
