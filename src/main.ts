/**
 * argv → command → exit code. The only place that ends the process. A plain `lease enqueue` is tried first, by a piece
 * of its own: loading the rest would take longer than queueing the job.
 */

import process from "node:process";

const [, , ...words] = process.argv;
const quick = words[0] === "enqueue" || words[0] === "add" ? await import("./commands/enqueue/quick.ts") : null;
const answer = quick === null ? null : quick.enqueueQuickly(words.slice(1), process.env);
// What it left open process.exit would close.
if (quick !== null && answer !== null && "printed" in answer && answer.printed) quick.endAtOnce(0);
const { runLine } = await import("./cli/main.ts");
process.exit(await runLine(words, answer));
