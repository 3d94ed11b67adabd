/**
 * Handlers in threads of their own (`isolate: true`): one per slot, used again, and ended by force when a job does not
 * stop. So a handler that keeps its thread busy neither keeps others from beating nor outlives its lease.
 *
 * A thread gets the job and sends back what the handler says; nothing but that crosses. The handler is the default export
 * of a module, because a function can't be sent.
 */

import { LeaseError } from "../core/errors.ts";
import type { Handling, HandlerTools } from "../worker/in_process.ts";
import { toHandlerJob, type HandlerJob } from "./job.ts";
import type { LeaseView } from "./worker.ts";

/** To the thread. */
type Order =
  | { type: "run"; url: string; job: HandlerJob; lease: LeaseView }
  | { type: "abort"; cause: string; why: string }
  | { type: "noted"; note: number; error: string | null };

interface SentError {
  name: string;
  message: string;
  stack: string | undefined;
  cause: SentError | null;
}

/** From it. */
type Word =
  | { type: "beat" }
  | { type: "progress"; percent: number; message: string | undefined }
  | { type: "log"; words: readonly unknown[] }
  | { type: "checkpoint"; note: number; value: unknown }
  | { type: "done"; value: unknown }
  | { type: "failed"; error: SentError }
  | { type: "left"; how: string };

/** What runs in the thread: sent there as text, so it uses nothing from around it. */
function thread(): void {
  const scope = globalThis as unknown as {
    addEventListener(type: "message", heard: (event: { data: Order }) => void): void;
    postMessage(word: Word): void;
  };
  const say = scope.postMessage.bind(scope);
  const notes = new Map<number, { resolve: () => void; reject: (error: Error) => void }>();
  let aborter = new AbortController();
  let next = 0;
  const sent = (error: unknown, depth = 0): SentError => {
    const known = error instanceof Error ? error : new Error(String(error));
    const cause = known.cause === undefined || depth > 6 ? null : sent(known.cause, depth + 1);
    return { name: known.name, message: known.message, stack: known.stack, cause };
  };
  const run = async ({ url, job, lease }: Order & { type: "run" }): Promise<void> => {
    aborter = new AbortController();
    const tools = {
      signal: aborter.signal,
      lease,
      beat: () => say({ type: "beat" }),
      progress: (percent: number, message?: string) => say({ type: "progress", percent, message }),
      log: (...words: unknown[]) =>
        say({
          type: "log",
          words: words.map((word) => (typeof word === "string" ? word : (JSON.stringify(word) ?? String(word)))),
        }),
      checkpoint: (value: unknown) =>
        new Promise<void>((resolve, reject) => {
          notes.set((next += 1), { resolve, reject });
          say({ type: "checkpoint", note: next, value });
        }),
    };
    try {
      const { default: handler } = (await import(url)) as { default: (job: unknown, tools: unknown) => unknown };
      if (typeof handler !== "function") throw new Error(`${url} has no function as its default export`);
      say({ type: "done", value: await handler(job, tools) });
    } catch (error) {
      say({ type: "failed", error: sent(error) });
    }
  };
  scope.addEventListener("message", ({ data }) => {
    if (data.type === "run") void run(data);
    else if (data.type === "abort") {
      aborter.abort(Object.assign(new Error(data.why, { cause: data.cause }), { name: "Stopped" }));
    } else {
      const note = notes.get(data.note);
      notes.delete(data.note);
      if (data.error === null) note?.resolve();
      else note?.reject(new Error(data.error));
    }
  });
}

/** Runs there too: who leaves a thread says nothing by itself, and the job would wait for its lease to run out. */
function tellLeaving(): void {
  const scope = globalThis as unknown as Record<"process" | "Deno", unknown> & { postMessage(word: Word): void };
  const say = scope.postMessage.bind(scope);
  const { process, Deno } = scope;
  for (const [of, verb, how] of [
    [process, "exit", "process.exit"],
    [Deno, "exit", "Deno.exit"],
    [scope, "close", "close"],
  ] as const) {
    const ways = of as Record<string, unknown> | undefined;
    const leave = ways?.[verb];
    if (ways === undefined || typeof leave !== "function") continue;
    ways[verb] = (code?: unknown) => {
      say({ type: "left", how: `${how}(${code === undefined ? "" : String(code)})` });
      leave.call(ways, code);
    };
  }
}

interface Thread {
  post(order: Order): void;
  /** Who hears what it says, and what goes wrong with it. */
  hear: (word: Exclude<Word, { type: "left" }>) => void;
  broke: (error: Error) => void;
  /** It runs nothing any more, whoever ended it. */
  over: boolean;
  end(): void;
}

function startThread(): Thread {
  const text = `(${tellLeaving.toString()})();(${thread.toString()})();`;
  const source = URL.createObjectURL(new Blob([text], { type: "application/javascript" }));
  const worker = new Worker(source, { type: "module" });
  const made: Thread = {
    post: worker.postMessage.bind(worker) as (order: Order) => void,
    hear: () => {},
    broke: () => {},
    over: false,
    end: () => {
      made.over = true;
      worker.terminate();
      URL.revokeObjectURL(source);
    },
  };
  const broke = (why: string) => {
    made.end();
    made.broke(new Error(`its thread ended: ${why}`));
  };
  worker.addEventListener("message", (event) => {
    const word = (event as MessageEvent<Word>).data;
    if (word.type === "left") broke(`the handler called ${word.how}`);
    else made.hear(word);
  });
  worker.addEventListener("error", (event) => {
    event.preventDefault?.();
    broke((event as ErrorEvent).message);
  });
  // A thread that waits for jobs must not keep the program alive.
  (worker as unknown as { unref?: () => void }).unref?.();
  return made;
}

/** The default export of a module, for a handler in this thread. */
export async function loadHandler(url: URL): Promise<unknown> {
  const { default: handler } = (await import(url.href)) as { default?: unknown };
  if (typeof handler === "function") return handler;
  throw new LeaseError("usage", `${url.href} has no function as its default export`);
}

export class Isolate {
  readonly handling: Handling;
  readonly #free: Thread[] = [];
  readonly #busy = new Map<HandlerTools, Thread>();

  constructor(url: URL) {
    if (typeof Worker === "undefined") {
      throw new LeaseError("unsupported", "isolate needs a runtime that has Worker: Bun or Deno");
    }
    this.handling = {
      run: (tools) => this.#run(url, tools),
      kill: (tools) => this.#kill(tools),
    };
  }

  /** Ends the threads that wait; those of jobs have ended with them. */
  end(): void {
    for (const waiting of this.#free.splice(0)) waiting.end();
  }

  async #run(url: URL, tools: HandlerTools): Promise<unknown> {
    const { lease, signal } = tools;
    const taken = this.#takeFree() ?? startThread();
    this.#busy.set(tools, taken);
    const abort = () => {
      const { cause, message } = signal.reason as Error;
      taken.post({ type: "abort", cause: String(cause), why: message });
    };
    try {
      const result = new Promise<unknown>((resolve, reject) => {
        taken.broke = reject;
        taken.hear = (word) => void this.#heard(taken, word, tools, { resolve, reject });
      });
      signal.addEventListener("abort", abort);
      const job = toHandlerJob(lease.job, lease.grant.checkpoint);
      const { token, traceparent, held } = lease;
      taken.post({ type: "run", url: url.href, job, lease: { token, traceparent, held } });
      const value = await result;
      this.#giveBack(tools);
      return value;
    } catch (error) {
      // After a throw it can be used again; after anything else nobody knows.
      if (isThrown(error)) this.#giveBack(tools);
      else this.#kill(tools);
      throw error;
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  /** What a handler left behind in one may have ended it while it waited. */
  #takeFree(): Thread | undefined {
    let waiting = this.#free.pop();
    while (waiting?.over) waiting = this.#free.pop();
    return waiting;
  }

  async #heard(
    from: Thread,
    word: Exclude<Word, { type: "left" }>,
    tools: HandlerTools,
    end: { resolve(v: unknown): void; reject(e: Error): void },
  ) {
    if (word.type === "beat") tools.beat();
    else if (word.type === "log") tools.log(...word.words);
    else if (word.type === "done") end.resolve(word.value);
    else if (word.type === "failed") end.reject(toError(word.error));
    else {
      let error: string | null = null;
      try {
        if (word.type === "progress") tools.progress(word.percent, word.message);
        else await tools.checkpoint(word.value);
      } catch (refusal) {
        error = (refusal as Error).message;
      }
      if (word.type === "checkpoint") from.post({ type: "noted", note: word.note, error });
    }
  }

  #giveBack(tools: HandlerTools): void {
    const taken = this.#busy.get(tools);
    this.#busy.delete(tools);
    if (taken !== undefined) this.#free.push(taken);
  }

  #kill(tools: HandlerTools): void {
    this.#busy.get(tools)?.end();
    this.#busy.delete(tools);
  }
}

const THROWN = Symbol("thrown by a handler");

function isThrown(error: unknown): boolean {
  return typeof error === "object" && error !== null && THROWN in error;
}

function toError({ name, message, stack, cause }: SentError): Error {
  const error = new Error(message, cause === null ? undefined : { cause: toError(cause) });
  Object.defineProperty(error, "name", { value: name });
  Object.defineProperty(error, "stack", { value: stack ?? "" });
  Object.defineProperty(error, THROWN, { value: true });
  return error;
}
