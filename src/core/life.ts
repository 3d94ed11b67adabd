/**
 * The id of a store: one name for all time, and behind it the life that the store is in, once it was put back to an earlier
 * state (`id+life`). Tokens of different lives have nothing to do with each other.
 */

const BEHIND = "+";
const SHAPE = /^[0-9a-f-]{36}(?:\+[0-9a-z]+)?$/;

/** Anything else is not from us, and must not get into a job's environment or the name of a file. */
export function isStoreId(text: unknown): text is string {
  return typeof text === "string" && SHAPE.test(text);
}

/** The part that no restore changes. */
export function storeName(store_id: string): string {
  return store_id.split(BEHIND, 1)[0] ?? store_id;
}

export function newLife(store_id: string, at_ms: number): string {
  return `${storeName(store_id)}${BEHIND}${Math.max(0, Math.trunc(at_ms)).toString(36)}`;
}

/** Whether the store was ever put back, so that there may be something left of another life. */
export function hasOtherLives(store_id: string): boolean {
  return store_id.includes(BEHIND);
}
