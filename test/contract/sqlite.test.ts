/** SQLite under the contract: each store in a folder of its own, on a clock that the test moves. */

import { Database } from "bun:sqlite";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { ManualClock } from "../support/clock.ts";
import { storeModel } from "./model.ts";
import type { Opened } from "./subject.ts";
import { storeContract } from "./suite.ts";

async function open(): Promise<Opened> {
  const folder = await mkdtemp(join(tmpdir(), "lease-contract-"));
  const clock = new ManualClock();
  const handles: Store[] = [];
  const reopen = async (): Promise<Store> => {
    const store = await openSqlite(join(folder, "lease.db"), { clock, random: () => 0.5 });
    handles.push(store);
    return store;
  };
  return {
    store: await reopen(),
    reopen,
    passTime: (ms) => clock.advance(ms),
    jumpTime: (ms) => clock.jumpWall(ms),
    slack_ms: 0,
    async tamper(sql) {
      using database = new Database(join(folder, "lease.db"));
      database.run(sql.replaceAll("lease.", ""));
    },
    async dispose() {
      for (const store of handles) await store.close();
      await rm(folder, { recursive: true });
    },
  };
}

storeContract("SQLite", open);
storeModel("SQLite", open);
