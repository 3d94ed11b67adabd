/** Asking the server to change something, and telling how that went. */

/** By which the server knows who has changed something, and wants to see that first. */
export const TAB = crypto.getRandomValues(new Uint32Array(2)).join("-");

export class Refusal extends Error {}

export async function send<T>(path: string, body: object): Promise<T> {
  const response = await fetch(`/api${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", "lease-tab": TAB },
    body: JSON.stringify(body),
  }).catch(() => {
    throw new Refusal("lease ui does not answer: is it still running?");
  });
  const told = (await response.json().catch(() => null)) as (T & { error?: string }) | null;
  if (!response.ok) throw new Refusal(told?.error ?? `refused (${response.status})`);
  return told as T;
}

export async function load<T>(path: string): Promise<T> {
  const response = await fetch(`/api${path}`);
  const told = (await response.json()) as T & { error?: string };
  if (!response.ok) throw new Refusal(told.error ?? `refused (${response.status})`);
  return told;
}

export interface Toast {
  id: number;
  text: string;
  bad: boolean;
  /** Where it leads. */
  href?: string;
}

let toasts: readonly Toast[] = [];
let last_id = 0;
const SHOWN_MS = 6_000;
export const toastListeners = new Set<(now: readonly Toast[]) => void>();

export function say(text: string, more: { bad?: boolean; href?: string } = {}): void {
  const toast: Toast = { id: (last_id += 1), text, bad: more.bad ?? false, ...(more.href ? { href: more.href } : {}) };
  show([...toasts, toast]);
  setTimeout(() => show(toasts.filter(({ id }) => id !== toast.id)), SHOWN_MS);
}

function show(now: readonly Toast[]): void {
  toasts = now;
  for (const listener of toastListeners) listener(now);
}

/** Does it, and says what became of it. */
export async function attempt(work: () => Promise<string>, href?: string): Promise<boolean> {
  try {
    say(await work(), href === undefined ? {} : { href });
    return true;
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), { bad: true });
    return false;
  }
}

interface Changed {
  jobs: { id: number; status: string; state: string | null }[];
}

const several = (count: number) => (count === 1 ? "job" : `${count} jobs`);

export async function cancelJobs(ids: readonly number[], reason: string | null): Promise<string> {
  const { jobs } = await send<Changed>("/jobs/cancel", { ids, reason });
  const [first] = jobs;
  if (jobs.length === 1 && first?.status === "finished") throw new Refusal(`job ${first.id} had ended: ${first.state}`);
  if (jobs.length === 1 && first?.status === "cancelling") return `job ${first.id} is asked to stop`;
  const done = jobs.filter(({ status }) => status === "cancelled" || status === "cancelling").length;
  return `cancelled ${jobs.length === 1 ? `job ${first?.id}` : several(done)}`;
}

export async function retryJobs(ids: readonly number[]): Promise<string> {
  const { jobs } = await send<Changed>("/jobs/retry", { ids });
  const done = jobs.filter(({ status }) => status === "pending" || status === "blocked");
  const [first] = jobs;
  if (done.length === 0 && first !== undefined) {
    const why = first.status === "key_taken" ? "another job has its key now" : `it is ${first.state ?? "gone"}`;
    throw new Refusal(`job ${first.id} is not run again: ${why}`);
  }
  return done.length === 1 ? `job ${done[0]?.id} runs again` : `${done.length} jobs run again`;
}
