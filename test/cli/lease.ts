/**
 * The compiled lease as a user runs it: a process with arguments, an environment and a store of its own, and what comes
 * back from it. `LEASE_BIN` names another binary than dist/lease.
 */

import { Database } from "bun:sqlite";
import { afterAll, expect, setDefaultTimeout } from "bun:test";
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";

export const ROOT = resolve(import.meta.dir, "../..");
export const LEASE = resolve(process.env["LEASE_BIN"] ?? join(ROOT, "dist/lease"));

if (!existsSync(LEASE)) throw new Error(`${LEASE} is not there: run \`bun scripts/build.ts\` first`);

export interface Answer {
  /** A signal's name when one ended it. */
  code: number | string;
  stdout: string;
  stderr: string;
}

export interface RunOptions {
  cwd?: string;
  env?: Readonly<Record<string, string>>;
  stdin?: string | Uint8Array | null;
  /** After this it counts as stuck. */
  within_ms?: number;
}

/** Nothing here takes longer; a process that does is stuck and must not take the whole run along. */
const STUCK_MS = 25_000;

export async function run(argv: readonly string[], options: RunOptions = {}): Promise<Answer> {
  const child = Bun.spawn([...argv], {
    cwd: options.cwd ?? tmpdir(),
    env: environment(options.env),
    stdin: typeof options.stdin === "string" ? Buffer.from(options.stdin) : (options.stdin ?? "ignore"),
    stdout: "pipe",
    stderr: "pipe",
    timeout: options.within_ms ?? STUCK_MS,
    killSignal: "SIGKILL",
  });
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { code: child.exitCode ?? child.signalCode ?? "unknown", stdout, stderr };
}

/** What this process has, without what would change how lease behaves. */
export function environment(more: Readonly<Record<string, string>> = {}): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    if (
      value !== undefined &&
      !/^(?:LEASE_|XDG_|OTEL_|TRACEPARENT$|TRACESTATE$|NO_COLOR$|FORCE_COLOR$|COLORTERM$)/.test(name)
    )
      env[name] = value;
  }
  return { ...env, ...more };
}

export interface JobJson {
  id: number;
  state: string;
  queue: string;
  task: string | null;
  key: string | null;
  priority: number;
  argv: string[];
  input: string | null;
  cwd: string;
  retries: number;
  attempts: number;
  retries_left: number;
  token: number;
  holder: string | null;
  expires_at: string | null;
  last_beat_at: string | null;
  progress: number | null;
  message: string | null;
  exit_code: number | null;
  cause: string | null;
  error: string | null;
  output: string | null;
  reason: string | null;
  created_at: string;
  run_at: string;
  started_at: string | null;
  finished_at: string | null;
  history: { attempt: number; cause: string | null; exit_code: number | null; signal: string | null; beats: number }[];
  checkpoints: { kind: string; text: string; token: number }[];
}

/** A folder with a store in it, as a user's shell would have it. The store is made by the first command that needs it. */
export class Place {
  readonly folder: string;
  readonly store: string;

  constructor(folder: string) {
    this.folder = folder;
    this.store = join(folder, "lease.db");
  }

  /** `lease ARGS…` with this store. */
  lease(...args: string[]): Promise<Answer> {
    return this.leaseWith({}, ...args);
  }

  leaseWith(options: RunOptions, ...args: string[]): Promise<Answer> {
    const env = { ...this.env, ...options.env };
    return run([LEASE, ...args], { cwd: this.folder, ...options, env });
  }

  get env(): Record<string, string> {
    return { LEASE_STORE: this.store, HOME: this.folder, TMPDIR: this.folder, LEASE };
  }

  /** Enqueues and answers the id, which must be all that was printed, but for remarks about what was asked. */
  async enqueue(...args: string[]): Promise<number> {
    const answer = await this.lease("enqueue", ...args);
    const remarks = expect.stringMatching(/^(?:lease: [^\n]+\n)*$/);
    expect(answer).toEqual({ code: 0, stdout: expect.stringMatching(/^\d+\n$/), stderr: remarks });
    return Number(answer.stdout);
  }

  /** Works off what is queued; answers the exit code. */
  async work(...args: string[]): Promise<number | string> {
    const { code, stdout } = await this.lease("worker", "--until-empty", ...args);
    expect(stdout).toBe("");
    return code;
  }

  async inspect(id: number): Promise<JobJson> {
    const answer = await this.lease("inspect", String(id), "--json");
    expect(answer).toMatchObject({ code: 0, stderr: "" });
    return JSON.parse(answer.stdout) as JobJson;
  }

  async log(id: number): Promise<string> {
    return (await this.lease("logs", String(id))).stdout;
  }

  /** What SQLite itself says about the store. */
  rows<T>(sql: string): T[] {
    const database = new Database(this.store);
    try {
      // A worker that opens the store just now locks readers out for a moment.
      database.run("PRAGMA busy_timeout = 5000");
      return database.query(sql).all() as T[];
    } finally {
      database.close();
    }
  }

  /** Every file of the folder by name and content, but for the shared memory, where readers leave their marks too. */
  content(): Record<string, string> {
    return contentOf(this.folder);
  }
}

export function contentOf(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith("-shm"))
    .map((entry) => join(entry.parentPath, entry.name));
  return Object.fromEntries(
    names.toSorted().map((name) => [name.slice(folder.length + 1), String(Bun.hash(readFileSync(name)))]),
  );
}

/** Makes places and removes them when the file's tests are over; to be called once at the top of a test file. */
export function usePlaces(): () => Place {
  const folders: string[] = [];
  // These tests start many processes, and other work may have the machine: slow is not wrong.
  setDefaultTimeout(60_000);
  afterAll(() => {
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  });
  return () => {
    const folder = mkdtempSync(join(tmpdir(), "lease-cli-"));
    // Passable for other users, so that tests can try what they may do; writable for nobody else.
    chmodSync(folder, 0o755);
    folders.push(folder);
    return new Place(folder);
  };
}

/** Runs lease in a terminal of its own and answers what would be on the screen. */
export async function inTerminal(
  place: Place,
  args: readonly string[],
  options: { cols?: number; env?: Record<string, string> } = {},
) {
  let screen = "";
  const decoder = new TextDecoder();
  const closed = Promise.withResolvers<void>();
  const child = Bun.spawn([LEASE, ...args], {
    cwd: place.folder,
    env: environment({ ...place.env, TERM: "xterm-256color", ...options.env }),
    terminal: {
      cols: options.cols ?? 100,
      rows: 30,
      data: (_terminal, bytes) => {
        screen += decoder.decode(bytes, { stream: true });
      },
      exit: () => closed.resolve(),
    },
  });
  const code = await child.exited;
  await closed.promise;
  return { code, screen: screen.replaceAll("\r\n", "\n") };
}

/** One line on stderr that begins with `lease: `, nothing on stdout, and this exit code. */
export function expectRefusal(answer: Answer, code: number, message: string | RegExp): void {
  expect(answer).toEqual({ code, stdout: "", stderr: expect.stringMatching(/^lease: [^\n]+\n$/) });
  expect(answer.stderr).toMatch(message);
}

/** Turns the event loop until something holds that no promise tells of: a file appears, a process opened another. */
export async function until(condition: () => boolean): Promise<void> {
  const late_ms = performance.now() + STUCK_MS;
  while (!condition()) {
    if (performance.now() > late_ms) throw new Error("what the test waits for did not happen");
    await Bun.sleep(1);
  }
}
