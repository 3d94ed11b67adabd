/** PostgreSQL under the contract: each store in a schema of its own, whose clock the test moves ahead. */

import { setDefaultTimeout } from "bun:test";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import type { Store } from "../../src/store/store.ts";
import { newSchema } from "../support/postgres.ts";
import { storeModel } from "./model.ts";
import type { Opened } from "./subject.ts";
import { storeContract } from "./suite.ts";

// The first test starts the server.
setDefaultTimeout(30_000);

/** Real time passes too, while a test takes it for standing still. */
const SLACK_MS = 4_000;

async function open(): Promise<Opened> {
  const schema = await newSchema();
  const handles: Store[] = [];
  const reopen = async (): Promise<Store> => {
    const store = await openPostgres(schema.url, { clock: systemClock, random: systemRandom });
    handles.push(store);
    return store;
  };
  return {
    store: await reopen(),
    reopen,
    passTime: (ms) => schema.advance(ms),
    jumpTime: null,
    slack_ms: SLACK_MS,
    async dispose() {
      await Promise.all(handles.map((store) => store.close()));
      await schema.drop();
    },
  };
}

storeContract("PostgreSQL", open);
storeModel("PostgreSQL", open);
