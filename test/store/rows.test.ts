/** The quick look at a job's columns against the schemas that it stands for. */

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import * as v from "valibot";
import type { SqlRow, SqlValue } from "../../src/platform/platform.ts";
import { JOB_COLUMNS, JOB_JSON, toJob } from "../../src/store/shared/rows.ts";

const COLUMNS = { ...JOB_JSON, ...JOB_COLUMNS };
const JOB = v.object(Object.fromEntries(Object.entries(COLUMNS).map(([name, { schema }]) => [name, schema()])));

const READABLE: SqlRow = {
  id: 1,
  state: "pending",
  queue: "default",
  priority: 0,
  run_at_ms: 1,
  token: 0,
  failures: 0,
  retries: 3,
  lease_ms: null,
  holder: null,
  expires_at_ms: null,
  cancel_requested_at_ms: null,
  created_at_ms: 1,
  started_at_ms: null,
  finished_at_ms: null,
  last_beat_at_ms: null,
  task: null,
  key: null,
  argv: '["true"]',
  cwd: "/",
  settings: '{"pty":true}',
  env: '{"A":"1"}',
  progress: null,
  message: null,
  cause: null,
  exit_code: null,
  error: null,
  output: null,
  reason: null,
};
const ODD: readonly SqlValue[] = [
  null,
  "",
  "failed",
  "exit",
  "[]",
  -1,
  0,
  0.5,
  2 ** 31 - 2,
  2 ** 31 - 1,
  2 ** 50,
  2 ** 50 + 1,
];
const ABSURD: readonly SqlValue[] = [
  8.64e15,
  8.64e15 + 1,
  -8.64e15,
  2 ** 53 - 1,
  2 ** 53,
  Number.POSITIVE_INFINITY,
  Number.NaN,
  new Uint8Array(1),
];

describe("a row", () => {
  test("is readable at a glance exactly when the schema accepts it, whatever a column holds", () => {
    for (const [name, column] of Object.entries(JOB_COLUMNS)) {
      for (const value of [...ODD, ...ABSURD, undefined]) {
        expect([name, value, column.test(value)]).toEqual([name, value, v.is(column.schema(), value)]);
      }
    }
  });

  test("of any kind can be read, twice, and is damaged exactly when the schema refuses it", () => {
    const value = fc.oneof(fc.constantFrom(...ODD, ...ABSURD), fc.string(), fc.json(), fc.double());
    const changes = fc.dictionary(fc.constantFrom(...Object.keys(READABLE)), value, { maxKeys: 3 });
    fc.assert(
      fc.property(changes, (changed) => {
        const row = { ...READABLE, ...changed };
        const job = toJob(row);
        expect(job.damaged === undefined).toBe(v.is(JOB, row));
        expect(toJob(row)).toEqual(job);
      }),
    );
  });
});
