/** The ends of attempts as the columns of the statement that writes them. */

import { stateColumns } from "../shared/rows.ts";
import { auditText } from "../shared/audit.ts";
import type { RecoverRequest, SettleRequest } from "../store.ts";
import { Columns, number, text } from "./session/columns.ts";

export const ENDINGS = new Columns<SettleRequest | RecoverRequest>({
  id: number(({ id }) => id),
  token: number(({ token }) => token, "integer"),
  state: text(({ change }) => change.state.name),
  run_at_ms: number(({ change }) => stateColumns(change.state)[1]),
  finished_at_ms: number(({ change }) => stateColumns(change.state)[2]),
  failures: number(({ change }) => change.failures, "integer"),
  cause: text(({ change }) => change.result.cause),
  exit_code: number(({ change }) => change.result.exit_code, "integer"),
  error: text(({ change }) => change.result.error),
  output: text(({ change }) => change.result.output),
  reason: text(({ change }) => change.reason),
  end_cause: text(({ change }) => change.ended?.cause ?? null),
  end_exit_code: number(({ change }) => change.ended?.exit_code ?? null, "integer"),
  signal: text(({ change }) => change.ended?.signal ?? null),
  end_error: text(({ change }) => change.ended?.error ?? null),
  last_line: text(({ change }) => change.ended?.last_line ?? null),
  beats: number(({ change }) => change.ended?.beats ?? 0),
  boot_id: text(({ process }) => process?.boot_id ?? null),
  pid: number(({ process }) => process?.pid ?? null),
  pid_started: number(({ process }) => process?.pid_started ?? null),
  audit: text((request) =>
    request.audit === null ? null : auditText(request, request.change.ended?.cause ?? "unknown"),
  ),
  expires_at_ms: number((request) => ("expires_at_ms" in request ? request.expires_at_ms : null)),
});
