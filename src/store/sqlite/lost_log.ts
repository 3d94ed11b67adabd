/**
 * Commits that were done and are gone, because the log was cut or has a bit that flipped: the engine takes them for one
 * that was never finished, and writes over them. The index beside the log knows better, for it is written when a commit is
 * on disk; but the first to open a store makes it anew from the log. So it is read before and after that.
 */

import { newLife } from "../../core/life.ts";
import type { SqlDatabase } from "../../platform/platform.ts";

/** What the index says of the log. */
export interface LogIndex {
  /** Two numbers of the log: whoever begins it anew takes others. Field by field: to take a list apart is slow at first. */
  salt_1: number;
  salt_2: number;
  /** Pages of commits that are done, and how many of those are in the file as well. */
  pages: number;
  folded: number;
}

/** Its head, which is there twice, then what is folded: in words of four bytes, as this machine has them. */
const HEAD_WORDS = 12;
const PAGE_SIZE = 3;
const PAGES = 4;
const SALT = 8;
const FOLDED = 2 * HEAD_WORDS;
export const INDEX_BYTES = 4 * (FOLDED + 1);

/** Null where it can't be trusted: nobody has made it yet, or both are not the same, in a moment of change. */
export function readIndex(words: Uint32Array): LogIndex | null {
  for (let at = 0; at < HEAD_WORDS; at++) if (words[at] !== words[HEAD_WORDS + at]) return null;
  if (!words[PAGE_SIZE]) return null;
  return {
    salt_1: words[SALT] ?? 0,
    salt_2: words[SALT + 1] ?? 0,
    pages: words[PAGES] ?? 0,
    folded: words[FOLDED] ?? 0,
  };
}

/** Whether there is something in the log that is nowhere else. */
export function isNeeded(index: LogIndex | null): index is LogIndex {
  return index !== null && index.folded < index.pages;
}

/** How many pages are missing from the log that was there before. */
export function lostPages(before: LogIndex | null, after: LogIndex | null): number {
  if (!isNeeded(before) || after === null || after.pages >= before.pages) return 0;
  const { salt_1, salt_2 } = after;
  // Who begins a log anew changes both, and damage but one. None: it is too short to have any, or not one of ours.
  const same = before.salt_1 === salt_1 || before.salt_2 === salt_2 || (salt_1 === 0 && salt_2 === 0);
  return same ? before.pages - after.pages : 0;
}

/** What is remembered of it. */
export const LOG_LOST = "log_lost";

const NOTE = `INSERT INTO meta (name, value) VALUES ('store_id', ?1), ('life_at_ms', ?2), ('${LOG_LOST}', ?3)
  ON CONFLICT (name) DO UPDATE SET value = excluded.value`;

/** Grants may be among what is lost: so begins a new life, as with a store that was put back. */
export function noteLoss(database: SqlDatabase, pages: number, at_ms: number): void {
  const id = database.prepare("SELECT value FROM meta WHERE name = 'store_id'").get()?.["value"];
  if (id === undefined) return;
  database.prepare(NOTE).run(newLife(String(id), at_ms), String(at_ms), JSON.stringify({ at_ms, pages }));
}
