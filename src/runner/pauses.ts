/**
 * Whether this process has just been asleep: stopped, frozen, or without a processor. What happened meanwhile is heard of
 * only now, and happened at any time since. Ticks while something runs; a tick that comes late tells of a pause.
 */

const TICK_MS = 100;
/** So much later than it should be, a tick may be on a busy machine. */
const LATE_MS = 60;
/** News from a pause come together with its end. */
const NEWS_MS = 100;

export class Pauses {
  #users = 0;
  #timer: ReturnType<typeof setInterval> | null = null;
  #ticked_ms = 0;
  #last = { from_ms: 0, until_ms: -Infinity };

  begin(): void {
    this.#users += 1;
    if (this.#timer !== null) return;
    this.#ticked_ms = performance.now();
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
    this.#timer.unref();
  }

  end(): void {
    this.#users -= 1;
  }

  /** What is heard of now may have happened so long ago. */
  doubt(): number {
    const now_ms = performance.now();
    this.#notice(now_ms);
    return now_ms - this.#last.until_ms <= NEWS_MS ? now_ms - this.#last.from_ms : 0;
  }

  #tick(): void {
    const now_ms = performance.now();
    this.#notice(now_ms);
    this.#ticked_ms = now_ms;
    // Not at the end of each: one of many short jobs begins right behind another.
    if (this.#users > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }

  #notice(now_ms: number): void {
    if (now_ms - this.#ticked_ms > TICK_MS + LATE_MS) this.#last = { from_ms: this.#ticked_ms, until_ms: now_ms };
  }
}
