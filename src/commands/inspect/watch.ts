/**
 * `--watch`: any view, kept live. On a terminal it is redrawn in place every second and when the store changes; elsewhere,
 * and for JSON and TSV, it is printed again whenever there is something new.
 */

import type { Store } from "../../store/store.ts";
import { drawLines, fitLines } from "../../view/frame.ts";
import type { Screen } from "../../view/style.ts";
import { readable } from "../../view/time.ts";
import type { Io } from "../../cli/io.ts";
import { noSuchJobs } from "../../cli/selection.ts";
import { repeat } from "../../cli/repeat.ts";
import { ExitRequest } from "../../cli/signals.ts";
import { LiveTerminal } from "./terminal.ts";
import type { Seen, View } from "./views.ts";

/** More often nobody can read it. */
const PACE = { every_ms: 1_000, pause_ms: 100 } as const;

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
  const exit = new ExitRequest();
  try {
    return watching.live ? await onTerminal(watching, exit) : await inStream(watching, exit);
  } finally {
    exit.release();
  }
}

async function onTerminal(watching: Watch, exit: ExitRequest): Promise<number> {
  const { view, io, screenAt, format } = watching;
  let last: { seen: Seen; at_ms: number } | null = null;
  const draw = () => {
    if (last === null) return;
    const { size } = terminal;
    const screen = { ...screenAt(last.at_ms), width: size.columns };
    const name = ["lease inspect", view.title].join(" ").trimEnd();
    const head = `${screen.paint.bold(name)}  ${screen.paint.dim(`${readable(last.at_ms)}, q quits`)}`;
    const text = [format(last.seen, screen), ...noSuchJobs(last.seen.missing ?? [])].join("\n");
    terminal.draw(drawLines(fitLines(text, head, size, screen.paint), size));
  };
  const terminal = new LiveTerminal(io.stdout, exit, draw);
  // Looked at before the terminal is taken: what is wrong is told where people can read it.
  last = await lookAt(watching);
  if (isNothing(last.seen)) return complain(watching, last.seen);
  terminal.open();
  try {
    return await repeat(watching.store, exit.code, PACE, async () => {
      last = await lookAt(watching);
      draw();
      return null;
    });
  } finally {
    terminal.close();
  }
}

async function inStream(watching: Watch, exit: ExitRequest): Promise<number> {
  const { io, screenAt, format } = watching;
  const first = await lookAt(watching);
  if (isNothing(first.seen)) return complain(watching, first.seen);
  let printed = { ...first, text: format(first.seen, screenAt(first.at_ms)) };
  io.stdout(printed.text);
  return repeat(watching.store, exit.code, PACE, async () => {
    const { seen, at_ms } = await lookAt(watching);
    // Drawn for the moment of the last one, it differs only if more than the time has changed.
    if (format(seen, screenAt(printed.at_ms)) === printed.text) return null;
    printed = { seen, at_ms, text: format(seen, screenAt(at_ms)) };
    io.stdout(`\n${printed.text}`);
    return null;
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
  for (const line of noSuchJobs(missing ?? [])) io.stderr(`lease: ${line}\n`);
  return 1;
}
