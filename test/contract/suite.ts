/**
 * The one suite that every store passes. It knows nothing but the interface: an engine brings a function that opens an
 * empty store and lets its time pass.
 */

import { describe } from "bun:test";
import { acquireContract } from "./acquire.ts";
import { auditContract } from "./audit.ts";
import { bulkContract } from "./bulk.ts";
import { controlContract } from "./control.ts";
import { damageContract } from "./damage.ts";
import { dependenciesContract } from "./dependencies.ts";
import { enqueueContract } from "./enqueue.ts";
import { enqueueOptionsContract } from "./enqueue_options.ts";
import { figuresContract } from "./figures.ts";
import { handlesContract } from "./handles.ts";
import { holderContract } from "./holder.ts";
import { editContract } from "./edit.ts";
import { hooksContract } from "./hooks.ts";
import { learnedContract } from "./learned.ts";
import { limitsContract } from "./limits.ts";
import { listingContract } from "./listing.ts";
import { logsContract } from "./logs.ts";
import { pruneContract } from "./prune.ts";
import { queueHistoryContract } from "./queue_history.ts";
import { resourcesContract } from "./resources.ts";
import { schedulesContract } from "./schedules.ts";
import { readContract } from "./read.ts";
import { recordsContract } from "./records.ts";
import { recoverContract } from "./recover.ts";
import { searchContract } from "./search.ts";
import { settleContract } from "./settle.ts";
import { textsContract } from "./texts.ts";
import { storeTest, type OpenStore } from "./subject.ts";

export function storeContract(name: string, open: OpenStore): void {
  describe(`the ${name} store`, () => {
    const test = storeTest(open);
    enqueueContract(test);
    enqueueOptionsContract(test);
    bulkContract(test);
    acquireContract(test);
    holderContract(test);
    settleContract(test);
    recoverContract(test);
    controlContract(test);
    dependenciesContract(test);
    limitsContract(test);
    schedulesContract(test);
    resourcesContract(test);
    logsContract(test);
    readContract(test);
    listingContract(test);
    searchContract(test);
    figuresContract(test);
    queueHistoryContract(test);
    recordsContract(test);
    editContract(test);
    hooksContract(test);
    learnedContract(test);
    pruneContract(test);
    handlesContract(test);
    textsContract(test);
    damageContract(test);
    auditContract(test);
  });
}
