/**
 * `--watch`: any view, kept live. On a terminal it is redrawn in place every second and when the store changes; elsewhere,
 * and for JSON and TSV, it is printed again whenever there is something new.
 */

import type { Store } from "../../store/store.ts";
import type { Screen } from "../../view/style.ts";
import { drawLines, fitLines } from "../../view/text.ts";
import { readable } from "../../view/time.ts";
import type { Io } from "../../cli/io.ts";
import { noSuchJobs } from "../../cli/selection.ts";
import { repeat } from "../../cli/waiting.ts";
import { LiveTerminal } from "../../cli/live_terminal.ts";
import { ExitRequest } from "../../cli/signals.ts";
import type { Seen, View } from "./lists.ts";

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
    // Looked at before the terminal is taken: what is wrong is told where people can read it.
    const first = await lookAt(watching);
    const { missing = [], objects } = first.seen;
    if (missing.length > 0 && objects(0).length === 0) {
      for (const line of noSuchJobs(missing)) watching.io.stderr(`lease: ${line}\n`);
      return 1;
    }
    return await (watching.live ? onTerminal : inStream)(watching, exit, first);
  } finally {
    exit.release();
  }
}

type Look = Awaited<ReturnType<typeof lookAt>>;

async function lookAt({ store, view }: Pick<Watch, "store" | "view">) {
  const at_ms = await store.now();
  for await (const seen of view.look(store, at_ms, true)) return { seen, at_ms };
  const nothing: Seen = { text: () => "", objects: () => [] };
  return { seen: nothing, at_ms };
}

async function onTerminal(watching: Watch, exit: ExitRequest, first: Look): Promise<number> {
  const { store, view, io, screenAt, format } = watching;
  let last = first;
  const draw = () => {
    const { size } = terminal;
    const screen = { ...screenAt(last.at_ms), width: size.columns };
    const name = ["lease inspect", view.title].join(" ").trimEnd();
    const head = `${screen.paint.bold(name)}  ${screen.paint.dim(`${readable(last.at_ms)}, q quits`)}`;
    const text = [format(last.seen, screen), ...noSuchJobs(last.seen.missing ?? [])].join("\n");
    terminal.draw(drawLines(fitLines(text, head, size, screen.paint, last.seen.unseen), size));
  };
  const terminal = new LiveTerminal(io.stdout, exit, draw);
  terminal.open();
  try {
    return await repeat(store, exit.code, PACE, async () => {
      last = await lookAt(watching);
      draw();
      return null;
    });
  } finally {
    terminal.close();
  }
}

async function inStream(watching: Watch, exit: ExitRequest, first: Look): Promise<number> {
  const { store, io, screenAt, format } = watching;
  let printed = { at_ms: first.at_ms, text: format(first.seen, screenAt(first.at_ms)) };
  io.stdout(printed.text);
  return repeat(store, exit.code, PACE, async () => {
    const { seen, at_ms } = await lookAt(watching);
    // Drawn for the moment of the last one, it differs only if more than the time has changed.
    if (format(seen, screenAt(printed.at_ms)) === printed.text) return null;
    printed = { at_ms, text: format(seen, screenAt(at_ms)) };
    io.stdout(`\n${printed.text}`);
    return null;
  });
}
