/** What holds a job's processes together, for people: what stopping it reaches, and what it does not. */

import type { FenceKind } from "../core/records.ts";

export const FENCE_TEXTS: Readonly<Record<FenceKind, string>> = {
  cgroup: "cgroup v2: all processes of a job are stopped with it",
  tree: "process tree: all that descends from a job is stopped with it; not found later: what gets away in the moment before its worker is killed, and a daemon with an empty environment that it left when it ended well",
  group: "process group and marks: what leaves its job's group and empties its environment outlives it",
};
