/**
 * Secrets stay where they belong. A password and a variable of a job that no other text looks like go through everything
 * that lease can do; then everything that it has printed, written or shown about itself, and the log of a server that
 * logs all it can, are searched for them.
 */

import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import postgres from "postgres";
import { newSchema, startPostgres, type Server } from "../support/postgres.ts";
import { until } from "../support/process.ts";
import { environment, LEASE, run, usePlaces, type Answer, type Place } from "./lease.ts";

setDefaultTimeout(120_000);

const PASSWORD = "canary-Pw-5b1fe";
const VALUE = "canary-Env-77ac0";
const UI_TOKEN = "canary-Token-e41d9c02";
const CANARY = /canary/i;

const newPlace = usePlaces();
const clearing: (() => unknown)[] = [];
afterAll(async () => {
  for (const clear of clearing.toReversed()) await clear();
});

/** All that it said, by what was asked. */
class Told {
  readonly #place: Place;
  readonly #env: Record<string, string>;
  readonly said: [what: string, text: string][] = [];

  constructor(place: Place, env: Record<string, string>) {
    this.#place = place;
    this.#env = { ...place.env, TOKEN: VALUE, LEASE, ...env };
  }

  async lease(...words: string[]): Promise<Answer> {
    const answer = await run([LEASE, ...words], { cwd: this.#place.folder, env: this.#env });
    this.said.push([words.join(" ").replaceAll(/canary/gi, "…"), `${answer.stdout}\n${answer.stderr}`]);
    return answer;
  }

  /** The dashboard, for others too: what it prints, and what it answers to who knows the token, and to who does not. */
  async dashboard(): Promise<void> {
    const child = Bun.spawn([LEASE, "ui", "--host", "0.0.0.0", "--allow-host", "127.0.0.1", "--port", "0", "-v"], {
      cwd: this.#place.folder,
      env: environment({ ...this.#env, LEASE_UI_TOKEN: UI_TOKEN }),
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    let printed = "";
    const reading = (async () => {
      for await (const bytes of child.stdout) printed += new TextDecoder().decode(bytes);
    })();
    const port = await until("it listens", () => /:(\d+)\//.exec(printed)?.[1] ?? null);
    const ask = async (path: string, headers: Record<string, string> = {}, init: RequestInit = {}) => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`, { ...init, headers });
      const heads = [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
      this.said.push([`ui ${path}`, `${response.status}\n${heads}\n${await response.text()}`]);
      return response.status;
    };
    const known = { authorization: `Bearer ${UI_TOKEN}` };
    for (const path of ["/", "/api/overview", "/api/jobs/1"]) await ask(path);
    const told = await Promise.all(
      ["/api/overview", "/api/jobs", "/api/jobs/1", "/api/about"].map((at) => ask(at, known)),
    );
    expect(told).toContain(200);
    const body = JSON.stringify({ token: `${UI_TOKEN}-wrong` });
    const own = { "content-type": "application/json", origin: `http://127.0.0.1:${port}` };
    await ask("/api/login", own, { method: "POST", body });
    this.said.push(["ps of ui", readFileSync(`/proc/${child.pid}/cmdline`, "latin1")]);
    child.kill();
    await Promise.all([reading, child.exited]);
    this.said.push(["ui", `${printed}\n${await child.stderr.text()}`]);
  }

  /** What was printed or written and holds what it must not. */
  leaks(...more: string[]): string[] {
    const files = filesIn(this.#place.folder)
      .filter((path) => !/\.db(?:-|$)|lease\.toml$|\.pgpass$|jobs\.jsonl$/.test(path))
      .map((path): [string, string] => [path, readFileSync(path, "latin1")]);
    const all = [...this.said, ...files, ...more.map((text, index): [string, string] => [`more ${index}`, text])];
    expect(all.length).toBeGreaterThan(20);
    const hidden = [PASSWORD, VALUE, UI_TOKEN].flatMap((text) => [
      Buffer.from(text).toString("hex"),
      btoa(text).slice(0, -3),
    ]);
    const found = all.filter(([, text]) => CANARY.test(text) || hidden.some((other) => text.includes(other)));
    return found.map(([what, text]) => `${what}: ${lineOf(text, CANARY)}`);
  }
}

function lineOf(text: string, wanted: RegExp): string {
  return text.split("\n").find((line) => wanted.test(line)) ?? "(in another form)";
}

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

/**
 * Looks around while it runs: what everybody can see of every process, and what lease says from inside. Only when those
 * that have secrets on their command lines are at work: what a program is given is seen until it can cover it.
 */
const LOOK = `
  until [ -e up ]; do sleep 0.05; done
  for n in 1 2; do cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' >> seen.txt; sleep 0.2; done
  "$LEASE" beat --progress 40 --message half; "$LEASE" checkpoint "a note"; "$LEASE" inspect "$LEASE_JOB_ID"
  "$LEASE" doctor; test -n "$TOKEN" && echo ok > "$LEASE_OUTPUT"`;

async function everything(told: Told, place: Place, url: string): Promise<void> {
  const { folder } = place;
  writeFileSync(
    join(folder, "jobs.jsonl"),
    `${JSON.stringify({ argv: ["true"], env: { TOKEN: VALUE }, queue: "bulk" })}\n`,
  );
  await told.lease("enqueue", "--env", "TOKEN", "--key", "k", "-c", LOOK);
  await told.lease("enqueue", "-v", "--env", `A=${VALUE}`, "--retries", "1", "--backoff", "10ms", "--", "false");
  await told.lease("enqueue", "--env", "TOKEN", "--after", "1", "--input", "in", "--", "cat");
  await told.lease("enqueue", "--env", "TOKEN", "--key", "k", "--if-exists", "replace", "-c", LOOK);
  await told.lease("enqueue", "--env", "TOKEN", "--", "/no/such/program");
  await told.lease("enqueue", "--from", "jobs.jsonl", "-v");
  await told.lease("enqueue", "--env", "TOKEN", "--delay", "1h", "--", "true");
  await told.lease("enqueue", "--env", "TOKEN", "--on-failed", "true", "--retries", "0", "--", "false");
  await told.lease("schedule", "hourly", "--every", "1h", "--env", "TOKEN", "--env", `A=${VALUE}`, "--", "true");
  await told.lease("schedule", "hourly", "--now");
  for (const words of [[], ["--json"], ["hourly"], ["hourly", "--json"]]) await told.lease("schedule", ...words);
  const bothAreUp = async () => {
    const live = async () =>
      (await told.lease("inspect", "workers", "--json")).stdout.match(/"stopped_at":null/g)?.length;
    await until("both are at work", async () => (await live()) === 2);
    writeFileSync(join(folder, "up"), "");
  };
  await Promise.all([
    bothAreUp(),
    told.lease("run", "-v", "--store", url, "--env", `B=${VALUE},TOKEN`, "-c", `${LOOK}; sleep 0.5`),
    told.lease("worker", "-v", "--until-empty", "-j", "2", "--store", url, "--log-dir", join(folder, "logs")),
  ]);
  expect(readFileSync(join(folder, "seen.txt"), "utf8")).toContain("worker -v --until-empty");
  await told.lease("enqueue", "--env", "TOKEN", "--", "true");
  await told.lease("worker", "-v", "--until-empty", "--log-format", "json");
  await told.lease("watchdog", "--once", "-v", "--json");
  for (const id of ["1", "2", "3", "4", "5", "6"]) {
    await told.lease("inspect", id);
    await told.lease("inspect", id, "--json");
    await told.lease("logs", id, "--timestamps");
  }
  for (const view of ["jobs", "queues", "workers", "leases", "checkpoints"]) {
    await told.lease("inspect", view);
    await told.lease("inspect", view, "--json");
  }
  await told.lease("inspect");
  await told.lease("inspect", "--json");
  await told.lease("wait", "1", "2");
  await told.lease("edit", "7", "--priority", "3", "--retries", "2", "-v");
  await told.lease("edit", "7", "--delay", "2h", "--json");
  await told.lease("edit", "1", "--env", `A=${VALUE}`);
  await told.dashboard();
  await told.lease("cancel", "7");
  await told.lease("retry", "2");
  await told.lease("doctor");
  await told.lease("doctor", "--json");
  await told.lease("doctor", "--audit");
  await told.lease("doctor", "--audit", "--json");
  await told.lease("doctor", "--grants", "--store", url);
  await told.lease("metrics");
  await told.lease("limit");
  await told.lease("completions", "bash");
  await told.lease("prune", "--older-than", "0s", "--dry-run");
  await told.lease("copy", "-v", "--to", join(folder, "copy.db"), "--force");
  await told.lease("copy", "-v", "--to", join(folder, "copy.db"), "--force", "--json");
  await told.lease("enqueue", "--env", `1A=${VALUE}`, "--", "true");
  await told.lease("enqueue", "--env", `=${VALUE}`, "--", "true");
  await told.lease("enqueue", "--stroe", url, "--", "true");
  await told.lease("inspect", "--store", url.replace(/:\/\/.*@/, `://me:${PASSWORD}@no-such-host.invalid`));
  await told.lease("inspect", "-v", "--store", `postgres://me:${PASSWORD}@127.0.0.1:1/db`);
  await told.lease("inspect", "-v", "--store", `postgres://me:${PASSWORD}@127.0.0.1:x/db`);
  await told.lease("inspect", "-v", "--store", `mysql://me:${PASSWORD}@127.0.0.1/db`);
  await told.lease("inspect", "-v", "--store", `postgres://me:${PASSWORD}%@127.0.0.1/db`);
  await told.lease("worker", "extra", "--store", url);
  writeFileSync(join(folder, "lease.toml"), `store = "${url}"\n[enqueue]\nenv = ["A=${VALUE}"]\nretries = "many"\n`);
  await told.lease("doctor");
  await told.lease("doctor", "--json");
  await told.lease("enqueue", "--", "true");
  writeFileSync(join(folder, "lease.toml"), `store = "${url}"\n[enqueue]\nenv = [ "A=${VALUE}"\n`);
  await told.lease("doctor");
  await told.lease("enqueue", "--", "true");
  writeFileSync(join(folder, "lease.toml"), "");
}

describe("secrets", () => {
  test("are in nothing that is printed or written, with a store in SQLite", async () => {
    const place = newPlace();
    const told = new Told(place, {});
    await everything(told, place, place.store);
    expect(told.leaks()).toEqual([]);
    // The job itself had it.
    expect((await told.lease("inspect", "1", "--json", "--show-env")).stdout).toContain(VALUE);
  });

  test("are in nothing that is printed, written or logged by the server, with a store in PostgreSQL", async () => {
    const place = newPlace();
    const server = await startLogging();
    const url = server.url.replace("lease:secret@", `keeper:${PASSWORD}@`);
    const told = new Told(place, { LEASE_STORE: url });
    await everything(told, place, url);
    await told.lease("copy", "-v", "--store", join(place.folder, "copy.db"), "--to", `${url}?schema=other`, "--force");
    await told.lease("inspect", "-v", "--store", url.replace(PASSWORD, `${PASSWORD}-wrong`));
    await told.lease("inspect", "-v", "--store", url.replace("/postgres", "/no_such_database"));
    expect(server.log).toContain("INSERT INTO");
    expect(told.leaks(server.log)).toEqual([]);
    expect((await told.lease("inspect", "1", "--json", "--show-env")).stdout).toContain(VALUE);
    const copied = await told.lease("inspect", "1", "--json", "--show-env", "--store", `${url}?schema=other`);
    expect(copied.stdout).toContain(VALUE);
  });
});

/** A server that logs whatever it can, and a role whose password only it knows. */
async function startLogging(): Promise<Server> {
  const all = ["log_statement=all", "log_min_duration_statement=0", "log_connections=on", "log_min_messages=debug1"];
  const lengths = ["log_parameter_max_length=-1", "log_parameter_max_length_on_error=-1"];
  const server = await startPostgres([...all, ...lengths]);
  clearing.push(() => server.stop());
  const sql = postgres(server.url, { max: 1 });
  await sql.unsafe("SET log_statement = 'none'; SET log_min_duration_statement = -1");
  await sql.unsafe(`CREATE ROLE keeper LOGIN PASSWORD '${PASSWORD}'`);
  await sql.unsafe("GRANT CREATE ON DATABASE postgres TO keeper");
  await sql.end();
  return server;
}

describe("a password in LEASE_STORE", () => {
  async function passwordOfJob(place: Place, pgpass: string | null): Promise<string> {
    const schema = await newSchema();
    clearing.push(() => schema.drop());
    if (pgpass !== null) {
      writeFileSync(join(place.folder, ".pgpass"), pgpass);
      chmodSync(join(place.folder, ".pgpass"), 0o600);
    }
    const env = { ...place.env, LEASE_STORE: schema.url };
    const lease = (...words: string[]) => run([LEASE, ...words], { cwd: place.folder, env });
    await lease("enqueue", "-c", 'echo "$LEASE_STORE" > url; "$LEASE" beat && echo fine > beat');
    expect((await lease("worker", "--until-empty")).code).toBe(0);
    expect(statSync(join(place.folder, "beat")).isFile()).toBe(true);
    return new URL(readFileSync(join(place.folder, "url"), "utf8").trim()).password;
  }

  test("is not handed to jobs when they can have it from ~/.pgpass", async () => {
    expect(await passwordOfJob(newPlace(), "*:*:*:lease:secret\n")).toBe("");
  });

  test("is handed to them when they would be lost without it", async () => {
    expect(await passwordOfJob(newPlace(), null)).toBe("secret");
    expect(await passwordOfJob(newPlace(), "*:*:*:lease:another\n")).toBe("secret");
  });
});
