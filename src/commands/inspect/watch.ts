/**
 * `--watch`: any view, kept live. On a terminal it is redrawn in place every second and when the store changes; elsewhere,
 * and for JSON and TSV, it is printed again whenever there is something new.
 */

import type { Store } from "../../store/store.ts";
import { drawLines, fitLines } from "../../view/frame.ts";
import type { Screen } from "../../view/style.ts";
import { readable } from "../../view/time.ts";
import type { Io } from "../cli/define.ts";
import { Ending, LiveTerminal } from "./terminal.ts";
import type { Seen, View } from "./view.ts";

const EVERY_MS = 1_000;
/** Between two looks: a busy store changes hundreds of times a second, which nobody can read. */
const PAUSE_MS = 100;
/** And never more than a fifth of the time is spent on looking. */
const PAUSE_FACTOR = 4;

interface Watch {
  store: Store;
  view: View;
  io: Io;
  /** Whether to draw on a terminal. */
  live: boolean;
  screenAt: (now_ms: number) => Screen;
  format: (seen: Seen, screen: Screen) => string;
}

export async function watch(watching: Watch): Promise<number> {
  const ending = new Ending();
  try {
    return watching.live ? await onTerminal(watching, ending) : await inStream(watching, ending);
  } finally {
    ending.stop();
  }
}

async function onTerminal(watching: Watch, ending: Ending): Promise<number> {
  const { view, io, screenAt, format } = watching;
  let last: { seen: Seen; at_ms: number } | null = null;
  const draw = () => {
    if (last === null) return;
    const { size } = terminal;
    const screen = { ...screenAt(last.at_ms), width: size.columns };
    const name = ["lease inspect", view.title].join(" ").trimEnd();
    const head = `${screen.paint.bold(name)}  ${screen.paint.dim(`${readable(last.at_ms)}, q quits`)}`;
    const text = [format(last.seen, screen), ...(last.seen.missing ?? [])].join("\n");
    terminal.draw(drawLines(fitLines(text, head, size, screen.paint), size));
  };
  const terminal = new LiveTerminal(io.stdout, ending, draw);
  // Looked at before the terminal is taken: what is wrong is told where people can read it.
  last = await lookAt(watching);
  if (isNothing(last.seen)) return complain(watching, last.seen);
  terminal.open();
  try {
    return await repeat(watching, ending, async () => {
      last = await lookAt(watching);
      draw();
    });
  } finally {
    terminal.close();
  }
}

async function inStream(watching: Watch, ending: Ending): Promise<number> {
  const { io, screenAt, format } = watching;
  const first = await lookAt(watching);
  if (isNothing(first.seen)) return complain(watching, first.seen);
  let printed = { ...first, text: format(first.seen, screenAt(first.at_ms)) };
  io.stdout(printed.text);
  return repeat(watching, ending, async () => {
    const { seen, at_ms } = await lookAt(watching);
    // Drawn for the moment of the last one, it differs only if more than the time has changed.
    if (format(seen, screenAt(printed.at_ms)) === printed.text) return;
    printed = { seen, at_ms, text: format(seen, screenAt(at_ms)) };
    io.stdout(`\n${printed.text}`);
  });
}

async function lookAt({ store, view }: Watch): Promise<{ seen: Seen; at_ms: number }> {
  const at_ms = await store.now();
  for await (const seen of view.look(store, at_ms, true)) return { seen, at_ms };
  return { seen: { text: () => "", objects: () => [] }, at_ms };
}

function isNothing({ missing, objects }: Seen): boolean {
  return missing !== undefined && missing.length > 0 && objects(0).length === 0;
}

function complain({ io }: Watch, { missing }: Seen): number {
  for (const line of missing ?? []) io.stderr(`lease: ${line}\n`);
  return 1;
}

/** Until somebody ends it; answers the exit code. */
async function repeat({ store }: Watch, ending: Ending, look: () => Promise<void>): Promise<number> {
  let changed = Promise.withResolvers<void>();
  const ring = () => changed.resolve();
  const stop = store.watch(ring);
  const timer = setInterval(ring, EVERY_MS);
  try {
    let took_ms = 0;
    for (;;) {
      const pause = Promise.withResolvers<void>();
      const pausing = setTimeout(pause.resolve, Math.max(PAUSE_MS, PAUSE_FACTOR * took_ms));
      const code = await Promise.race([ending.code, Promise.all([pause.promise, changed.promise])]);
      clearTimeout(pausing);
      if (typeof code === "number") return code;
      changed = Promise.withResolvers<void>();
      const began_ms = performance.now();
      await look();
      took_ms = performance.now() - began_ms;
    }
  } finally {
    clearInterval(timer);
    stop();
  }
}
