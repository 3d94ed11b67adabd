/** What `lease logs` shows of what jobs printed, live and afterwards, in whole and in part. */

import { describe, expect } from "bun:test";
import { readdirSync, statSync } from "node:fs";
import { scenario, until } from "../support/process.ts";

const BOTH = "echo one; sleep 0.15; echo two >&2; sleep 0.15; echo three; sleep 0.15; echo four >&2";

describe("lease logs", () => {
  scenario("shows both streams in the order in which they came, or one of them", async (site) => {
    const id = String(await site.script([], BOTH));
    await site.worker("--until-empty").ended;
    expect(await site.run(["logs", id])).toMatchObject({ code: 0, stdout: "one\ntwo\nthree\nfour\n", stderr: "" });
    expect((await site.run(["logs", id, "--stream", "stdout"])).stdout).toBe("one\nthree\n");
    expect((await site.run(["logs", id, "--stream", "stderr"])).stdout).toBe("two\nfour\n");
  });

  scenario("says with --timestamps when each line was printed", async (site) => {
    const before_ms = Date.now();
    const id = String(await site.script([], BOTH));
    await site.worker("--until-empty").ended;
    const { stdout } = await site.run(["logs", id, "--timestamps"]);
    const lines = stdout
      .trimEnd()
      .split("\n")
      .map((line) => /^(\S+Z) (.*)$/.exec(line));
    expect(lines.map((line) => line?.[2])).toEqual(["one", "two", "three", "four"]);
    const times = lines.map((line) => Date.parse(line?.[1] ?? ""));
    expect(times).toEqual(times.toSorted());
    expect(times[0]).toBeGreaterThanOrEqual(before_ms);
    // A machine that is busy may see the first one late.
    expect(times[3]! - times[0]!).toBeGreaterThanOrEqual(200);
    expect(times[3]).toBeLessThanOrEqual(Date.now());
  });

  scenario("shows the newest attempt, or the one that was asked for", async (site) => {
    const id = String(
      await site.script(["--backoff", "none", "--retries", "1"], 'echo "attempt $LEASE_ATTEMPT"; exit 1'),
    );
    await site.worker("--until-empty").ended;
    expect((await site.run(["logs", id])).stdout).toBe("attempt 2\n");
    expect((await site.run(["logs", id, "--attempt", "1"])).stdout).toBe("attempt 1\n");
    const missing = await site.run(["logs", id, "--attempt", "3"]);
    expect(missing).toMatchObject({ code: 1, stdout: "" });
    expect(missing.stderr).toContain("no attempt 3");
    expect(await site.run(["logs", "99"])).toMatchObject({ code: 1, stdout: "" });
  });

  scenario("follows a job live, from before it runs through its retries, and ends when the job has", async (site) => {
    const id = await site.script(
      ["--backoff", "none", "--retries", "1"],
      'echo "begin $LEASE_ATTEMPT"; until [ -e go-$LEASE_ATTEMPT ]; do sleep 0.05; done; echo "end $LEASE_ATTEMPT"; exit 1',
    );
    const follow = site.start(["logs", "-f", String(id)]);
    const worker = await site.workerReady();
    await follow.line(/^begin 1$/);
    expect(follow.stdout).toBe("begin 1\n");
    await Bun.write(site.path("go-1"), "");
    await follow.line(/^begin 2$/);
    await Bun.write(site.path("go-2"), "");
    expect(await follow.ended).toMatchObject({ code: 0, stdout: "begin 1\nend 1\nbegin 2\nend 2\n", stderr: "" });
    expect(await site.job(id)).toMatchObject({ state: "failed", attempts: 2 });
    await worker.end();
  });

  scenario("of a finished job ends at once, also with -f", async (site) => {
    const id = String(await site.enqueue([], "echo", "hi"));
    await site.worker("--until-empty").ended;
    expect(await site.run(["logs", "-f", id])).toMatchObject({ code: 0, stdout: "hi\n" });
  });

  scenario("ends quietly when its reader has seen enough", async (site) => {
    const id = await site.enqueue([], "seq", "1000000");
    await site.worker("--until-empty").ended;
    const script = `lease logs --store "${site.location}" ${id} | head -1; echo "\${PIPESTATUS[0]}"`;
    const { stdout, stderr } = await site.spawn(["bash", "-c", script]).ended;
    expect({ stdout, stderr }).toEqual({ stdout: "1\n141\n", stderr: "" });
  });

  scenario("ends quietly when its reader has seen enough of a job that it follows", async (site) => {
    const id = await site.script(["--retries", "0"], "while :; do seq 1000; sleep 0.1; done");
    const worker = await site.workerReady();
    await site.childOf(id);
    const script = `lease logs -f --store "${site.location}" ${id} | head -1; echo "\${PIPESTATUS[0]}"`;
    const { stdout, stderr } = await site.spawn(["bash", "-c", script]).ended;
    expect({ stdout, stderr }).toEqual({ stdout: "1\n141\n", stderr: "" });
    await worker.end("SIGQUIT");
  });

  scenario("is complete for a job that prints a lot", async (site) => {
    const id = await site.enqueue([], "seq", "1000000");
    await site.worker("--until-empty").ended;
    const { stdout } = await site.run(["logs", String(id)]);
    expect(stdout.length).toBe(6_888_896);
    expect(Bun.hash(stdout)).toBe(Bun.hash(Array.from({ length: 1_000_000 }, (_, i) => `${i + 1}\n`).join("")));
  });
});

describe("the limit of a log", () => {
  scenario("keeps the beginning and the end, and tells how much is missing between them", async (site) => {
    const limit = 2 * 1024 * 1024;
    const id = await site.enqueue(["--log-limit", "2MiB"], "seq", "-f", "%09.0f", "2000000");
    expect((await site.worker("--until-empty").ended).code).toBe(0);
    const { stdout } = await site.run(["logs", String(id)]);
    const gaps = [...stdout.matchAll(/^\[… (\d+) bytes were not kept …\]$/gm)];
    expect(gaps).toHaveLength(1);
    const missing = Number(gaps[0]?.[1]);
    const shown = new TextEncoder().encode(stdout.replace(`${gaps[0]?.[0]}\n`, "")).length;
    // A line that the gap cuts in two is ended where it is cut.
    expect(shown + missing - 20_000_000).toBeLessThanOrEqual(1);
    expect(shown + missing).toBeGreaterThanOrEqual(20_000_000);
    // A piece at each edge may be kept whole.
    expect(shown).toBeGreaterThanOrEqual(limit);
    expect(shown).toBeLessThan(limit + 2 * 300 * 1024);
    const [head = "", tail = ""] = stdout.split(/^\[….*\]\n/m);
    expect(head.length).toBeGreaterThanOrEqual(limit / 4);
    expect(tail.length).toBeGreaterThanOrEqual((limit * 3) / 4);
    expect(head.startsWith("000000001\n000000002\n")).toBe(true);
    expect(tail.endsWith("001999999\n002000000\n")).toBe(true);
  });

  scenario("bounds what the store keeps of jobs that print as fast as they can", async (site) => {
    const flood = () => site.enqueue(["--log-limit", "1MiB", "--retries", "0"], "yes", "all work and no play");
    const ids = [await flood(), await flood(), await flood(), await flood(), await flood(), await flood()];
    const worker = await site.workerReady("-j", String(ids.length));
    for (const id of ids) await site.childOf(id);
    await Bun.sleep(1_500);
    await worker.end("SIGQUIT");
    for (const id of ids) {
      const chunks = await site.store.logs({ job: id, attempt: 1, from: 0, limit: 100_000 });
      const kept = chunks.reduce((sum, { bytes }) => sum + bytes, 0);
      expect(kept).toBeGreaterThan(1024 * 1024 - 1);
      // A piece at each edge may be kept whole.
      expect(kept).toBeLessThan(1024 * 1024 + 2 * 300 * 1024);
    }
  });
});

describe("--log-dir", () => {
  scenario("keeps each attempt's whole log as a plain file that nobody else can read", async (site) => {
    const flags = ["--backoff", "none", "--retries", "1", "--log-limit", "4k"];
    const script =
      'seq 20000; sleep 0.2; echo "attempt $LEASE_ATTEMPT" >&2; sleep 0.2; printf end; exit $((2 - LEASE_ATTEMPT))';
    const id = await site.script(flags, script);
    expect((await site.worker("--until-empty", "--log-dir", site.path("logs")).ended).code).toBe(0);
    expect(readdirSync(site.path("logs")).toSorted()).toEqual([`${id}.1.log`, `${id}.2.log`]);
    for (const attempt of [1, 2]) {
      const text = site.text(`logs/${id}.${attempt}.log`);
      const [command, ...lines] = text.split("\n");
      expect(command).toStartWith("$ sh -c 'seq 20000;");
      const ending = [`attempt ${attempt}`, "end", `[exit code ${2 - attempt}]`, ""];
      expect(lines.slice(20_000)).toEqual(ending);
      expect(lines.slice(0, 20_000).every((line, index) => line === String(index + 1))).toBe(true);
      expect(statSync(site.path(`logs/${id}.${attempt}.log`)).mode & 0o777).toBe(0o600);
    }
  });

  scenario("that can't be written is told, and costs no job its run", async (site) => {
    await Bun.write(site.path("file"), "");
    const id = await site.script([], "echo hi");
    const worker = site.worker("--until-empty", "--log-dir", site.path("file/logs"));
    const { code, stderr } = await until("the worker has ended", async () => (worker.over ? worker.ended : null));
    expect(stderr).toContain(site.path("file/logs"));
    // Either the worker refuses to start, or it runs the job without the file.
    const { state } = await site.job(id);
    expect([
      { code: 2, state: "pending" },
      { code: 125, state: "pending" },
      { code: 0, state: "completed" },
    ]).toContainEqual({ code, state });
  });
});
