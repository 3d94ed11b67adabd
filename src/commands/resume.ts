/** `lease resume`: workers take jobs of a queue again. */

import { pauseCommand } from "../cli/pausing.ts";

export default pauseCommand({
  name: "resume",
  description: "Take jobs of a paused queue again",
  paused: false,
  example: ["lease resume mail", "what has gathered is run"],
});
