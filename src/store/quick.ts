/** What can be done at once in the store at a location; open.ts is for everything else. */

export { quickEnqueue } from "./sqlite/quick_enqueue.ts";
export { quickBeat, quickCheckpoint } from "./sqlite/quick_report.ts";
