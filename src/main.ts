/**
 * argv → command → exit code. The only place that ends the process. What scripts call thousands of times a day is tried
 * first, by a piece of its own: loading the rest would take longer than doing it.
 */

import process from "node:process";

const [, , ...words] = process.argv;
const { answerQuickly, endAtOnce } = await import("./quick/quick.ts");
const answer = answerQuickly(words, process.env);
// What it left open process.exit would close.
if (answer !== null && "printed" in answer && answer.printed) endAtOnce(0);
const { runLine } = await import("./cli/main.ts");
process.exit(await runLine(words, answer));
