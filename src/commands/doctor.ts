/** `lease doctor`: looks at everything that can be wrong with a store and its surroundings, and says what to do. */

import { existsSync, statfsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { errorText, LeaseError } from "../core/errors.ts";
import { systemClock } from "../platform/clock.ts";
import type { Finding } from "../store/queries.ts";
import { diagnosisJson, diagnosisText, isHealthy } from "../view/doctor.ts";
import { jsonLine } from "../view/json.ts";
import { sqliteVersion } from "../platform/build_info.ts";
import { checkup, clock } from "../lookup/checkup.ts";
import type { Io } from "../cli/io.ts";
import { command } from "../cli/command.ts";
import { COLOR_CHOICES, JSON_FLAG } from "../cli/flags.ts";
import { screenOf, withStore } from "../cli/io.ts";
import { effectiveSettings } from "./doctor/effective.ts";

const FAILED = 125;

export default command({
  meta: { name: "doctor", description: "Look for what is wrong with the store, its workers and the settings" },
  args: { json: JSON_FLAG },
  rest: "none",
  ignores_config: true,
  examples: [
    ["lease doctor", "what is wrong, what to do, and where each setting comes from"],
    ["lease doctor --json | jq '.findings[] | select(.level != \"ok\")'", "for a monitor"],
  ],
  notes: [
    "Changes nothing. The integrity check reads the whole store, which takes a while when it is large.",
    {
      title: "Exit codes",
      rows: [
        ["0", "all is well, or there are only warnings"],
        ["1", "something is wrong, or there is no store yet"],
        ["125", "the store can't be opened"],
      ],
    },
  ],
  run: async ({ args, given, commands, io }) => {
    const { settings, findings, store } = await effectiveSettings({ args, given }, commands, io.env);
    const looked = await lookAtStore(store, args.trust_store, io);
    const diagnosis = { findings: [...findings, ...looked.findings].toSorted(byLevel), settings };
    const chosen = settings.find(({ command: of, name }) => of === null && name === "color")?.value;
    const color = COLOR_CHOICES.find((choice) => choice === chosen) ?? args.color;
    const screen = screenOf(color, io, systemClock.wall_ms());
    io.stdout(args.json ? jsonLine(diagnosisJson(diagnosis)) : diagnosisText(diagnosis, screen));
    return looked.failure ?? (isHealthy(diagnosis) ? 0 : 1);
  },
});

const LEVELS = { error: 0, warn: 1, ok: 2 } as const;

function byLevel(a: Finding, b: Finding): number {
  return LEVELS[a.level] - LEVELS[b.level];
}

async function lookAtStore(
  location: string | null,
  trust_store: boolean,
  io: Io,
): Promise<{ findings: Finding[]; failure: number | null }> {
  const wall_ms = systemClock.wall_ms();
  try {
    const shared = { store: location ?? undefined, trust_store };
    const findings = await withStore(shared, io, { create: false }, async ({ store }) => [
      ...(await store.diagnose()),
      ...(await checkup(store, wall_ms)),
    ]);
    return { findings, failure: null };
  } catch (error) {
    const failure = error instanceof LeaseError ? error.exit_code : FAILED;
    return { findings: withoutStore(error, location, wall_ms), failure };
  }
}

/** What can be told all the same. */
function withoutStore(error: unknown, location: string | null, wall_ms: number): Finding[] {
  const own = clock({ now_ms: wall_ms, wall_ms, latest_ms: 0, workers: [] });
  const engine: Finding = { name: "sqlite", level: "ok", value: sqliteVersion(), advice: null };
  return [{ name: "store", level: "error", value: errorText(error), advice: null }, engine, own, ...disk(location)];
}

function disk(location: string | null): Finding[] {
  if (location === null || location.includes("://")) return [];
  let folder = dirname(resolve(location));
  while (!existsSync(folder) && folder !== dirname(folder)) folder = dirname(folder);
  const { bavail, bsize } = statfsSync(folder);
  return [{ name: "disk", level: "ok", value: `${Math.round((bavail * bsize) / 2 ** 20)} MiB free`, advice: null }];
}
