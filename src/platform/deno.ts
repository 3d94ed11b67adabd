/** The platform on Deno, and of the library on Node: `node:sqlite`, `node:child_process`; it has no terminals to give. */

import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { LeaseError } from "../core/errors.ts";
import type { Child, Platform, SqlRow } from "./platform.ts";

/** What we use of it; the types at hand are Bun's and Node's. */
interface DenoServer {
  addr: { port: number };
  finished: Promise<void>;
}
type DenoHandler = (request: Request, info: { remoteAddr: { hostname: string; port: number } }) => unknown;
interface DenoServe {
  (options: { hostname: string; port: number; signal: AbortSignal; onListen: () => void }, h: DenoHandler): DenoServer;
}

/** Its own server has no limit. */
function limited(request: Request, limit_bytes: number): Request | null {
  if (request.body === null) return request;
  return Number(request.headers.get("content-length") ?? Infinity) <= limit_bytes ? request : null;
}

interface DenoPermissions {
  permissions: { querySync(wanted: { name: "env"; variable: string }): { state: string } };
}

export const platform: Platform = {
  runtime: `deno ${process.versions["deno"] ?? ""}`,

  variable(name) {
    // Node has none of it.
    const { Deno: deno } = globalThis as unknown as { Deno?: DenoPermissions };
    const granted =
      deno === undefined || deno.permissions.querySync({ name: "env", variable: name }).state === "granted";
    return granted ? process.env[name] : undefined;
  },

  quickFiles: () => null,
  // Calling the C library would take a permission of its own.
  processCalls: () => null,
  // Nothing is proven about processes of a Mac then: lease and grace decide.
  macProcesses: () => null,
  datagrams: () => Promise.resolve(null),
  children: new Set(),

  // Closing removes it.
  keeps_log: false,
  // Its watcher opens and closes each file that it has an event about.
  watches_folders: false,
  openSqlite(path) {
    // Where it knows of that: no statement may then change the schema behind the engine's back.
    const database = new DatabaseSync(path, { defensive: true } as object);
    return {
      exec: (sql) => database.exec(sql),
      prepare(sql) {
        const statement = database.prepare(sql);
        return {
          run(...params) {
            const { changes, lastInsertRowid } = statement.run(...params);
            return { changes: Number(changes), last_id: Number(lastInsertRowid) };
          },
          get: (...params) => (statement.get(...params) as SqlRow | undefined) ?? null,
          all: (...params) => statement.all(...params) as SqlRow[],
        };
      },
      close: () => database.close(),
      // Here the WAL can't be kept: closing removes it, and must sync what it held.
      closeKeepingWal: () => database.close(),
    };
  },

  deflate: (bytes) => deflateRawSync(bytes, { level: 1 }),
  inflate: (bytes, most_bytes) => inflateRawSync(bytes, { maxOutputLength: most_bytes }),

  serve({ host, port, body_limit_bytes, answer }) {
    const { serve } = (globalThis as unknown as { Deno: { serve: DenoServe } }).Deno;
    const ending = new AbortController();
    const options = { hostname: host, port, signal: ending.signal, onListen: () => {} };
    const server = serve(options, (request, { remoteAddr }) => {
      const taken = limited(request, body_limit_bytes);
      if (taken === null) return new Response(null, { status: 413 });
      return answer(taken, { address: remoteAddr.hostname, port: remoteAddr.port });
    });
    const stop = async () => {
      ending.abort();
      await server.finished;
    };
    return { port: server.addr.port, stop };
  },

  async spawn(options) {
    if (options.pty)
      throw new LeaseError("unsupported", "--pty needs the compiled lease: Deno can't make a terminal for a job");
    const [command = "", ...args] = options.argv;
    const inherits = options.inherits_stdin === true && options.input === null;
    const stdio = [inherits ? "inherit" : "pipe", "pipe", "pipe"] as const;
    const child = spawn(command, args, {
      cwd: options.cwd,
      env: { ...options.env },
      detached: true,
      stdio: [...stdio],
    });
    const { stdout, stderr } = child;
    if (stdout === null || stderr === null) throw new Error("a child has its pipes");
    for (const [name, stream] of [
      ["stdout", stdout],
      ["stderr", stderr],
    ] as const) {
      stream.on("data", (bytes: Uint8Array) => {
        const taken = options.onOutput(name, bytes);
        if (taken === undefined) return;
        stream.pause();
        void taken.finally(() => stream.resume());
      });
    }
    // A child that never reads its input is its own business.
    child.stdin?.on("error", () => {});
    child.stdin?.end(options.input ?? undefined);
    const ended = (stream: NodeJS.ReadableStream) => new Promise<void>((done) => stream.once("close", () => done()));
    const drained = Promise.all([ended(stdout), ended(stderr)]).then(() => {});
    const exited = Promise.withResolvers<Awaited<Child["exited"]>>();
    child.once("exit", (exit_code, signal) => exited.resolve({ exit_code, signal }));
    const abandonOutput = () => {
      stdout.destroy();
      stderr.destroy();
    };
    const started = Promise.withResolvers<void>();
    child.once("error", started.reject);
    child.once("spawn", started.resolve);
    await started.promise;
    // Deno starts nothing in a control group: it is moved there right after its birth.
    if (options.cgroup) writeFileSync(`${options.cgroup}/cgroup.procs`, String(child.pid));
    return { pid: child.pid as number, exited: exited.promise, drained, abandonOutput, cpu_ms: () => null };
  },
};
