/**
 * The dashboard as a function from requests to responses: pages, what they show (`/api/…`), what keeps them up to date
 * (`/api/live`) and, unless it is read-only, what they can change. A read-only one has no route that writes.
 */

import { Hono, type Context } from "hono";
import { bodyLimit } from "hono/body-limit";
import { createMiddleware } from "hono/factory";
import type { Clock } from "../../core/clock.ts";
import { errorText, LeaseError } from "../../core/errors.ts";
import type { Store } from "../../store/store.ts";
import { answers, type About } from "./answers.ts";
import type { Lane } from "./budget.ts";
import { changes, type Abilities } from "./changes.ts";
import type { PageFile } from "./files.ts";
import { Guard, refuse, type Guarded } from "./guard.ts";
import { PastOfJobs } from "./job_past.ts";
import { Live, type Answer } from "./live.ts";
import { SharedReader } from "./shared_reader.ts";

export interface DashboardOptions extends Guarded, Abilities {
  store: Store;
  clock: Clock;
  about: About;
  files: readonly PageFile[];
  /** Something went wrong that is not the asker's doing. */
  trouble: (message: string) => void;
}

/** The answers of one page, and a log. */
const MOST_PATHS = 8;
const MOST_TABS = 500;
/** A tab that takes nothing in for so long has gone. */
const MOST_WAITING_BYTES = 8 * 1024 * 1024;
const PAUSE = /^\/api\/queues\//;
/** After what is asked for here the state of a job changes by itself; a queue is paused and that is it. */
const GOES_ON = /^\/api\/(?:jobs|schedules\/run)\b/;
const PING_EVERY_MS = 15_000;
/** A job with an input of its largest size, written as JSON. */
const MOST_SENT_MIB = 4;

export class Dashboard {
  readonly #options: DashboardOptions;
  readonly #live: Live;
  readonly #reader: SharedReader;
  /** What is asked in a hurry, and what is not: the same answers. */
  readonly #reads: Readonly<Record<Lane, Hono>>;
  readonly #past = new PastOfJobs((job) => this.#reader.forgetPast(job));
  readonly #app = new Hono();
  #tabs = 0;

  constructor(options: DashboardOptions) {
    this.#options = options;
    const { store, clock } = options;
    this.#reader = new SharedReader(store, clock);
    const [now, soon, later] = [this.#reading("now"), this.#reading("soon"), this.#reading("later")];
    this.#reads = { now, soon, later };
    this.#live = new Live({
      look: (path, lane) => this.#look(path, lane),
      watch: (changed) => store.watch(changed),
      budget: this.#reader.budget,
      clock,
    });
    this.#build();
  }

  /** Questions that the store has been asked so far. */
  get asked(): number {
    return this.#reader.budget.asked;
  }

  readonly fetch = (request: Request): Response | Promise<Response> => this.#app.fetch(request);

  stop(): void {
    this.#live.stop();
    this.#reader.budget.stop();
  }

  #reading(lane: Lane, in_parts = true): Hono {
    const { about, store } = this.#options;
    const { budget } = this.#reader;
    // What is not needed at once is left for later where there is no room for it now.
    const isPart = () => in_parts && lane === "now" && budget.isCrowded;
    const reads = answers({ store: this.#reader.glance(lane), about, of_download: store, past: this.#past, isPart });
    reads.onError((error, c) => this.#failed(error, c));
    return reads;
  }

  #build(): void {
    const { about, store, files } = this.#options;
    const guard = new Guard(this.#options);
    const app = this.#app;
    app.onError((error, c) => this.#failed(error, c));
    app.notFound((c) => {
      const page = files.find(({ path }) => path === "/index.html");
      const wants_page = c.req.method === "GET" && (c.req.header("accept") ?? "").includes("text/html");
      if (page === undefined || !wants_page) return refuse(c, 404, "there is nothing here");
      // The page says so itself, and where to go on.
      return c.newResponse(plainOf(page), 404, { "content-type": page.type, "cache-control": "no-cache" });
    });
    app.use(guard.everywhere);
    app.use("/api/*", smallBody);
    app.post("/api/login", async (c) => {
      const { token = "" } = (await c.req.json().catch(() => ({}))) as { token?: unknown };
      if (guard.login(c, String(token))) return c.json({ ok: true });
      return refuse(c, 401, "this is not the token that lease ui printed when it started");
    });
    app.use("/api/*", guard.readers);
    app.get("/api/live", (c) => this.#follow(c));
    app.route("/api", this.#reading("now", false));
    if (!about.read_only) {
      const writes = changes(store, this.#options);
      for (const { path } of writes.routes) app.post(`/api${path}`, guard.writers, this.#tellLookers);
      app.route("/api", writes);
    }
    app.all("/api/*", nothingHere);
    pages(app, files);
  }

  /** Those who look see what was changed at once. */
  readonly #tellLookers = createMiddleware(async (c, next) => {
    await next();
    if (PAUSE.test(c.req.path)) this.#reader.forgetPauses();
    else this.#reader.forget();
    this.#live.changedByUs(c.req.header("lease-tab") ?? null, GOES_ON.test(c.req.path));
  });

  async #look(path: string, lane: Lane): Promise<Answer> {
    await this.#reader.now_ms();
    const response = await this.#reads[lane].request(path);
    const { status, headers } = response;
    const partial = headers.has("lease-partial");
    const final = headers.has("lease-final");
    return { status, body: await response.text(), next: headers.get("lease-next"), partial, final };
  }

  /** Server-sent events: `{ path, now, status, body }` for each answer of which there is news. */
  #follow(c: Context): Response {
    const paths = [...new Set(c.req.queries("path"))];
    if (paths.length === 0 || paths.length > MOST_PATHS || !paths.every((path) => path.startsWith("/")))
      return refuse(c, 400, `name what to follow: 1 to ${MOST_PATHS} paths`);
    if (this.#tabs >= MOST_TABS) return refuse(c, 503, "too many tabs are open");
    const tab = c.req.query("tab") ?? null;
    let end = () => {};
    const body = new ReadableStream<Uint8Array>(
      {
        start: (out) => {
          end = this.#stream(out, paths, tab);
        },
        cancel: () => end(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: MOST_WAITING_BYTES }),
    );
    return c.body(body as never, 200, { "content-type": "text/event-stream", "x-accel-buffering": "no" });
  }

  #stream(out: ReadableStreamDefaultController<Uint8Array>, paths: readonly string[], tab: string | null): () => void {
    const { clock } = this.#options;
    const encoder = new TextEncoder();
    let over = false;
    let unfollow = () => {};
    let unping = () => {};
    const end = () => {
      if (over) return;
      over = true;
      this.#tabs -= 1;
      unfollow();
      unping();
    };
    const write = (text: string) => {
      if (over) return;
      // Whoever does not read comes back later, and is told what is then.
      if ((out.desiredSize ?? 0) <= 0) {
        end();
        out.close();
      } else out.enqueue(encoder.encode(text));
    };
    const ping = () => {
      write(": still here\n\n");
      unping = clock.after(PING_EVERY_MS, ping);
    };
    this.#tabs += 1;
    write("retry: 2000\n\n");
    unping = clock.after(PING_EVERY_MS, ping);
    const send = (path: string, { status, body }: Answer) => {
      const now = Math.round(this.#reader.known_now_ms);
      write(`data: {"path":${JSON.stringify(path)},"now":${now},"status":${status},"body":${body}}\n\n`);
    };
    unfollow = this.#live.follow(paths, send, tab);
    return end;
  }

  #failed(error: unknown, c: Context): Response {
    // What went wrong with the store is for whoever looks; of what else, they need not know.
    const known = error instanceof LeaseError;
    this.#options.trouble(`${c.req.method} ${c.req.path}: ${errorText(error)}`);
    return c.json({ error: known ? error.message : "something went wrong here; lease ui has said what" }, 503);
  }
}

const smallBody = bodyLimit({
  maxSize: MOST_SENT_MIB * 1024 * 1024,
  onError: (c) =>
    refuse(c, 413, `this is larger than ${MOST_SENT_MIB} MiB: put it into a file, and let the job read that`),
});

function nothingHere(c: Context): Response {
  const instead = "programs ask lease inspect --json, lease metrics or the library";
  return refuse(c, 404, `there is no ${c.req.method} ${c.req.path} here: it is for the pages of lease ui; ${instead}`);
}

function plainOf({ gzip }: PageFile): ReadableStream {
  return new Blob([gzip as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new DecompressionStream("gzip"));
}

/** Any page's address is answered with the same document, which looks at the address itself. */
const PAGES = ["/", "/jobs", "/jobs/:id", "/queues", "/workers", "/schedules", "/failures"];

function pages(app: Hono, files: readonly PageFile[]): void {
  for (const file of files) {
    const { path, type, gzip, immutable } = file;
    const answer = (c: Context) => {
      c.header("content-type", type);
      c.header("cache-control", immutable ? "public, max-age=31536000, immutable" : "no-cache");
      if (/\bgzip\b/.test(c.req.header("accept-encoding") ?? "")) {
        c.header("content-encoding", "gzip");
        c.header("vary", "accept-encoding");
        return c.body(gzip as never);
      }
      return c.body(plainOf(file) as never);
    };
    for (const address of path === "/index.html" ? PAGES : [path]) app.get(address, answer);
  }
}
