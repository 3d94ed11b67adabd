/** Extends one lease again and again until it is told to end; answers how long each time took. */

import { openStore } from "./harness.ts";

declare const self: Worker;

const PAUSE_MS = 5;
const waits_ms: number[] = [];
const told = { over: false };

self.addEventListener("message", (event: MessageEvent<{ path: string; id: number } | "end">) => {
  if (event.data === "end") told.over = true;
  else void beat(event.data.path, event.data.id);
});

async function beat(path: string, id: number): Promise<void> {
  const store = await openStore(path);
  for (let beats = 1; !told.over; beats++) {
    const started_ms = performance.now();
    const [answer] = await store.extend([{ id, token: 1, expires_in_ms: 300_000, beat_age_ms: 0, beats }]);
    if (answer?.status !== "extended") throw new Error(`the lease was ${answer?.status}`);
    waits_ms.push(performance.now() - started_ms);
    await Bun.sleep(PAUSE_MS);
  }
  await store.close();
  self.postMessage(waits_ms, []);
}
