/** Small facts about the store as a whole, by name. */

import type { GenericSchema, InferOutput } from "valibot";
import { fromJson } from "../../shared/schemas.ts";
import { SQL } from "../statements.ts";
import type { Connection } from "./link.ts";

const CLAIM = "INSERT INTO lease.meta (name, value) VALUES ($1, 'null') ON CONFLICT DO NOTHING";

/** Nobody else changes it until the transaction ends. Null when there is none yet, or none that can be read. */
export async function lockMeta<S extends GenericSchema>(
  db: Connection,
  name: string,
  schema: S,
): Promise<InferOutput<S> | null> {
  await db.query(CLAIM, [name]);
  const [row] = await db.query(`${SQL.getMeta} FOR UPDATE`, [name]);
  return fromJson(schema, row?.["value"]);
}
