/** What happened in a life, as a table: one line for each write, with what it changed. The same seed prints the same bytes. */

import type { Job } from "../../src/core/job.ts";
import type { Jobs } from "./objection.ts";

export interface Event {
  at_ms: number;
  who: string;
  what: string;
  answer: string;
  /** Of jobs: `3: pending → running(1)`. */
  changes: string;
}

const LONGEST = 60;

export function eventOf(
  verb: string,
  args: readonly unknown[],
  answer: unknown,
  before: Jobs,
  after: Jobs,
): Omit<Event, "at_ms" | "who"> {
  return { what: `${verb}${aboutArgs(args)}`, answer: short(summary(answer)), changes: changesOf(before, after) };
}

function aboutArgs(args: readonly unknown[]): string {
  const [first] = args;
  const list = Array.isArray(first) ? first : first === undefined ? [] : [first];
  const about = list.map((one: unknown) => {
    if (typeof one !== "object" || one === null) return String(one);
    if ("id" in one && "token" in one) return `${one.id}:${one.token}`;
    if ("holder" in one) return String(one.holder);
    if ("name" in one) return String(one.name ?? "");
    return "";
  });
  if (typeof args[1] === "boolean") about.push(String(args[1]));
  const text = about.filter((one) => one !== "").join(" ");
  return text === "" ? "" : ` ${short(text)}`;
}

function summary(answer: unknown): string {
  if (answer instanceof Error) return `failed: ${answer.message.split("\n")[0]}`;
  if (!Array.isArray(answer)) return typeof answer === "object" && answer !== null ? "" : String(answer ?? "");
  return answer
    .map((one: unknown) => {
      if (typeof one !== "object" || one === null) return String(one);
      if ("job" in one) return `${(one.job as Job).id}:${(one.job as Job).token}`;
      if ("status" in one) return String(one.status);
      return "id" in one ? String(one.id) : "";
    })
    .join(" ");
}

function changesOf(before: Jobs, after: Jobs): string {
  if (before === after) return "";
  const texts: string[] = [];
  for (const [id, job] of after) {
    const [was, is] = [before.get(id), stateText(job)];
    if (was === undefined) texts.push(`+${id}: ${is}`);
    else if (was !== job && stateText(was) !== is) texts.push(`${id}: ${stateText(was)} → ${is}`);
  }
  for (const id of before.keys()) if (!after.has(id)) texts.push(`-${id}`);
  return texts.join(", ");
}

function stateText({ state, token }: Job): string {
  if (state.name !== "running") return state.name;
  return `${state.cancel_requested_at_ms === null ? "running" : "cancelling"}(${token})`;
}

const short = (text: string): string => (text.length <= LONGEST ? text : `${text.slice(0, LONGEST - 1)}…`);

export function historyTable(events: readonly Event[]): string {
  const head = { at: "AT", who: "WHO", what: "WHAT", answer: "ANSWER", changes: "JOBS" };
  const rows = [head, ...events.map(({ at_ms, ...rest }) => ({ at: (at_ms / 1_000).toFixed(3), ...rest }))];
  const widthOf = (name: keyof typeof head) => Math.max(...rows.map((row) => row[name].length));
  const [at, who, what, answer] = [widthOf("at"), widthOf("who"), widthOf("what"), widthOf("answer")];
  return rows
    .map((row) =>
      [row.at.padStart(at), row.who.padEnd(who), row.what.padEnd(what), row.answer.padEnd(answer), row.changes]
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
