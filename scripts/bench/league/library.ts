/** Handlers that do nothing, in this process, beside two queues that keep jobs in SQLite as well. */

import { bareStatements, FEWER, SLOTS, throughBunqueue, throughPlainjob, throughWorker } from "../library_drain.ts";
import type { Contest } from "./contest.ts";
import type { Size } from "./league.ts";

export function libraryContests({ quick }: Size): Contest[] {
  const durability = "synced, each commit";
  return [
    {
      name: `library, drain with ${SLOTS} slots`,
      unit: "jobs/s",
      turns: quick ? 1 : 5,
      ours: { name: "lease", durability, run: throughWorker },
      others: [
        { name: "bare statements", durability, at_least: 0.7, run: bareStatements },
        { name: `plainjob, ${FEWER} jobs`, durability, at_least: 2, run: throughPlainjob },
        { name: `bunqueue, ${FEWER} jobs`, durability: "synced where asked", at_least: 2, run: throughBunqueue },
      ],
    },
  ];
}
