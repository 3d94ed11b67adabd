/** Failure hooks as docs/planning.md has them, with a receiver that is down for a while, and workers that die. */

import { describe, expect } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../support/postgres.ts";
import { scenario } from "../support/process.ts";
import type { Site } from "../support/process.ts";

const PAGE = readFileSync(join(import.meta.dir, "../../docs/planning.md"), "utf8");

/** The hook of that page that has this in it, with the address of a receiver here. */
function recipe(part: string, url = ""): string {
  const lines = [...PAGE.matchAll(/(?:on_failed = |--on-failed )'([^']+)'/g)].map(([, line = ""]) => line);
  const found = lines.find((line) => line.includes(part));
  if (found === undefined) throw new Error(`docs/planning.md has no hook with ${part}`);
  return found.replace(/https:\/\/[\w.]+/, url);
}

/** Takes mail on a port that is closed until `open`. */
async function postOffice() {
  const port = await freePort();
  const mails: string[] = [];
  const heard = new Map<unknown, string>();
  let server: { stop(now: boolean): void } | null = null;
  const data = (socket: { write(text: string): unknown }, bytes: Uint8Array) => {
    const text = (heard.get(socket) ?? "") + new TextDecoder().decode(bytes);
    const [, mail] = /^DATA\r\n([^]*?)\r\n\.\r\n/.exec(text) ?? [];
    const is_letter = text.startsWith("DATA\r\n") && mail === undefined;
    heard.set(socket, is_letter ? text : "");
    if (mail !== undefined) mails.push(mail);
    if (text === "DATA\r\n") socket.write("354 go on\r\n");
    else if (!is_letter) socket.write(text.startsWith("QUIT") ? "221 bye\r\n" : "250 fine\r\n");
  };
  const open = (socket: { write(text: string): unknown }) => void socket.write("220 here\r\n");
  return {
    port,
    mails,
    open: () => (server = Bun.listen({ hostname: "127.0.0.1", port, socket: { open, data } })),
    close: () => server?.stop(true),
  };
}

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
      const line = `${recipe("hooks.example.com", hook.url)}; code=$?; cat > log; echo "$LEASE_FAILED_LAST_LINES" > lines; exit $code`;
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
      expect(hook.received).toEqual([{ path: "/ops", body: "job 1 failed: exit code 7" }]);
      expect(site.lines("log")).toEqual(["one", "two"]);
      expect(site.lines("lines")).toEqual(["one", "two"]);
      expect(await hooks(site)).toHaveLength(1);
    } finally {
      await hook.close();
    }
  });

  scenario("pings a health check that is down for a while, by the variables that it took along", async (site) => {
    const hook = await receiver();
    try {
      const line = recipe("hc.example.com", hook.url);
      const flags = ["--retries", "0", "--env", "UUID=6c1f", "--on-failed", line];
      await site.run(["enqueue", ...flags, "-c", "echo one; exit 7"]);
      await site.workerReady();
      await site.reaches(2, "scheduled");
      hook.open();
      await site.reaches(2, "completed");
      expect(hook.received).toEqual([{ path: "/6c1f/fail", body: "one\n" }]);
    } finally {
      await hook.close();
    }
  });

  const mailer = Bun.which("msmtp");
  if (mailer === null) console.warn("SKIPPED: mail by a real mailer, because msmtp is not installed");
  else
    scenario("sends mail by a real mailer, and again when that could not be handed over", async (site) => {
      const office = await postOffice();
      try {
        const account = `account default\nhost 127.0.0.1\nport ${office.port}\nfrom lease@example.com\n`;
        await Bun.write(site.path(".msmtprc"), account);
        const flags = ["--retries", "0", "--on-failed", recipe("msmtp")];
        await site.run(["enqueue", ...flags, "-c", "echo one; echo two; exit 7"]);
        site.start(["worker"], { env: { HOME: site.folder } });
        await site.reaches(2, "scheduled");
        office.open();
        await site.reaches(2, "completed");
        expect(office.mails).toHaveLength(1);
        expect(office.mails[0]).toMatch(/Subject: job 1 failed: exit code 7\r\n(?:.+\r\n)*\r\none\r\ntwo$/);
      } finally {
        office.close();
      }
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
