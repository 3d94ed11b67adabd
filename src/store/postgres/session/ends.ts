/** What the statements that end attempts are told of each. */

import { stateColumns } from "../../shared/rows.ts";
import { auditText } from "../../shared/verdicts.ts";
import type { RecoverRequest, SettleRequest } from "../../store.ts";
import { Columns } from "./arrays.ts";

export const ENDS = new Columns<SettleRequest | RecoverRequest>({
  id: ["bigint", ({ id }) => id],
  token: ["integer", ({ token }) => token],
  state: ["text", ({ change }) => change.state.name],
  run_at_ms: ["bigint", ({ change }) => stateColumns(change.state)[1]],
  finished_at_ms: ["bigint", ({ change }) => stateColumns(change.state)[2]],
  failures: ["integer", ({ change }) => change.failures],
  cause: ["text", ({ change }) => change.result.cause],
  exit_code: ["integer", ({ change }) => change.result.exit_code],
  error: ["text", ({ change }) => change.result.error],
  output: ["text", ({ change }) => change.result.output],
  reason: ["text", ({ change }) => change.reason],
  end_cause: ["text", ({ change }) => change.ended?.cause ?? null],
  end_exit_code: ["integer", ({ change }) => change.ended?.exit_code ?? null],
  signal: ["text", ({ change }) => change.ended?.signal ?? null],
  end_error: ["text", ({ change }) => change.ended?.error ?? null],
  last_line: ["text", ({ change }) => change.ended?.last_line ?? null],
  beats: ["bigint", ({ change }) => change.ended?.beats ?? 0],
  boot_id: ["text", ({ process }) => process?.boot_id ?? null],
  pid: ["bigint", ({ process }) => process?.pid ?? null],
  pid_started: ["bigint", ({ process }) => process?.pid_started ?? null],
  fence: ["text", ({ change }) => change.ended?.fence ?? null],
  cpu_ms: ["bigint", ({ change }) => change.ended?.cpu_ms ?? null],
  memory_bytes: ["bigint", ({ change }) => change.ended?.memory_bytes ?? null],
  audit: ["text", (request) => (request.audit === null ? null : auditText(request))],
  ended_at_ms: ["bigint", ({ ended_at_ms }) => ended_at_ms ?? null],
  expires_at_ms: ["bigint", (request) => ("expires_at_ms" in request ? request.expires_at_ms : null)],
});

/** Of successes of functions, of which there is no more to say. */
const COMPLETION = {
  id: ["bigint", ({ id }) => id],
  token: ["integer", ({ token }) => token],
  finished_at_ms: ["bigint", ({ change }) => stateColumns(change.state)[2]],
  failures: ["integer", ({ change }) => change.failures],
  exit_code: ["integer", ({ change }) => change.ended.exit_code],
  output: ["text", ({ change }) => change.result.output],
  last_line: ["text", ({ change }) => change.ended.last_line],
  beats: ["bigint", ({ change }) => change.ended.beats],
} satisfies ConstructorParameters<typeof Columns<SettleRequest>>[0];
export const COMPLETIONS = new Columns<SettleRequest>(COMPLETION);
/** Most say the same but for the time; to look for each job at what it says takes a tenth of the statement. */
export const COMPLETIONS_ALIKE = new Columns<SettleRequest>(
  COMPLETION,
  Object.keys(COMPLETION).filter((name) => name !== "id" && name !== "finished_at_ms"),
);
