/**
 * A quick look at a job's row, for lists and acquires of many: the columns that are not JSON, checked by hand, because a
 * schema takes longer for them than the engine for the row. It only ever says yes to what the schema of the job accepts;
 * whoever gets a no asks the schema, which also knows why. A test holds the two against each other.
 */

import { CAUSES, STATE_NAMES } from "../../core/job.ts";
import type { SqlRow, SqlValue } from "../../platform/platform.ts";
import { LONGEST_LEASE_MS, MOST_GRANTS } from "./columns.ts";
import { LATEST_MS } from "./schemas.ts";

type Value = SqlValue | undefined;

const STATES: ReadonlySet<Value> = new Set(STATE_NAMES);
const ENDS: ReadonlySet<Value> = new Set([null, ...CAUSES]);

const isText = (value: Value) => typeof value === "string";
const isTextOrNull = (value: Value) => value === null || typeof value === "string";
const isInt = (value: Value) => Number.isSafeInteger(value);
const isTime = (value: Value) => Number.isInteger(value) && Math.abs(value as number) <= LATEST_MS;
const isTimeOrNull = (value: Value) => value === null || isTime(value);
const isUpTo = (value: Value, most: number) => isInt(value) && (value as number) >= 0 && (value as number) <= most;

export function isSound(row: SqlRow): boolean {
  return (
    isInt(row["id"]) &&
    STATES.has(row["state"]) &&
    isText(row["queue"]) &&
    isInt(row["priority"]) &&
    isTime(row["run_at_ms"]) &&
    isUpTo(row["token"], MOST_GRANTS - 1) &&
    isUpTo(row["failures"], MOST_GRANTS - 1) &&
    isUpTo(row["retries"], Number.MAX_SAFE_INTEGER) &&
    (row["lease_ms"] === null || isUpTo(row["lease_ms"], LONGEST_LEASE_MS)) &&
    isTextOrNull(row["holder"]) &&
    isTimeOrNull(row["expires_at_ms"]) &&
    isTimeOrNull(row["cancel_requested_at_ms"]) &&
    isTime(row["created_at_ms"]) &&
    isTimeOrNull(row["started_at_ms"]) &&
    isTimeOrNull(row["finished_at_ms"]) &&
    isTimeOrNull(row["last_beat_at_ms"]) &&
    isTextOrNull(row["task"]) &&
    isTextOrNull(row["key"]) &&
    isText(row["cwd"]) &&
    (row["progress"] === null || Number.isFinite(row["progress"])) &&
    isTextOrNull(row["message"]) &&
    ENDS.has(row["cause"]) &&
    (row["exit_code"] === null || isInt(row["exit_code"])) &&
    isTextOrNull(row["error"]) &&
    isTextOrNull(row["output"]) &&
    isTextOrNull(row["reason"])
  );
}
