/**
 * A store whose files are not what was written: what can be told of it afterwards. `same`: all that was acknowledged is as
 * it was. `named`: whoever asks is told that it is damaged. `silent`: it is not as it was, and nobody says so.
 */

import { createHash } from "node:crypto";
import { LeaseError, errorText } from "../../src/core/errors.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { KINDS } from "../../src/store/copy/transfer.ts";
import type { Store } from "../../src/store/store.ts";

export const PAGE_BYTES = 4_096;

export type Told = { kind: "same" | "named" | "silent" | "stack"; why: string };

/** Of everything that a copy would carry, by kind. */
export async function contentOf(store: Store): Promise<string> {
  const transfer = await store.transfer();
  const hash = createHash("sha256");
  for (const kind of KINDS) {
    for (const row of await transfer.read(kind, null, 10_000)) {
      const cells = row.map((cell) => (cell instanceof Uint8Array ? Buffer.from(cell).toString("hex") : cell));
      hash.update(`${kind}${JSON.stringify(cells)}`);
    }
  }
  return hash.digest("hex");
}

/** What the store itself says is wrong with it. */
async function complaints(store: Store): Promise<string[]> {
  const found = (await store.diagnose()).filter(({ name, level }) => level !== "ok" && TELLING.has(name));
  const jobs = await store.list({ limit: 10_000, newest_first: false });
  const audited = await store.audit();
  return [
    ...found.map(({ name, value }) => `${name}: ${value}`),
    ...jobs.flatMap(({ id, damaged }) => (damaged === undefined ? [] : [`job ${id}: ${damaged}`])),
    ...audited.flatMap(({ name, broken }) => broken.map(({ text }) => `${name}: ${text}`)),
  ];
}

const TELLING: ReadonlySet<string> = new Set(["integrity", "counts", "jobs", "log"]);

export async function tellOf(path: string, content: string): Promise<Told> {
  let store: Store | null = null;
  try {
    store = await openSqlite(path, { clock: systemClock, random: systemRandom, trust: true });
    const [found] = await complaints(store);
    if (found !== undefined) return { kind: "named", why: found };
    return (await contentOf(store)) === content ? { kind: "same", why: "" } : { kind: "silent", why: "" };
  } catch (error) {
    if (error instanceof LeaseError) return { kind: "named", why: `${error.code}: ${error.message}` };
    return { kind: "stack", why: errorText(error) };
  } finally {
    await store?.close().catch(() => {});
  }
}
