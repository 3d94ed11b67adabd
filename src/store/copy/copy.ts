/**
 * Copies all of one store into another, which must be empty or hold an unfinished copy of the same one. It can be
 * stopped at any moment and begun again. At the end every row is read back and compared.
 */

import { createHash } from "node:crypto";
import { LeaseError } from "../../core/errors.ts";
import type { Store } from "../store.ts";
import { KINDS, refuseOverLimit, type Kind, type Transfer, type TransferRow } from "./transfer.ts";

export interface Copied {
  counts: Record<Kind, number>;
  /** Of everything, in order. */
  digest: string;
}

export interface CopyOptions {
  from: Store;
  to: Store;
  /** Also while workers are live. */
  force: boolean;
  onCopied?: (kind: Kind, count: number) => void;
}

/** Rows at a time: those with data in them may be large. */
const PAGE = 1_000;
const SMALL_PAGE = 32;

export async function copyStore({ from, to, force, onCopied }: CopyOptions): Promise<Copied> {
  if (from.location === to.location) throw new LeaseError("usage", "a store can't be copied onto itself");
  if (!force) await refuseLive(from, to);
  const [source, target] = [await from.transfer(), await to.transfer()];
  const mark = await target.mark();
  if (mark !== null && mark !== from.location) {
    throw new LeaseError("usage", `${to.location} holds an unfinished copy of ${mark}: finish that, or name another`);
  }
  const found = mark === null ? await holds(to) : null;
  if (found !== null) throw new LeaseError("usage", `${to.location} holds ${found} already: name an empty store`);
  await target.setMark(from.location);
  await target.clear();
  const sent = new Digest();
  for (const kind of KINDS) {
    for await (const rows of pages(source, kind)) {
      refuseOverLimit(kind, rows, to.location);
      sent.add(kind, rows);
      await target.write(kind, rows);
    }
    onCopied?.(kind, sent.counts[kind]);
  }
  await to.setRetention(await from.retention());
  await target.finish(await source.nextIds());
  await compare(sent, target, to.location);
  await target.setMark(null);
  return { counts: sent.counts, digest: sent.text() };
}

/** What somebody would miss; null: it is empty. */
async function holds(store: Store): Promise<string | null> {
  if ((await store.list({ limit: 1, newest_first: false })).length > 0) return "jobs";
  if ((await store.schedules()).length > 0) return "schedules";
  if ((await store.limits()).length > 0) return "limits";
  return (await store.pausedQueues()).length > 0 ? "paused queues" : null;
}

async function refuseLive(...stores: Store[]): Promise<void> {
  for (const store of stores) {
    const live = (await store.workers()).filter(({ stopped_at_ms }) => stopped_at_ms === null);
    if (live.length === 0) continue;
    const who = live.map(({ id }) => id).join(", ");
    const advice = "stop them, or `lease watchdog --once` if they are dead, or --force";
    throw new LeaseError("misuse", `${store.location} has live workers (${who}): ${advice}`);
  }
}

async function compare(sent: Digest, target: Transfer, location: string): Promise<void> {
  const found = new Digest();
  for (const kind of KINDS) for await (const rows of pages(target, kind)) found.add(kind, rows);
  const wrong = KINDS.filter((kind) => found.counts[kind] !== sent.counts[kind] || found.of(kind) !== sent.of(kind));
  if (wrong.length === 0) return;
  const advice = "copy again while nobody uses either store";
  throw new LeaseError("store_failed", `the copy in ${location} differs in its ${wrong.join(", ")}: ${advice}`);
}

async function* pages(transfer: Transfer, kind: Kind): AsyncGenerator<readonly TransferRow[]> {
  const limit = kind === "inputs" || kind === "logs" ? SMALL_PAGE : PAGE;
  for (let behind: TransferRow | null = null; ;) {
    const rows: readonly TransferRow[] = await transfer.read(kind, behind, limit);
    if (rows.length > 0) yield rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < limit) return;
    behind = last;
  }
}

class Digest {
  readonly counts = Object.fromEntries(KINDS.map((kind) => [kind, 0])) as Record<Kind, number>;
  readonly #hashes = new Map(KINDS.map((kind) => [kind, createHash("sha256")]));

  add(kind: Kind, rows: readonly TransferRow[]): void {
    this.counts[kind] += rows.length;
    const hash = this.#hashes.get(kind);
    for (const row of rows) {
      hash?.update(JSON.stringify(row.map((cell) => (cell instanceof Uint8Array ? { bytes: cell.length } : cell))));
      for (const cell of row) if (cell instanceof Uint8Array) hash?.update(cell);
    }
  }

  of(kind: Kind): string {
    return this.#hashes.get(kind)?.copy().digest("hex") ?? "";
  }

  text(): string {
    const all = createHash("sha256");
    for (const kind of KINDS) all.update(`${kind} ${this.of(kind)}\n`);
    return all.digest("hex");
  }
}
