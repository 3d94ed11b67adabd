/**
 * Counts lines in a stream of bytes and remembers the last few, in bounded memory whatever a job prints: a line of a
 * gigabyte is as cheap as a gigabyte of lines. LF, CR and CR LF each end a line; what a job flushed without ending it
 * counts as one, because it proves just as well that the job works.
 */

const LF = 10;
const CR = 13;
const TAIL_BYTES = 8 * 1024;
const TAIL_PIECES = 1_000;
const LINE_LIMIT = 500;

export class LineCounter {
  #after_cr = false;

  /** How many lines this piece ends, at least one for any bytes at all. */
  count(bytes: Uint8Array): number {
    let lines = 0;
    let after_cr = this.#after_cr;
    // An index loop: this runs over every byte that every job prints.
    for (let i = 0; i < bytes.length; i++) {
      const byte = bytes[i];
      if (byte === LF) {
        if (!after_cr) lines += 1;
        after_cr = false;
      } else if (byte === CR) {
        lines += 1;
        after_cr = true;
      } else after_cr = false;
    }
    this.#after_cr = after_cr;
    return Math.max(lines, bytes.length > 0 ? 1 : 0);
  }
}

/** The newest few kilobytes of what was printed, for "last line" and the audit trail. */
export class Tail {
  #pieces: Uint8Array[] = [];
  #size = 0;

  add(piece: Uint8Array): void {
    // A copy: the caller's bytes are only valid during the call.
    const kept = piece.slice(Math.max(0, piece.length - TAIL_BYTES));
    this.#pieces.push(kept);
    this.#size += kept.length;
    if (this.#size > 4 * TAIL_BYTES || this.#pieces.length > TAIL_PIECES) this.#pieces = [this.#join()];
    if (this.#pieces.length === 1) this.#size = this.#pieces[0]?.length ?? 0;
  }

  #join(): Uint8Array {
    const all = new Uint8Array(this.#size);
    let at = 0;
    for (const piece of this.#pieces) {
      all.set(piece, at);
      at += piece.length;
    }
    return all.slice(Math.max(0, all.length - TAIL_BYTES));
  }

  /** The last `most` lines that say something, oldest first. */
  lines(most: number): string[] {
    const lines = new TextDecoder().decode(this.#join()).split(/[\r\n]+/);
    const spoken = lines.filter((line) => line.trim() !== "").slice(-most);
    return spoken.map((line) => (line.length > LINE_LIMIT ? `${line.slice(0, LINE_LIMIT)}…` : line));
  }
}
