/** A job by itself into the store at a location, where that can be done at once; open.ts is for everything else. */

export { quickEnqueue } from "./sqlite/quick_enqueue.ts";
