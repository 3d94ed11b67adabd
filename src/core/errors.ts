/**
 * The one error type of the project. A code says what happened, the message says in one line what to do about it,
 * and EXIT_CODES is the only place where a code becomes an exit status.
 */

export const EXIT_CODES = {
  usage: 2,
  calibration: 2,
  invalid_config: 2,
  invalid_line: 2,
  invalid_job: 2,
  input_too_large: 2,
  dependency: 2,
  no_such_job: 1,
  not_running: 1,
  job_finished: 1,
  key_exists: 1,
  no_store: 1,
  nothing_matched: 1,
  cancel_requested: 3,
  lease_lost: 4,
  timed_out: 124,
  store_path: 125,
  store_untrusted: 125,
  store_second_name: 125,
  store_replaced: 125,
  store_schema: 125,
  store_network: 125,
  store_not_database: 125,
  store_corrupt: 125,
  store_readonly: 125,
  store_full: 125,
  store_busy: 125,
  store_newer: 125,
  store_failed: 125,
  damaged_row: 125,
  unsupported: 125,
  misuse: 125,
  not_executable: 126,
  not_found: 127,
} as const;

export type ErrorCode = keyof typeof EXIT_CODES;

export class LeaseError extends Error {
  readonly code: ErrorCode;
  /** Which of the things that were asked for at once it is about, from 0 on; null where that is not known. */
  readonly index: number | null;

  constructor(code: ErrorCode, message: string, options?: { cause?: unknown; index?: number }) {
    super(message, options);
    this.name = "LeaseError";
    this.code = code;
    this.index = options?.index ?? null;
  }

  get exit_code(): number {
    return EXIT_CODES[this.code];
  }
}

/** Whether it is the store as a whole that can't be used, and not what was asked of it. */
export function isStoreTrouble(error: unknown): boolean {
  return error instanceof LeaseError && error.code.startsWith("store_");
}

/** What was opened is gone or another one: nothing that is written will be kept, and no second try helps. */
export function isReplaced(error: unknown): error is LeaseError {
  return error instanceof LeaseError && error.code === "store_replaced";
}

/** A broken promise inside the program, never the user's doing: fail loudly instead of writing something wrong. */
export function assert(condition: unknown, promise: string): asserts condition {
  if (!condition) throw new Error(`broken promise: ${promise}`);
}

/** The words of anything that was thrown. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
