/** A statement changes a row once: what is asked twice of the same job in one call goes into a round of its own. */

export async function inRounds<Q extends { id: number }, A>(
  requests: readonly Q[],
  answer: (round: readonly Q[]) => Promise<A[]>,
): Promise<A[]> {
  const answers: A[] = [];
  let left = [...requests.entries()];
  while (left.length > 0) {
    const seen = new Set<number>();
    const round = left.filter(([, { id }]) => !seen.has(id) && seen.add(id));
    const told = await answer(round.map(([, request]) => request));
    for (const [at, [index]] of round.entries()) answers[index] = told[at] as A;
    if (round.length === left.length) break;
    const asked = new Set(round.map(([index]) => index));
    left = left.filter(([index]) => !asked.has(index));
  }
  return answers;
}
