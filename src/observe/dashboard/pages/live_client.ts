/**
 * What a page shows, and how it stays so: one stream of events for all that is on it. A tab that nobody sees lets go of
 * its stream; one that lost it comes back by itself.
 */

import { useEffect, useState } from "preact/hooks";
import { TAB } from "./requests.ts";

export interface Shown<T> {
  status: number;
  body: T | null;
  /** What went wrong, when it did. */
  error: string | null;
}

interface Entry {
  /** As the server knows it now; a log goes on from where it is. */
  path: () => string;
  listeners: Set<(status: number, body: unknown) => void>;
}

interface Message {
  path: string;
  now: number;
  status: number;
  body: unknown;
}

/** `idle`: the page shows nothing that could change. */
export type Link = "idle" | "live" | "connecting" | "lost";

const RETRY_MS = 1_500;
const HIDDEN_FOR_MS = 5_000;

class LiveClient {
  readonly #entries = new Map<string, Entry>();
  readonly #known = new Map<string, Message>();
  #source: EventSource | null = null;
  #planned = 0;
  #offset_ms = 0;
  link: Link = "idle";
  readonly linkListeners = new Set<() => void>();

  constructor() {
    document.addEventListener("visibilitychange", () => {
      this.#plan(document.hidden ? HIDDEN_FOR_MS : 0);
    });
  }

  /** The store's clock. */
  now_ms(): number {
    return Date.now() + this.#offset_ms;
  }

  /** What was shown under this name before, for a page that is come back to. */
  known(name: string): Message | undefined {
    return this.#known.get(name);
  }

  follow(name: string, path: () => string, listener: (status: number, body: unknown) => void): () => void {
    const entry = this.#entries.get(name) ?? { path, listeners: new Set() };
    this.#entries.set(name, entry);
    entry.listeners.add(listener);
    this.#plan(0);
    return () => {
      entry.listeners.delete(listener);
      if (entry.listeners.size > 0) return;
      this.#entries.delete(name);
      this.#plan(0);
    };
  }

  /** What is shown under this name is asked for by another path now. */
  moved(name: string): void {
    if (this.#entries.has(name)) this.#plan(0);
  }

  /** Soon, so that all that a page changes at once is one change. */
  #plan(delay_ms: number): void {
    clearTimeout(this.#planned);
    this.#planned = window.setTimeout(() => this.#connect(), delay_ms);
  }

  #connect(): void {
    this.#source?.close();
    this.#source = null;
    if (this.#entries.size === 0) this.#turn("idle");
    if (this.#entries.size === 0 || document.hidden) return;
    if (this.link === "idle") this.#turn("connecting");
    const names = new Map([...this.#entries].map(([name, { path }]) => [path(), name]));
    const query = [...names.keys()].map((path) => `path=${encodeURIComponent(path)}`).join("&");
    const source = new EventSource(`/api/live?tab=${TAB}&${query}`);
    this.#source = source;
    source.addEventListener("open", () => this.#turn("live"));
    source.addEventListener("error", () => {
      this.#turn("lost");
      source.close();
      if (this.#source === source) this.#plan(RETRY_MS);
    });
    source.addEventListener("message", (event: MessageEvent<string>) => {
      const message = JSON.parse(event.data) as Message;
      this.#offset_ms = message.now - Date.now();
      const name = names.get(message.path);
      if (name === undefined) return;
      this.#known.set(name, message);
      for (const listener of this.#entries.get(name)?.listeners ?? []) listener(message.status, message.body);
    });
  }

  #turn(link: Link): void {
    if (this.link === link) return;
    this.link = link;
    for (const listener of this.linkListeners) listener();
  }
}

export const live = new LiveClient();

/** The answer to a path, kept up to date; null: nothing is asked. */
export function useLive<T>(path: string | null): Shown<T> {
  const [shown, setShown] = useState<{ path: string | null; message: Shown<T> }>({ path: null, message: NOTHING });
  useEffect(() => {
    if (path === null) return undefined;
    return live.follow(
      path,
      () => path,
      (status, body) => setShown({ path, message: shownOf<T>(status, body) }),
    );
  }, [path]);
  if (shown.path === path) return shown.message;
  const known = path === null ? undefined : live.known(path);
  return known === undefined ? NOTHING : shownOf<T>(known.status, known.body);
}

const NOTHING = { status: 0, body: null, error: null };

function shownOf<T>(status: number, body: unknown): Shown<T> {
  if (status === 200) return { status, body: body as T, error: null };
  return { status, body: null, error: (body as { error?: string } | null)?.error ?? "something went wrong" };
}

/** The time, again every second. */
export function useNow(): number {
  const [now_ms, setNow] = useState(() => live.now_ms());
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) setNow(live.now_ms());
    }, 1_000);
    return () => clearInterval(timer);
  }, []);
  return now_ms;
}

export function useLink(): Link {
  const [link, setLink] = useState(live.link);
  useEffect(() => {
    const changed = () => setLink(live.link);
    live.linkListeners.add(changed);
    return () => void live.linkListeners.delete(changed);
  }, []);
  return link;
}
