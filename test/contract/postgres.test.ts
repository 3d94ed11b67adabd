/**
 * PostgreSQL under the contract: each store in a schema of its own, on a clock that the test moves. It is made by its
 * owner and used by a role that may read and write it and no more, which so holds for everything in the contract.
 */

import { setDefaultTimeout } from "bun:test";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import type { Store } from "../../src/store/store.ts";
import { newSchema } from "../support/postgres.ts";
import { postgresAuditContract } from "./audit.ts";
import { storeModel } from "./model.ts";
import { storeTest, type Opened } from "./subject.ts";
import { storeContract } from "./suite.ts";

// The first test starts the server.
setDefaultTimeout(30_000);

const START_MS = 1_800_000_000_000;

async function open(): Promise<Opened> {
  const schema = await newSchema();
  const handles: Store[] = [];
  const url = await schema.grant();
  await (await openPostgres(schema.url, { clock: systemClock, random: systemRandom })).close();
  const reopen = async (): Promise<Store> => {
    const store = await openPostgres(url, { clock: systemClock, random: systemRandom });
    handles.push(store);
    return store;
  };
  const store = await reopen();
  let now_ms = START_MS;
  const moveClock = (ms: number) => schema.setClock((now_ms += ms));
  await moveClock(0);
  return {
    store,
    reopen,
    passTime: moveClock,
    jumpTime: moveClock,
    slack_ms: 0,
    async tamper(sql) {
      await schema.sql.unsafe(sql.replaceAll("lease.", `${schema.name}.`));
    },
    async dispose() {
      await Promise.all(handles.map((handle) => handle.close()));
      await schema.drop();
    },
  };
}

storeContract("PostgreSQL", open);
postgresAuditContract(storeTest(open));
storeModel("PostgreSQL", open);
