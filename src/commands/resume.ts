/** `lease resume`: workers take jobs of a queue again. */

import { pauseOrResume } from "../cli/selection.ts";

export default pauseOrResume("resume", "Take jobs of a paused queue again", "what has gathered is run");
