/**
 * Group commit: what several slots ask at the same time becomes one statement. While one is under way, what comes in is
 * gathered for the next; so a lone request goes out at once and many share a round trip and a sync.
 */

interface Waiting<Q, A> {
  requests: readonly Q[];
  resolve: (answers: A[]) => void;
  reject: (error: unknown) => void;
}

/** Rows in one statement: long enough to be worth it, short enough that nobody waits long behind it. */
const MOST = 1_000;

export class Gather<Q, A> {
  readonly #send: (requests: readonly Q[]) => Promise<A[]>;
  #waiting: Waiting<Q, A>[] = [];
  #under_way = false;
  #scheduled = false;
  #patient: ReturnType<typeof setTimeout> | null = null;
  #idle: (() => void)[] = [];

  constructor(send: (requests: readonly Q[]) => Promise<A[]>) {
    this.#send = send;
  }

  /** With `within_ms` it may wait so long for others; one that is in a hurry takes it along at once. */
  ask(requests: readonly Q[], within_ms = 0): Promise<A[]> {
    if (requests.length === 0) return Promise.resolve([]);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ requests, resolve, reject });
      if (this.#scheduled || this.#under_way) return;
      if (within_ms > 0) this.#patient ??= setTimeout(() => this.#flush(), within_ms);
      else {
        this.#scheduled = true;
        queueMicrotask(() => this.#flush());
      }
    });
  }

  /** Resolves when everything that was asked has been answered. */
  settled(): Promise<void> {
    if (this.#patient !== null) this.#flush();
    if (!this.#under_way && this.#waiting.length === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  #flush(): void {
    this.#scheduled = false;
    if (this.#patient !== null) clearTimeout(this.#patient);
    this.#patient = null;
    if (this.#under_way) return;
    const batch = this.#take();
    if (batch.length === 0) {
      for (const resolve of this.#idle.splice(0)) resolve();
      return;
    }
    this.#under_way = true;
    void this.#carryOut(batch).then(() => {
      this.#under_way = false;
      this.#flush();
    });
  }

  #take(): Waiting<Q, A>[] {
    let rows = 0;
    let count = 0;
    for (const { requests } of this.#waiting) {
      if (count > 0 && rows + requests.length > MOST) break;
      rows += requests.length;
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }

  async #carryOut(batch: readonly Waiting<Q, A>[]): Promise<void> {
    try {
      const answers = await this.#send(batch.flatMap(({ requests }) => requests));
      let from = 0;
      for (const { requests, resolve } of batch) resolve(answers.slice(from, (from += requests.length)));
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}
