/**
 * What differs between Bun and Deno (Node is as Deno here). Code imports `#platform`; package.json picks the file by the runtime's condition,
 * so no code asks which runtime it is on. Beside it what both have, but is loaded when it is asked for and not before:
 * every start pays for what it loads.
 */

import process from "node:process";

export const lazyFs = () => process.getBuiltinModule("node:fs");
export const lazyUtil = () => process.getBuiltinModule("node:util");
export const lazyPath = () => process.getBuiltinModule("node:path");

export type SqlValue = string | number | null | Uint8Array;
export type SqlRow = Record<string, SqlValue>;

export interface SqlStatement {
  run(...params: SqlValue[]): { changes: number; last_id: number };
  get(...params: SqlValue[]): SqlRow | null;
  all(...params: SqlValue[]): SqlRow[];
}

/** A SQLite connection. Calls are synchronous and throw the engine's own errors. */
export interface SqlDatabase {
  exec(sql: string): void;
  prepare(sql: string): SqlStatement;
  close(): void;
  /** Closes without folding the WAL back, where that can be done safely; else like close. */
  closeKeepingWal(): void;
}

export type Stream = "stdout" | "stderr";

/** Of the terminal that we are at. */
export interface TerminalSize {
  columns(): number;
  rows(): number;
  /** The returned function ends it. */
  onChange(changed: () => void): () => void;
}

export interface SpawnOptions {
  argv: readonly string[];
  cwd: string;
  env: Readonly<Record<string, string>>;
  /** Written to the child's standard input, which is closed after it; null: nothing to read. */
  input: Uint8Array | null;
  /** Without an input it reads what this process would. */
  inherits_stdin?: boolean;
  /** The control group that it is born in. */
  cgroup?: string | null;
  /** Files into which it writes its number before it begins, to be in the groups that they are of. */
  joins?: readonly string[];
  /** Give the child a terminal instead of pipes; everything then arrives as stdout. */
  pty: boolean;
  /** How large that is, and goes on to be; else as large as most. */
  terminal?: TerminalSize | null;
  /**
   * Called for what the child printed, as it arrives; the bytes are only valid during the call. Until a promise that it
   * returns is settled no more of that stream is read, where the runtime can hold it back (a terminal can't be).
   */
  onOutput: (stream: Stream, bytes: Uint8Array) => void | Promise<void>;
}

export interface Child {
  /** Also the id of its process group and session: it leads both. */
  readonly pid: number;
  readonly exited: Promise<{ exit_code: number | null; signal: string | null }>;
  /** Both streams are at their end, which a grandchild that keeps them open can delay for ever. */
  readonly drained: Promise<void>;
  /** Stops reading. */
  abandonOutput(): void;
  /** Once it has exited: processor time of it and of those that it waited for; null where the runtime does not tell. */
  cpu_ms(): number | null;
}

export interface QuickStats {
  mode: number;
  uid: number;
  size: number;
  /** How many names it has. */
  links: number;
  /** No two files of a running system have the same. */
  identity: string;
  /** When it was made; null where the file system does not know. */
  born_s: number | null;
  /** The mount that it is in; null where the kernel does not say. */
  mount: string | null;
}

/** Files without node:fs, see libc.ts; null where it has to be asked. */
export interface QuickFiles {
  stat(path: string): QuickStats | null;
  /** Of a link itself. */
  lstat(path: string): QuickStats | null;
  /** To be asked again and again which file is there, and when it was written where that is to be `dated`. */
  whichFile(path: string, how: { dated: boolean }): () => { identity: string; written_ms: number } | null;
  /**
   * The first bytes of a file, in words of four, as they are each time they are looked at; null where that can't be had.
   * Only of one that this process has not open yet: its locks on it would end.
   */
  view(path: string, bytes: number): Uint32Array | null;
  /** The type of the file system, as statfs(2) numbers them. */
  fileSystem(path: string): number | null;
  /** Behind all links; only of what is there. */
  realPath(path: string): string | null;
  /** How much of it was written. */
  write(fd: number, bytes: Uint8Array): number;
  /** Whether we were given it: in place of one that was closed the runtime has opened something that takes all and keeps none. */
  isGiven(fd: number): boolean;
  /** Ends the process as a crash would, with this code: nothing is closed or flushed. */
  exit(code: number): void;
}

/** A process that is held on to: its number is not given to another meanwhile. */
export interface HeldProcess {
  /** To the process, or to the group that it leads; false when the kernel refuses, or can't. */
  signal(number: number, to: { group: boolean }): boolean;
  release(): void;
}

/** See bun_processes.ts; null where the kernel can't be asked. */
export interface ProcessCalls {
  hold(pid: number): HeldProcess | null;
  /** From now on what loses its parent among our descendants becomes our child; false where the kernel can't. */
  adopt(): boolean;
  /** Of a child that nobody else waits for, once it has ended. */
  reap(pid: number): boolean;
}

/** What macOS tells of a process. */
export interface MacProcess {
  parent: number;
  group: number;
  session: number;
  /** In hundredths of a second; two of the same number never have the same. */
  started: number;
  zombie: boolean;
  /** Whoever started it. */
  user: number;
  name: string;
}

/** See mac.ts; null on other systems, which have /proc. */
export interface MacProcesses {
  /** Another after every boot; null when it is not told. */
  bootSession(): string | null;
  /** Of no two machines; empty when it is not told. */
  machine(): string;
  process(pid: number): MacProcess | null;
  pids(): number[] | null;
  /** `NAME=value` texts; null of one that we may not look into. */
  environment(pid: number): string[] | null;
  /** Since boot, sleep included. */
  uptime_ms(): number;
  /** When it last woke up. */
  woken_at_s(): number;
}

/** Where a request comes from. */
export interface Peer {
  address: string;
  port: number;
}

export interface ServeOptions {
  host: string;
  /** 0: any that is free. */
  port: number;
  /** No more of a request's body is taken. */
  body_limit_bytes: number;
  answer: (request: Request, peer: Peer | null) => Response | Promise<Response>;
}

export interface Listener {
  readonly port: number;
  /** Ends at once, open answers included. */
  stop(): Promise<void>;
}

/** One message; false when it was not taken. `wait`: until there is room for it. */
export type SendDatagram = (text: string, how: { wait: boolean }) => boolean;

export interface Platform {
  readonly runtime: string;
  /** Of the environment, where this program may read it: nobody is asked for leave. */
  variable(name: string): string | undefined;
  quickFiles(): QuickFiles | null;
  processCalls(): ProcessCalls | null;
  macProcesses(): MacProcesses | null;
  /** What `spawn` started and waits for. */
  readonly children: ReadonlySet<number>;
  openSqlite(path: string): SqlDatabase;
  /** Whether the log of a SQLite store stays when the last of us has closed it. */
  readonly keeps_log: boolean;
  /**
   * Whether a folder can be watched without opening what is in it: to close a file ends all locks that the process has on
   * it, SQLite's too.
   */
  readonly watches_folders: boolean;
  /** Starts a program as the leader of a new session; rejects with the system's error when it can't be started. */
  spawn(options: SpawnOptions): Promise<Child>;
  /** Raw DEFLATE, quickly rather than well. */
  deflate(bytes: Uint8Array): Uint8Array;
  /** Throws when it is not that, or would be more than `most_bytes`: a few bytes may stand for gigabytes. */
  inflate(bytes: Uint8Array, most_bytes: number): Uint8Array;
  /** Answers HTTP requests; throws the system's error when it can't listen there. */
  serve(options: ServeOptions): Listener;
  /** To a Unix socket: a path, or `@NAME`; null where that can't be had. */
  datagrams(address: string): Promise<SendDatagram | null>;
}
