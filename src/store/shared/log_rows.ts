/** Pieces of logs as they are stored. Of one that is damaged, only where it is can be told, so that a reader gets past it. */

import { once } from "../../core/once.ts";
import * as v from "valibot";
import type { LogChunk } from "../../core/records.ts";
import type { SqlRow } from "../../platform/platform.ts";
import { RowTable, natural } from "./cells.ts";

const NOTHING = new Uint8Array(0);

const LOG = new RowTable({
  start: natural,
  bytes: natural,
  data: { schema: once(() => v.instance(Uint8Array)), test: (value) => value instanceof Uint8Array, instead: NOTHING },
});

export function toLogChunk(row: SqlRow): LogChunk {
  const { values, damage } = LOG.read(row);
  return damage === null ? values : { ...values, data: NOTHING };
}
