/** Small facts about the store as a whole, by name. */

import type { GenericSchema, InferOutput } from "valibot";
import { fromJson } from "../../shared/rows.ts";
import type { Connection } from "./link.ts";
import type { Statements } from "./sql.ts";

export const GET_META = "SELECT value FROM lease.meta WHERE name = $1";
const CLAIM_META = "INSERT INTO lease.meta (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
export const SET_META = "UPDATE lease.meta SET value = $2 WHERE name = $1";

/** Nobody else changes it until the transaction ends. Null when there is none yet, or none that can be read. */
export async function lockMeta<S extends GenericSchema>(
  statements: Statements,
  connection: Connection,
  name: string,
  schema: S,
): Promise<InferOutput<S> | null> {
  await statements.sql(connection, CLAIM_META, [name, "null"]);
  const [row] = await statements.sql(connection, `${GET_META} FOR UPDATE`, [name]);
  return fromJson(schema, row?.["value"]);
}
