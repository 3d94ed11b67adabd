/** Small facts about the store as a whole, by name. */

import type { Connection } from "./link.ts";
import type { Statements } from "./sql.ts";

export const GET_META = "SELECT value FROM lease.meta WHERE name = $1";
const CLAIM_META = "INSERT INTO lease.meta (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
export const SET_META = "UPDATE lease.meta SET value = $2 WHERE name = $1";

/** Nobody else changes it until the transaction ends. */
export async function lockMeta<T>(
  statements: Statements,
  connection: Connection,
  name: string,
  initial: T,
): Promise<T> {
  await statements.sql(connection, CLAIM_META, [name, JSON.stringify(initial)]);
  const [row] = await statements.sql(connection, `${GET_META} FOR UPDATE`, [name]);
  return JSON.parse(row?.["value"] as string) as T;
}
