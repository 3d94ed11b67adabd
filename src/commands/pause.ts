/** `lease pause`: workers take no more jobs of a queue. */

import { pauseOrResume } from "../cli/selection.ts";

const EXAMPLE = "running jobs go on, new ones wait; lease resume mail ends it";
export default pauseOrResume("pause", "Take no more jobs of a queue", EXAMPLE);
