/** What jobs print, in pieces. */

import type { LogWrite } from "../store.ts";
import type { Statements } from "./connection.ts";

export function appendLogs(statements: Statements, writes: readonly LogWrite[]): void {
  for (const { id, token, chunks, head_bytes, keep_from } of writes) {
    const row = statements.get("fence").get(id);
    if (row === null || row["state"] !== "running" || row["token"] !== token) continue;
    for (const { start, bytes, data } of chunks) statements.get("insertLog").run(id, token, start, bytes, data);
    if (keep_from > head_bytes) statements.get("trimLog").run(id, token, head_bytes, keep_from);
  }
}
