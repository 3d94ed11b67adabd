// The tour of the README, taken for real in a terminal: what is printed goes into README.md as text, and into
// docs/images/tour.svg as a picture that moves.
//
//   bun scripts/tour.ts           → README.md between its tour marks, docs/images/tour.svg
//   bun scripts/tour.ts --print   → what is printed, and nothing is written
//
// Needs dist/lease (bun scripts/build.ts).

import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { film, type Frame } from "./tour/film.ts";
import { Screen } from "./tour/screen.ts";

const ROOT = resolve(import.meta.dir, "..");
const [COLUMNS, ROWS] = [106, 26];
const FRAME_MS = 120;
/** Nobody waits to see nothing. */
const LONGEST_MS = 900;
/** As long as it takes to read a line. */
const READ_MS = 350;
const END_MS = 6_000;

/** What is typed; the programs that it names are made in `takeTour`. */
export const TOUR = [
  "lease enqueue -- ./build.sh release                    # prints the job's id",
  "lease enqueue --retries 2 -- ./flaky.sh                # fails at first",
  "lease enqueue --lease 2s --retries 0 -- ./stuck.sh     # prints a line, then nothing",
  "lease worker --until-empty -j 3",
  "lease inspect jobs",
  "lease logs 1",
] as const;

const PROGRAMS: Readonly<Record<string, string>> = {
  "build.sh": 'for n in 1 2 3; do echo "compiling part $n of 3 ($1)"; sleep 0.4; done',
  "flaky.sh":
    'echo "connecting"; test "$LEASE_ATTEMPT" -ge 2 || { echo "connection refused" >&2; exit 1; }; echo "connected"',
  "stuck.sh": 'echo "waiting for an answer"; exec sleep 600',
};

export interface Tour {
  frames: Frame[];
  /** By command, what it printed. */
  printed: string[][];
}

export async function takeTour(lease: string): Promise<Tour> {
  const folder = mkdtempSync(join(tmpdir(), "tour-"));
  try {
    for (const [name, text] of Object.entries(PROGRAMS)) {
      writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`);
      chmodSync(join(folder, name), 0o755);
    }
    return await inFolder(folder, lease);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function inFolder(folder: string, lease: string): Promise<Tour> {
  const screen = new Screen(COLUMNS);
  const frames: Frame[] = [];
  const printed: string[][] = [];
  const show = (for_ms: number) =>
    frames.push({ rows: screen.rows.map((row) => [...row]), for_ms: Math.min(for_ms, LONGEST_MS) });
  for (const line of TOUR) {
    const before = screen.lines().length;
    screen.feed(`\u001b[32m$\u001b[0m `);
    for (const words of line.split(/(?<= )/)) {
      screen.feed(words.includes("#") ? `\u001b[90m${words}` : words);
      show(60);
    }
    screen.feed("\u001b[0m\r\n");
    show(300);
    await typed(line, { folder, lease, screen, show });
    const answer = screen.lines().slice(before + 1);
    printed.push(answer);
    frames.push({ rows: screen.rows.map((row) => [...row]), for_ms: READ_MS * (1 + Math.min(answer.length, 6)) });
  }
  frames.push({ rows: screen.rows.map((row) => [...row]), for_ms: END_MS });
  return { frames, printed };
}

interface Session {
  folder: string;
  lease: string;
  screen: Screen;
  show: (for_ms: number) => void;
}

async function typed(line: string, { folder, lease, screen, show }: Session): Promise<void> {
  const decoder = new TextDecoder();
  const closed = Promise.withResolvers<void>();
  let shown_ms = performance.now();
  const child = Bun.spawn(["bash", "-c", `lease() { "$LEASE" "$@"; }\n${line}`], {
    cwd: folder,
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: folder,
      LANG: "C.UTF-8",
      TERM: "xterm-256color",
      LEASE: lease,
      LEASE_STORE: join(folder, "lease.db"),
    },
    terminal: {
      cols: COLUMNS,
      rows: ROWS,
      data(_terminal, bytes) {
        const now_ms = performance.now();
        if (now_ms - shown_ms >= FRAME_MS) {
          show(now_ms - shown_ms);
          shown_ms = now_ms;
        }
        // Its name is another every time, and says nothing.
        screen.feed(decoder.decode(bytes, { stream: true }).replaceAll(folder, "~/app"));
      },
      exit: () => closed.resolve(),
    },
  });
  await child.exited;
  await closed.promise;
}

const TIMES = /\b(?:now|(?:\d+(?:\.\d+)?(?:ms|s)|\d+:\d\d:\d\d(?: [AP]M)?)(?: ago)?)(?![\w.])/g;

/** What is the same in every tour: without times, and the room that they take. */
export const withoutTimes = (line: string): string => line.replaceAll(TIMES, "TIME").replaceAll(/[ ─]+/g, " ").trim();

const [BEGIN, END] = ["<!-- tour:begin -->", "<!-- tour:end -->"];

export function tourBlock({ printed }: Tour): string {
  const text = TOUR.flatMap((line, index) => [`$ ${line}`, ...(printed[index] ?? [])]).join("\n");
  return `${BEGIN}\n\n\`\`\`console\n${text}\n\`\`\`\n\n${END}`;
}

if (import.meta.main) {
  const tour = await takeTour(join(ROOT, "dist/lease"));
  if (process.argv.includes("--print")) console.log(tourBlock(tour));
  else {
    const title = "A terminal: jobs are enqueued, a worker runs them, retries one and stops one that hangs";
    writeFileSync(join(ROOT, "docs/images/tour.svg"), film(tour.frames, { columns: COLUMNS, rows: ROWS, title }));
    const readme = readFileSync(join(ROOT, "README.md"), "utf8");
    const [head = "", rest = ""] = readme.split(BEGIN);
    if (!rest.includes(END)) throw new Error(`README.md has no ${BEGIN} … ${END}`);
    writeFileSync(join(ROOT, "README.md"), head + tourBlock(tour) + rest.slice(rest.indexOf(END) + END.length));
  }
}
