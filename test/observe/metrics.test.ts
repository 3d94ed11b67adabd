/** What Prometheus is told: by a real worker and from a store, as promtool wants it, and rules that fire when they should. */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expectRefusal, usePlaces, type Place } from "../cli/lease.ts";
import { newSchema } from "../support/postgres.ts";

setDefaultTimeout(30_000);

const newPlace = usePlaces();
const MONITORING = join(import.meta.dir, "../../scripts/monitoring");
const promtool = Bun.which("promtool");
if (promtool === null) console.warn("SKIPPED: what Prometheus says of our metrics, for want of promtool");

/** What promtool finds wrong; empty: nothing. */
async function complaints(text: string): Promise<string> {
  if (promtool === null) return "";
  const child = Bun.spawn([promtool, "check", "metrics"], { stdin: new Blob([text]), stdout: "pipe", stderr: "pipe" });
  const [out, error, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return code === 0 ? "" : `${out}${error}`;
}

/** Samples by name and labels, as they are written. */
function samples(text: string): Map<string, number> {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ")))]),
  );
}

async function withWork(place: Place): Promise<void> {
  await place.enqueue("-q", "mail", "--", "echo", "hello");
  await place.enqueue("-q", "mail", "--retries", "0", "--", "false");
  await place.enqueue("-q", 'odd "name"\\', "--", "true");
  await place.lease("worker", "-q", "mail", "--until-empty");
}

function expectWork(found: ReadonlyMap<string, number>): void {
  expect(found.get('lease_jobs{queue="mail",state="completed"}')).toBe(1);
  expect(found.get('lease_jobs{queue="mail",state="failed"}')).toBe(1);
  expect(found.get('lease_attempts_total{queue="mail",cause="success"}')).toBe(1);
  expect(found.get('lease_attempts_total{queue="mail",cause="exit"}')).toBe(1);
  expect(found.get('lease_job_wait_seconds_count{queue="mail"}')).toBe(2);
  expect(found.get('lease_attempt_duration_seconds_bucket{queue="mail",le="+Inf"}')).toBe(2);
  expect(found.get('lease_oldest_pending_seconds{queue="odd \\"name\\"\\\\"}')).toBeGreaterThanOrEqual(0);
  expect(found.get("lease_stale_leases")).toBe(0);
}

describe("lease metrics", () => {
  test("prints what the store knows, in words that promtool has nothing against", async () => {
    const place = newPlace();
    await withWork(place);
    await place.lease("limit", "mail", "2");
    await place.lease("schedule", "nightly", "--cron", "0 3 * * *", "--", "true");
    const { code, stdout } = await place.lease("metrics");
    expect(code).toBe(0);
    const found = samples(stdout);
    expectWork(found);
    expect(found.get('lease_limit_max{limit="mail"}')).toBe(2);
    expect(found.get('lease_limit_running{limit="mail"}')).toBe(0);
    expect(found.get('lease_schedule_lag_seconds{schedule="nightly"}')).toBe(0);
    expect(found.get("lease_store_wal_bytes")).toBeGreaterThanOrEqual(0);
    expect(stdout).toMatch(/lease_info\{version="[\d.]+",fence="(cgroup|tree|group)"\} 1/);
    expect(await complaints(stdout)).toBe("");
  });

  test("does the same of PostgreSQL", async () => {
    const schema = await newSchema();
    const place = newPlace();
    const on = (...args: string[]) => place.leaseWith({ env: { LEASE_STORE: schema.url } }, ...args);
    try {
      await on("enqueue", "-q", "mail", "--", "true");
      await on("enqueue", "-q", "mail", "--retries", "0", "--", "false");
      await on("enqueue", "-q", 'odd "name"\\', "--", "true");
      await on("worker", "-q", "mail", "--until-empty");
      const { stdout, stderr } = await on("metrics");
      expect(stderr).toBe("");
      expectWork(samples(stdout));
      expect(await complaints(stdout)).toBe("");
    } finally {
      await schema.drop();
    }
  });

  test("writes a file whole, for the textfile collector", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const path = join(place.folder, "lease.prom");
    expect(await place.lease("metrics", "--output", path)).toMatchObject({ code: 0, stdout: "" });
    expect(samples(readFileSync(path, "utf8")).get('lease_jobs{queue="default",state="pending"}')).toBe(1);
    expect(statSync(path).mode & 0o777).toBe(0o644);
    const refused = "--output /no/such/place/x can't be written: there is no such folder";
    expectRefusal(await place.lease("metrics", "--output", "/no/such/place/x"), 2, refused);
    mkdirSync(join(place.folder, "taken"));
    expectRefusal(await place.lease("metrics", "--output", "taken"), 2, "it is a folder");
    expect(readdirSync(place.folder).filter((name) => name.startsWith("taken."))).toEqual([]);
  });

  test.each(["nowhere", "127.0.0.1:99999", "1:2:3"])("refuses %p as an address", async (address) => {
    expectRefusal(await newPlace().lease("metrics", "--serve", address), 2, "is not an address");
  });

  test("refuses a port that is taken, and an address that is not this machine's", async () => {
    const taken = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
    const place = newPlace();
    await place.enqueue("--", "true");
    const address = `127.0.0.1:${taken.port}`;
    const told = `port ${taken.port} is in use: give another one`;
    expectRefusal(await place.lease("metrics", "--serve", address), 2, told);
    expectRefusal(await place.lease("worker", "--until-empty", "--metrics", address), 2, told);
    expectRefusal(await place.lease("metrics", "--serve", "192.0.2.1:0"), 2, "no such address");
    await taken.stop(true);
  });
});

describe("a worker with --metrics", () => {
  test("tells of its slots, beats, extensions and writes while it works, and of the store", async () => {
    const place = newPlace();
    await place.enqueue("--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 0.2; done");
    const store = join(place.folder, "lease.db");
    const binary = process.env["LEASE_BIN"] ?? join(import.meta.dir, "../../dist/lease");
    const work = ["worker", "--store", store, "--lease", "2s", "--interval", "200ms", "--metrics", "127.0.0.1:0"];
    const worker = Bun.spawn([binary, ...work], { stderr: "pipe", stdout: "ignore", env: { ...process.env } });
    try {
      const url = await addressIn(worker.stderr);
      let found = new Map<string, number>();
      for (let tries = 0; tries < 100; tries++) {
        const text = await (await fetch(url)).text();
        found = samples(text);
        if ((found.get('lease_worker_attempts_total{queue="default",cause="success"}') ?? 0) > 0) {
          expect(await complaints(text)).toBe("");
          break;
        }
        await Bun.sleep(100);
      }
      expect(found.get('lease_worker_attempts_total{queue="default",cause="success"}')).toBe(1);
      expect(found.get('lease_worker_extensions_total{result="extended"}')).toBeGreaterThan(0);
      expect(found.get('lease_worker_extensions_total{result="refused"}')).toBe(0);
      expect(found.get('lease_worker_beat_gap_seconds_count{queue="default"}')).toBeGreaterThanOrEqual(10);
      expect(found.get('lease_worker_store_write_seconds_count{verb="settle"}')).toBe(1);
      expect(found.get('lease_worker_slots{state="idle"}')).toBe(1);
      expect(found.has("lease_worker_store_retries_total")).toBe(true);
      expect(found.get('lease_jobs{queue="default",state="completed"}')).toBe(1);
      expect((await fetch(url.replace("/metrics", "/x"))).status).toBe(404);
      expect((await fetch(url, { method: "POST" })).status).toBe(405);
    } finally {
      worker.kill("SIGTERM");
      expect(await worker.exited).toBe(0);
    }
  });
});

/** That the log names. */
async function addressIn(stream: ReadableStream<Uint8Array>): Promise<string> {
  let said = "";
  for await (const bytes of stream) {
    said += new TextDecoder().decode(bytes);
    const url = /http:\/\/\S+\/metrics/.exec(said)?.[0];
    if (url !== undefined) return url;
  }
  throw new Error(`no address in ${said}`);
}

describe("the rules and the dashboard", () => {
  test.skipIf(promtool === null)("rules fire when they should, and only then", () => {
    for (const args of [
      ["check", "rules", "rules.yml"],
      ["test", "rules", "rules_test.yml"],
    ]) {
      const { exitCode, stdout, stderr } = Bun.spawnSync(["promtool", ...args], { cwd: MONITORING });
      expect({ exitCode, said: exitCode === 0 ? "" : `${stdout}${stderr}` }).toEqual({ exitCode: 0, said: "" });
    }
  });

  test("name only metrics that there are", async () => {
    const place = newPlace();
    await withWork(place);
    const { stdout } = await place.lease("metrics");
    const there = new Set([...stdout.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name));
    const source = readFileSync(join(import.meta.dir, "../../src/observe/metrics/worker_metrics.ts"), "utf8");
    for (const file of ["rules.yml", "grafana.json", "../../docs/observability.md"]) {
      const named = readFileSync(join(MONITORING, file), "utf8").matchAll(/\blease_([a-z_]+)/g);
      for (const [whole, name = ""] of named) {
        const base = whole.replace(/_(bucket|count|sum)$/, "");
        const own = name.startsWith("worker_") && source.includes(base.replace("lease_worker_", ""));
        expect({ file, whole, there: own || there.has(base) }).toEqual({ file, whole, there: true });
      }
    }
  });
});
