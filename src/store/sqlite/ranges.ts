/**
 * Jobs that are meant together are most often neighbours: they were enqueued together. A statement that is told the first
 * and the last of them walks from one to the next, and need not look for each in a list.
 */

export type IdRange = readonly [first: number, last: number];

/** Of fewer it takes no time to speak of, however they are named. */
const MANY = 100;

/** What of them are many in a row, and the others. */
export function inRanges(ids: readonly number[]): { ranges: IdRange[]; others: number[] } {
  const ranges: IdRange[] = [];
  const others: number[] = [];
  for (let from = 0; from < ids.length;) {
    const first = ids[from] ?? 0;
    let end = from + 1;
    while (end < ids.length && ids[end] === first + end - from) end += 1;
    if (end - from < MANY) others.push(...ids.slice(from, end));
    else ranges.push([first, first + end - from - 1]);
    from = end;
  }
  return { ranges, others };
}

/** All of them in one row; null where they are not that, or few. */
export function rangeOf(ids: readonly number[]): IdRange | null {
  const [first = 0, last = 0] = [ids[0], ids.at(-1)];
  if (last - first !== ids.length - 1) return null;
  const { ranges, others } = inRanges(ids);
  return others.length === 0 && ranges.length === 1 ? (ranges[0] ?? null) : null;
}
