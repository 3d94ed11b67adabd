/** `lease ui`: the dashboard, in a browser. */

import { hostname } from "node:os";
import process from "node:process";
import { jobOfLine } from "../config/job_json.ts";
import { LeaseError } from "../core/errors.ts";
import { draftJob } from "../core/draft.ts";
import type { FieldContext } from "../core/job_fields.ts";
import { integer, textValue } from "../core/values.ts";
import { Dashboard } from "../observe/dashboard/app.ts";
import { isAddress, newToken } from "../observe/dashboard/guard.ts";
import { pageFiles } from "../observe/dashboard/files.ts";
import { listen } from "../observe/listen.ts";
import { VERSION } from "../platform/build_info.ts";
import { systemClock, systemRandom } from "../platform/clock.ts";
import { isForeignPeer } from "../platform/peer.ts";
import { lazyPath, type ServeOptions } from "../platform/platform.ts";
import { timesOf } from "../recovery/schedule_times.ts";
import { visible, withoutPassword } from "../view/text.ts";
import { command } from "../cli/command.ts";
import { valueFlag } from "../cli/flags.ts";
import { withStore, type Io } from "../cli/io.ts";
import { ExitRequest } from "../cli/signals.ts";

const USUAL_PORT = 5327;
const LOOPBACK = ["127.0.0.1", "localhost", "::1"];
/** A job's input is up to 1 MiB, and JSON may need six characters for one. */
const BODY_LIMIT_BYTES = 8 * 1024 * 1024;
const LEAST_TOKEN_CHARACTERS = 16;

export default command({
  meta: { name: "ui", description: "Look after jobs in a browser" },
  args: {
    port: valueFlag(integer({ min: 0, max: 65_535 }), "Port to listen on; 0 takes any that is free", {
      fallback: `${USUAL_PORT}, or a free one`,
    }),
    host: valueFlag(textValue("ADDRESS"), "Address to listen on; any but this machine's own needs a token", {
      fallback: "127.0.0.1",
    }),
    allow_host: valueFlag(textValue("NAME"), "Also answer to this name, such as that of a proxy with TLS"),
    open: { type: "boolean", description: "Open it in the browser" },
    read_only: { type: "boolean", description: "Look, but change nothing" },
  },
  repeat: ["allow_host"],
  rest: "none",
  examples: [
    ["lease ui --open", "on this machine, for its user"],
    ["lease ui --host 0.0.0.0 --read-only", "for others, who need the token that is printed"],
  ],
  notes: [
    "On another address than this machine's own everybody needs the token that is printed when it starts, or that of " +
      "LEASE_UI_TOKEN, which is not printed. It speaks plain HTTP: put a proxy with TLS in front of it.",
    "Whoever may change something may enqueue a command, and run it as the user of a worker.",
  ],
  run: async ({ args, lists, io }) => {
    const { host = "127.0.0.1", port, open, read_only } = args;
    const local = LOOPBACK.includes(host);
    const token = local ? null : ownToken(io);
    const files = pageFiles();
    return withStore(args, io, { create: true }, async ({ store }) => {
      const dashboard = new Dashboard({
        store,
        clock: systemClock,
        about: { version: VERSION, store: withoutPassword(store.location), read_only },
        files,
        readJob: (json, like) => jobOfLine(json, like ?? draftJob(process.cwd()), JOB_CONTEXT),
        nextTime: async (schedule, behind_ms) => (await timesOf(schedule))(behind_ms),
        random: systemRandom,
        trouble: (message) => io.stderr(`lease: ${visible(message)}\n`),
        names: [
          ...LOOPBACK,
          hostname().toLowerCase(),
          host.toLowerCase(),
          ...lists.allow_host.map((name) => name.toLowerCase()),
        ],
        token,
      });
      const answer: ServeOptions["answer"] = (request, peer) =>
        local && peer !== null && isForeignPeer(peer)
          ? new Response("this is another user's\n", { status: 403 })
          : dashboard.fetch(request);
      const exit = new ExitRequest();
      const replaced = Promise.withResolvers<never>();
      const stopGuarding = store.onReplaced(replaced.reject);
      const listener = listen(
        { host, port: port ?? USUAL_PORT, body_limit_bytes: BODY_LIMIT_BYTES, answer },
        port === undefined ? 0 : null,
      );
      try {
        const url = `http://${address(host)}:${listener.port}/`;
        if (token !== null)
          io.stderr("lease: this is plain HTTP, token included: put a proxy with TLS in front of it\n");
        // One that was given is known to whoever gave it, and would stay in the log of a service.
        io.stdout(`${url}${token === null || token === givenToken(io) ? "" : `#token=${token}`}\n`);
        if (open) openBrowser(url, io);
        // A signal is how it is meant to end.
        await Promise.race([exit.code, replaced.promise]);
        return 0;
      } finally {
        stopGuarding();
        exit.release();
        dashboard.stop();
        await listener.stop();
      }
    });
  },
});

/** A page says what a job is made of, and reaches for nothing on this machine. */
const JOB_CONTEXT: FieldContext = {
  env: {},
  folder: (path) => lazyPath().resolve(path),
  moment: (text, name) => {
    const at_ms = Date.parse(text);
    if (Number.isNaN(at_ms)) throw new LeaseError("usage", `${name} ${JSON.stringify(text)} is not a moment`);
    return at_ms;
  },
  input: (text) => new TextEncoder().encode(text),
};

function givenToken({ env }: Io): string | null {
  return env["LEASE_UI_TOKEN"] || null;
}

function ownToken(io: Io): string {
  const given = givenToken(io);
  if (given === null) return newToken();
  if (given.length >= LEAST_TOKEN_CHARACTERS) return given;
  throw new LeaseError("usage", `LEASE_UI_TOKEN is too easy to guess: give it ${LEAST_TOKEN_CHARACTERS} characters`);
}

/** For an address in a browser: everywhere is here as well. */
function address(host: string): string {
  if (host === "0.0.0.0" || host === "::") return hostname();
  return isAddress(host) && host.includes(":") ? `[${host}]` : host;
}

/** Without a token, which everybody could read in the list of processes: the page asks for it. */
function openBrowser(url: string, io: Io): void {
  const opener = process.platform === "darwin" ? "open" : "xdg-open";
  const { spawn } = process.getBuiltinModule("node:child_process");
  const child = spawn(opener, [url], { stdio: "ignore", detached: true });
  child.on("error", () => io.stderr(`lease: there is no ${opener} here: open the address yourself\n`));
  child.unref();
}
