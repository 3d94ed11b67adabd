/** One input and what is made of its end. */

import { LeaseError } from "../../src/core/errors.ts";
import type { Chance } from "../sim/chance.ts";
import type { Target } from "./targets.ts";

/** Nothing takes that long that does not hang for a larger input. */
const SLOW_MS = 2_000;

export interface Judged {
  /** Null: it ended as it should. */
  problem: string | null;
  refused: boolean;
}

export async function tryOne({ go, codes }: Pick<Target, "go" | "codes">, chance: Chance): Promise<Judged> {
  let input: unknown = null;
  let refused = false;
  const started = performance.now();
  try {
    await go(chance, (given) => void (input = given));
  } catch (error) {
    refused = error instanceof LeaseError && codes.includes(error.exit_code);
    const how = error instanceof Error ? (error.stack ?? error.message) : String(error);
    if (!refused) return { problem: `${told(input)}: ${how.slice(0, 500)}`, refused };
  }
  const took_ms = Math.round(performance.now() - started);
  return { problem: took_ms > SLOW_MS ? `${told(input)}: took ${took_ms} ms` : null, refused };
}

function told(input: unknown): string {
  const readable = (_: string, value: unknown) =>
    value instanceof Uint8Array ? Buffer.from(value).toString("hex") : value;
  return (JSON.stringify(input, readable) ?? "").slice(0, 600);
}
