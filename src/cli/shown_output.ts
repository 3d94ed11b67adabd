/**
 * What the jobs of a worker print, on the worker's own stdout and stderr: as it comes, each line behind the job's id
 * (`--tag`), or all of a job when it has ended (`--group`), as GNU parallel does it.
 */

import type { Lease } from "../leasing/lease.ts";
import type { Stream } from "../platform/platform.ts";
import { LogReader } from "../foreground/log_reader.ts";
import type { Store } from "../store/store.ts";
import { LogText, prefixed } from "../view/log.ts";
import type { Paint } from "../view/style.ts";
import { JobOutput } from "./job_output.ts";

interface Shown {
  store: Store;
  tag: boolean;
  group: boolean;
  paint: Paint;
  /** Where a picture is drawn on the terminal that it goes to, it goes above that. */
  above: ((text: string) => void) | null;
}

/** One for each job, so that neighbours can be told apart. */
const COLORS = ["cyan", "green", "yellow", "magenta"] as const;

export class ShownOutput {
  readonly #shown: Shown;
  readonly #output = new JobOutput(() => {});
  readonly #texts = new Map<number, Record<Stream, LogText>>();
  #grouping = Promise.resolve();

  constructor(shown: Shown) {
    this.#shown = shown;
  }

  readonly printed = (lease: Lease, stream: Stream, bytes: Uint8Array): void | Promise<void> => {
    if (this.#shown.group) return;
    const texts = this.#texts.get(lease.job.id) ?? this.#newTexts(lease.job.id);
    this.#texts.set(lease.job.id, texts);
    texts[stream].add({ stream, at_ms: 0, bytes });
    // Each of them is written behind the one before: to wait for the last is to wait for all.
    return this.#written
      .splice(0)
      .map(({ to, text }) => this.#print(to, text))
      .at(-1);
  };

  /** Nothing more comes of it. */
  ended(lease: Lease): void {
    const texts = this.#texts.get(lease.job.id);
    this.#texts.delete(lease.job.id);
    for (const text of Object.values(texts ?? {})) text.end();
    for (const { to, text } of this.#written.splice(0)) void this.#print(to, text);
    if (this.#shown.group) this.#grouping = this.#grouping.then(() => this.#printGroup(lease)).catch(() => {});
  }

  async flushed(): Promise<void> {
    await this.#grouping;
    await this.#output.flushed();
  }

  readonly #written: { to: Stream; text: Uint8Array }[] = [];

  #newTexts(id: number): Record<Stream, LogText> {
    const color = this.#shown.paint[COLORS[id % COLORS.length] ?? "cyan"];
    const format = this.#shown.tag ? prefixed(color(`${id} | `), null) : null;
    const textOf = (to: Stream) =>
      new LogText({ stream: "both", format }, (bytes) => void this.#written.push({ to, text: bytes.slice() }));
    return { stdout: textOf("stdout"), stderr: textOf("stderr") };
  }

  /** From the store, which keeps it within bounds, however much it was. */
  async #printGroup({ job, token }: Lease): Promise<void> {
    const texts = this.#newTexts(job.id);
    const log = new LogReader({
      store: this.#shown.store,
      job: job.id,
      attempt: token,
      onEntry: ({ stream, at_ms, bytes }) => texts[stream].add({ stream, at_ms, bytes }),
      onGap: (bytes) => texts.stdout.gap(bytes),
    });
    await log.read();
    for (const text of Object.values(texts)) text.end();
    for (const { to, text } of this.#written.splice(0)) await this.#print(to, text);
  }

  #print(to: Stream, bytes: Uint8Array): void | Promise<void> {
    const { above } = this.#shown;
    if (above === null) return this.#output.print(to, bytes);
    above(new TextDecoder().decode(bytes));
  }
}
