/**
 * What somebody probably meant: the candidate that takes the fewest slips to type as `word` (a letter missing, added,
 * wrong, or two swapped), as long as those are few for its length. Case does not count; a beginning of three letters or
 * more stands for the word it begins.
 */

/** Nobody mistypes a word of this length; and the cost grows with the square. */
const LONGEST = 64;

export function nearest(word: string, candidates: readonly string[]): string | null {
  if (word.length > LONGEST) return null;
  const typed = word.toLowerCase();
  const slips = candidates.map((candidate) => slipsBetween(typed, candidate.toLowerCase()));
  const fewest = slips.reduce((least, count) => Math.min(least, count), Number.POSITIVE_INFINITY);
  const best = candidates[slips.indexOf(fewest)];
  // One slip in three letters.
  if (best !== undefined && fewest <= Math.floor(Math.max(word.length, best.length) / 3)) return best;
  if (typed.length < 3) return null;
  return candidates.find((candidate) => candidate.toLowerCase().startsWith(typed)) ?? null;
}

/** Edits from one word to the other, a swap of neighbours counting once (optimal string alignment). */
function slipsBetween(a: string, b: string): number {
  let before: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const same = a[row - 1] === b[column - 1];
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      const added = Math.min(previous[column] ?? 0, current[column - 1] ?? 0) + 1;
      const wrong = (previous[column - 1] ?? 0) + (same ? 0 : 1);
      current.push(Math.min(added, wrong, swapped ? (before[column - 2] ?? 0) + 1 : added));
    }
    before = previous;
    previous = current;
  }
  return previous[b.length] ?? 0;
}
