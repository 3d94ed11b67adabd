/**
 * Lives on a real PostgreSQL whose clock stands still unless the world moves it. Its answers come when they come, so a seed
 * is not lived again to the byte; what must hold is the same.
 */

import { expect, setDefaultTimeout, test } from "bun:test";
import process from "node:process";
import { writeProof } from "../../scripts/proof/report.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import type { Store } from "../../src/store/store.ts";
import type { ManualClock } from "../support/clock.ts";
import { newSchema } from "../support/postgres.ts";
import { lookAtAll, unhurried, type Ground } from "./ground.ts";
import { liveHere } from "./many.ts";
import { farClock } from "./world.ts";

setDefaultTimeout(300_000);

const LIVES = Number(process.env["SIM_POSTGRES_LIVES"] ?? 25);

async function postgresGround(clock: ManualClock): Promise<Ground> {
  const schema = await newSchema();
  const open = (): Promise<Store> => openPostgres(schema.url, { clock: systemClock, random: systemRandom });
  const [eye, base] = [await open(), await open()];
  const now = farClock(clock);
  let under_way = 0;
  let shown_ms = 0;
  let shown = Promise.resolve();
  // Nobody goes ahead while the clock is being set, also who comes in the same moment as whoever sets it.
  const showTime = (): Promise<void> => {
    const now_ms = now.wall_ms();
    if (now_ms !== shown_ms) shown = shown.then(() => schema.setClock(now_ms));
    shown_ms = now_ms;
    return shown;
  };
  await showTime();
  const store = new Proxy(unhurried(base), {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function" || name === "watch" || name === "onReplaced") return value;
      return async (...args: unknown[]) => {
        under_way += 1;
        try {
          await showTime();
          return (await value.apply(target, args)) as unknown;
        } finally {
          under_way -= 1;
        }
      };
    },
  });
  return {
    store,
    eye,
    look: (before) => lookAtAll(eye, before),
    failAt: null,
    busy: () => under_way > 0,
    tamper: () => {},
    integrity: async () => "ok",
    async close() {
      await eye.close();
      await base.close();
      await schema.drop();
    },
  };
}

test(`nothing that must hold is broken in ${LIVES} lives on PostgreSQL`, async () => {
  const tally = await liveHere(1, LIVES, { ground: postgresGround, far: true });
  expect(tally.broken).toEqual([]);
  expect(tally.seen["recover recovered expired"]).toBeGreaterThan(0);
  expect(tally.seen["settle stale"]).toBeGreaterThan(0);
  writeProof("simulation_postgres", {
    order: 11,
    title: "The same on a real PostgreSQL, whose clock the simulation moves",
    command: "bun test test/sim/postgres.test.ts",
    counts: { schedules: tally.lives, "writes checked": tally.writes },
    violations: { "broken invariants": tally.broken.length },
  });
});
