/** Failure hooks as docs/planning.md has them, with a receiver that is down for a while, and workers that die. */

import { describe, expect } from "bun:test";
import { chmodSync } from "node:fs";
import { scenario } from "../support/process.ts";
import type { Site } from "../support/process.ts";

/** The webhook of docs/planning.md, but for its address. */
const WEBHOOK = (url: string) =>
  `curl -fsS --max-time 10 -d "job $LEASE_FAILED_JOB failed: $LEASE_FAILED_ERROR" ${url}`;

interface Received {
  path: string;
  body: string;
}

/** On a port of its own that is closed until `open`. */
async function receiver() {
  const received: Received[] = [];
  const probe = Bun.serve({ port: 0, fetch: () => new Response("") });
  const { port } = probe;
  await probe.stop(true);
  let server: ReturnType<typeof Bun.serve> | null = null;
  return {
    url: `http://127.0.0.1:${port}`,
    received,
    open: () => {
      server = Bun.serve({
        port: port as number,
        hostname: "127.0.0.1",
        fetch: async (request) => {
          received.push({ path: new URL(request.url).pathname, body: await request.text() });
          return new Response("thanks");
        },
      });
    },
    close: () => server?.stop(true),
  };
}

async function hooks(site: Site) {
  const { stdout } = await site.run(["inspect", "jobs", "--json"]);
  const jobs = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { id: number; argv: string[]; state: string; attempts: number });
  return jobs.filter(({ argv }) => argv.join(" ").includes("FAILED"));
}

describe("a job with --on-failed", () => {
  scenario("tells a receiver that is down for a while, once, and says what it knows", async (site) => {
    const hook = await receiver();
    try {
      const line = `${WEBHOOK(hook.url)}; code=$?; cat > log; echo "$LEASE_FAILED_LAST_LINES" > lines; exit $code`;
      await site.run([
        "enqueue",
        "--retries",
        "1",
        "--backoff",
        "none",
        "--on-failed",
        line,
        "-c",
        "echo one; echo two >&2; exit 7",
      ]);
      await site.workerReady();
      await site.reaches(1, "failed");
      // It is tried again by its own rules.
      await site.reaches(2, "scheduled");
      hook.open();
      await site.reaches(2, "completed");
      expect(hook.received).toEqual([{ path: "/", body: "job 1 failed: exit code 7" }]);
      expect(site.lines("log")).toEqual(["one", "two"]);
      expect(site.lines("lines")).toEqual(["one", "two"]);
      expect(await hooks(site)).toHaveLength(1);
    } finally {
      await hook.close();
    }
  });

  scenario("pings a health check with its log, by the variables that it took along", async (site) => {
    const hook = await receiver();
    hook.open();
    try {
      const line = `curl -fsS "${hook.url}/$UUID/fail" --data-binary @-`;
      await site.run([
        "enqueue",
        "--retries",
        "0",
        "--env",
        "UUID=6c1f",
        "--on-failed",
        line,
        "-c",
        "echo one; exit 7",
      ]);
      expect((await site.worker("--until-empty").ended).code).toBe(1);
      expect(hook.received).toEqual([{ path: "/6c1f/fail", body: "one\n" }]);
    } finally {
      await hook.close();
    }
  });

  scenario("sends mail, and again when that could not be handed over", async (site) => {
    const mail = site.path("mail");
    await Bun.write(mail, '#!/bin/sh\n[ -e up ] || { touch up; exit 1; }\necho "$@" > sent; cat >> sent\n');
    chmodSync(mail, 0o755);
    const line = './mail -s "job $LEASE_FAILED_JOB: $LEASE_FAILED_ERROR" ops@example.com';
    await site.run(["enqueue", "--retries", "0", "--on-failed", line, "-c", "echo one; exit 7"]);
    await site.worker("--until-empty").ended;
    expect(site.lines("sent")).toEqual(["-s job 1: exit code 7 ops@example.com", "one"]);
  });

  scenario("has its hook queued once when its workers die until it is given up", async (site) => {
    await site.run([
      "enqueue",
      "--retries",
      "0",
      "--on-failed",
      "echo $LEASE_FAILED_CAUSE >> FAILED",
      "--",
      "sleep",
      "60",
    ]);
    const worker = await site.workerReady();
    await site.childOf(1);
    await worker.end("SIGKILL");
    await Promise.all([1, 2, 3].map(() => site.run(["watchdog", "--once"])));
    await site.worker("--until-empty").ended;
    expect(await site.job(1)).toMatchObject({ state: "failed", error: "max retries exceeded" });
    expect(site.lines("FAILED")).toEqual(["lost"]);
    expect(await hooks(site)).toMatchObject([{ state: "completed", attempts: 1 }]);
  });

  scenario("is followed by a hook that fails and has none itself, whatever lease.toml says", async (site) => {
    await Bun.write(site.path("lease.toml"), '[enqueue]\non_failed = "echo FAILED; no-such-program"\n');
    await site.run(["enqueue", "--retries", "0", "--", "false"]);
    expect((await site.worker("--max-jobs", "2", "--", "env").ended).code).toBe(1);
    const [hook] = await hooks(site);
    expect(hook).toMatchObject({ id: 2 });
    expect((await site.run(["inspect", "2"])).stdout).toMatch(/tells of +job 1, which failed in attempt 1/);
    expect((await site.run(["logs", "2"])).stdout).toContain("no-such-program");
    expect(await hooks(site)).toHaveLength(1);
  });
});
