/**
 * Resources: what a machine has (`gpu=0,1`, `mem=32G`, `license=3`), what a job needs of it, and what an attempt was
 * given. One that is named by ids is given out id by id; of any other there is an amount.
 */

/** By name, how much: so many ids, or an amount. Sizes are bytes. */
export type Needs = Readonly<Record<string, number>>;

/** By name, the ids or the amount. */
export type Resources = Readonly<Record<string, readonly string[] | number>>;

/** What a running attempt was given. */
export interface Holding {
  job: number;
  host: string;
  held: Resources;
}

const UNITS = ["", "K", "M", "G", "T"] as const;
const AMOUNT = /^(\d{1,15}(?:\.\d{1,3})?)([KMGT]?)(?:i?B)?$/i;
const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,62}$/;
const MOST_IDS = 1_024;

export type ReadResource<T> = { value: T } | { problem: string; about?: string };

/** None that every object has: it would be lost where others are looked up, or read from a row. */
export function isResourceName(name: string): boolean {
  return NAME.test(name) && !(name in Object.prototype) && name !== "prototype";
}

/** `3`, `8G`, `1.5g`, `512MiB`: units are powers of 1024. Null when it is no amount. */
function amountOf(text: string): number | null {
  const match = AMOUNT.exec(text);
  if (match === null) return null;
  const unit = UNITS.indexOf((match[2] ?? "").toUpperCase() as (typeof UNITS)[number]);
  const amount = Number(match[1]) * 1024 ** unit;
  return Number.isSafeInteger(amount) ? amount : null;
}

/** The largest unit in which it is whole. */
export function amountText(amount: number): string {
  let unit = 0;
  let value = amount;
  while (value >= 1024 && value % 1024 === 0 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value}${UNITS[unit]}`;
}

export function needText(name: string, amount: number): string {
  return amount === 1 ? name : `${name}=${amountText(amount)}`;
}

/** As they are typed. */
export function needTexts(needs: Needs): string[] {
  return Object.entries(needs).map(([name, amount]) => needText(name, amount));
}

export function haveTexts(have: Resources): string[] {
  return Object.entries(have).map(([name, has]) => {
    const of = typeof has === "number" ? amountText(has) : `${has.join(",")}${has.length === 1 ? "," : ""}`;
    return `${name}=${of}`;
  });
}

/** `gpu`, `gpu=2`, `mem=8G`, several by commas. */
export function readNeeds(text: string): ReadResource<Needs> {
  const needs: Record<string, number> = {};
  for (const part of text.split(",").filter((item) => item !== "")) {
    const [name = "", given, ...more] = part.split("=");
    const amount = given === undefined ? 1 : amountOf(given);
    if (!isResourceName(name) || more.length > 0 || amount === null || amount === 0) {
      return { problem: "is not something to need: write gpu, gpu=2 or mem=8G", about: part };
    }
    if (name in needs) return { problem: "is named twice: say how much of it once", about: name };
    needs[name] = amount;
  }
  return Object.keys(needs).length === 0 ? { problem: "needs nothing: write gpu, gpu=2 or mem=8G" } : { value: needs };
}

/** `gpu=0,1`, `gpu=0-7` (ids), `mem=32G`, `license=3` (amounts): one resource. */
export function readResource(text: string): ReadResource<readonly [name: string, has: readonly string[] | number]> {
  const equals = text.indexOf("=");
  const [name, given] = equals === -1 ? [text, ""] : [text.slice(0, equals), text.slice(equals + 1)];
  if (!isResourceName(name) || given === "") {
    return { problem: "is not something to have: write gpu=0,1 (ids), mem=32G or license=3 (amounts)" };
  }
  const amount = amountOf(given);
  if (amount === 0) return { problem: `is none at all: for the one with id 0 write ${name}=0, (a comma makes a list)` };
  if (amount !== null) return { value: [name, amount] };
  const ids = idsOf(given);
  if (ids === null) return { problem: "has ids that are no list: write gpu=0,1 or gpu=0-7, each once" };
  return { value: [name, ids] };
}

function idsOf(text: string): string[] | null {
  const ids: string[] = [];
  for (const part of text.split(",").filter((item) => item !== "")) {
    const range = /^(\d{1,6})-(\d{1,6})$/.exec(part);
    if (range === null && !/^[\w.:/-]{1,64}$/.test(part)) return null;
    if (range === null) ids.push(part);
    else for (let id = Number(range[1]); id <= Number(range[2]) && ids.length <= MOST_IDS; id++) ids.push(String(id));
  }
  const is_list = ids.length > 0 && ids.length <= MOST_IDS && new Set(ids).size === ids.length;
  return is_list ? ids : null;
}

/** How much that is: so many ids, or the amount. */
export function sizeOf(has: readonly string[] | number | undefined): number {
  return typeof has === "number" ? has : (has?.length ?? 0);
}

/** How a job sees what it was given: `LEASE_NEED_GPU=0,1`, `LEASE_NEED_MEM=8589934592`. */
export function needVariables(held: Resources): Record<string, string> {
  return Object.fromEntries(
    Object.entries(held).map(([name, given]) => [
      `LEASE_NEED_${name.toUpperCase().replaceAll("-", "_")}`,
      typeof given === "number" ? String(given) : given.join(","),
    ]),
  );
}
