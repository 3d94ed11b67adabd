/** What an error checkpoint says, the same in every engine. */

import type { SettleRequest } from "../store.ts";

/** `stale`: a result that came too late, kept so that work done in vain leaves a trace. */
export function auditText({ token, change: { ended }, audit }: SettleRequest, cause: string): string {
  return JSON.stringify({
    cause,
    attempt: token,
    token,
    ...audit,
    exit_code: ended?.exit_code ?? null,
    signal: ended?.signal ?? null,
    error: ended?.error ?? null,
    ...(cause === "stale" ? { result: ended?.cause ?? null } : {}),
  });
}
