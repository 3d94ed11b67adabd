/**
 * Any sequence of commands, given to a store and to the reference: after each, both have answered the same and hold
 * the same jobs. A failing sequence is shrunk to the shortest that still fails.
 */

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { commandSequences } from "./commands.ts";
import { Pair } from "./pair.ts";
import type { Opened, OpenStore } from "./subject.ts";

const LIMIT_MS = 240_000;
/** As short as a failing sequence has become by then, it is shown: a test that runs out of time shows none. */
const EACH = { numRuns: 100, interruptAfterTimeLimit: 60_000 };

/** Every answer that a run must have met at least once; a suite that never meets one proves nothing about it. */
const ANSWERS = [
  "enqueue created",
  "enqueue existing",
  "enqueue key_exists",
  "acquire granted",
  "acquire with checkpoint",
  "acquire limited",
  "acquire with a resource",
  "limit full",
  "limit lowered below what runs",
  "extend extended",
  "extend extended, cancel requested",
  "extend expired",
  "extend conflict",
  "settle applied",
  "settle cancelling",
  "settle stale, expired",
  "settle stale, conflict",
  "checkpoint accepted",
  "checkpoint expired",
  "checkpoint conflict",
  "recover recovered",
  "recover changed",
  "cancel cancelled",
  "cancel cancelling",
  "cancel finished",
  "retry pending",
  "retry blocked",
  "retry not_finished",
  "retry key_taken",
  "edit changed",
  "edit changed, blocked",
  "edit changed, scheduled",
  "edit changed, pending",
  "edit changed, cancelled",
  "edit one that waits for it, cancelled",
  "edit not_waiting",
  "edit not_waiting, cancelled",
  "edit dependency",
  "acquire one granted",
  "acquire one refused",
  "prune some",
  "prune none",
  "list one",
  "list several",
  "list none",
];

export function storeModel(name: string, open: OpenStore): void {
  describe(`the ${name} store, beside its model`, () => {
    test(
      "answers the same and holds the same after any sequence of commands",
      async () => {
        const met = new Set<string>();
        const { slack_ms } = await probe(open);
        const property = fc.asyncProperty(commandSequences(slack_ms === 0), async (commands) => {
          const opened = await open();
          try {
            const pair = new Pair(opened, met);
            for (const command of commands) await pair.run(command);
          } finally {
            await opened.dispose();
          }
        });
        const unmet = () => ANSWERS.filter((answer) => !met.has(answer));
        await fc.assert(property, EACH);
        // Chance leaves out a rare one now and then: then there are more runs, but not for ever.
        for (let more = 0; more < 20 && unmet().length > 0; more++) await fc.assert(property, EACH);
        expect(unmet()).toEqual([]);
      },
      LIMIT_MS,
    );
  });
}

async function probe(open: OpenStore): Promise<Opened> {
  const opened = await open();
  await opened.dispose();
  return opened;
}
