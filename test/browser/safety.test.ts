/** What jobs print, other sites and other people can't do with the dashboard; and that everybody can read it. */

import { describe, expect } from "bun:test";
import { readFileSync } from "node:fs";
import axe from "axe-core";
import { dashboardTest, OTHER_NAME, STRANGER } from "./browser.ts";

const test = dashboardTest();
const HOSTILE = `<script>globalThis.taken = 1</script><img src=x onerror="globalThis.taken = 1"><b>bold</b>`;

describe("what a job says", () => {
  test("is text, wherever it is shown", async ({ site, open }) => {
    const flags = ["-q", "work", "--retries", "0", "-k", HOSTILE, "-t", HOSTILE];
    const script = `echo "$1"; lease beat --message "$1"; lease checkpoint "$1"; printf %s "$1" > "$LEASE_OUTPUT"; exit 3`;
    const id = await site.enqueue(flags, "sh", "-c", script, "sh", HOSTILE);
    await site.reaches(id, "failed");
    const page = await open(`/jobs/${id}`);
    await page.locator(".line .text", { hasText: "<script>" }).waitFor();
    for (const path of ["/jobs", "/failures", "/", `/jobs?q=${encodeURIComponent(HOSTILE)}`]) {
      const list = await open(path);
      await list.locator("main a, main summary").first().waitFor();
      expect(await list.evaluate(() => "taken" in globalThis)).toBe(false);
    }
    expect(await page.evaluate(() => "taken" in globalThis)).toBe(false);
    expect(await page.locator("main script, main img, main b:not(.number)").count()).toBe(0);
  });

  test("has its colours, and no other power over the page", async ({ site, open }) => {
    const text = String.raw`\033[1;31mred\033[0m plain \033]0;owned\007\033[2J\033[8mtail\033[0m \033[38;5;46mgreen\033[0m`;
    const id = await site.script(["-q", "work"], `printf '${text}\\n'; printf '10%%\\r50%%\\r100%%\\n'`);
    await site.reaches(id, "completed");
    const page = await open(`/jobs/${id}`);
    await page.locator(".line .c1.bold", { hasText: "red" }).waitFor();
    expect(await page.locator(".line .text").allInnerTexts()).toEqual(["red plain tail green", "100%"]);
    expect(await page.title()).toBe(`Job ${id} · lease`);
    expect(await page.locator(".line .c10").innerText()).toBe("green");
  });

  test("may be a line of a megabyte: its beginning is shown, and all of it is there to download", async ({
    site,
    open,
  }) => {
    const id = await site.script(["-q", "work"], "head -c 1048576 /dev/zero | tr '\\0' x; echo; echo behind it");
    await site.reaches(id, "completed");
    const page = await open(`/jobs/${id}`);
    await page.locator(".line", { hasText: "behind it" }).waitFor();
    await page.getByText(/and \S+ more characters/).waitFor();
    expect((await page.locator(".log").innerText()).length).toBeLessThan(10_000);
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: "Download" }).click(),
    ]);
    expect(download.suggestedFilename()).toBe(`job-${id}-attempt-1.log`);
    const saved = readFileSync(await download.path(), "utf8");
    expect(saved).toHaveLength(1_048_576 + "\nbehind it\n".length);
  });
});

describe("other sites", () => {
  test("can't change anything by the browser of somebody who looks at the dashboard", async ({ site, url, open }) => {
    await site.enqueue(["-q", "parked"], "true");
    await using other = serveAttack(url);
    const page = await open(`http://${STRANGER}:${other.port}/`);
    await page.getByText("tried").waitFor();
    expect(await site.store.pausedQueues()).toEqual([]);
    expect(await page.locator("#seen").innerText()).toBe("nothing");
    await page.close();
  });

  test("are refused by what a browser says of them, and without it", async ({ url, site }) => {
    const post = (headers: Record<string, string>) =>
      fetch(`${url}/api/queues/pause`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: '{"queue":"parked"}',
      });
    for (const headers of [
      { origin: "https://evil.example" },
      { origin: "null" },
      {},
      { origin: url, "sec-fetch-site": "cross-site" },
      { origin: url, "content-type": "text/plain" },
    ] as Record<string, string>[]) {
      expect((await post(headers)).ok).toBe(false);
    }
    expect(await site.store.pausedQueues()).toEqual([]);
    expect((await post({ origin: url })).status).toBe(200);
    await site.store.setPaused(["parked"], false);
  });

  test("can't get in by a name that they made to point here", async ({ url, open }) => {
    const { port } = new URL(url);
    const page = await open(`http://${OTHER_NAME}:${port}/api/overview`);
    const text = await page.locator("body").innerText();
    expect(text).toContain("not known as");
    expect(text).not.toContain("queues");
    expect((await fetch(`${url}/api/overview`, { headers: { host: `${OTHER_NAME}:${port}` } })).status).toBe(421);
  });
});

/** A page that tries to pause a queue and to read the jobs of the dashboard, every way that a page has. */
function serveAttack(target: string) {
  const script = `
    const tries = [
      fetch("${target}/api/queues/pause", { method: "POST", mode: "no-cors", headers: { "content-type": "text/plain" }, body: '{"queue":"parked"}' }),
      fetch("${target}/api/queues/pause", { method: "POST", headers: { "content-type": "application/json" }, body: '{"queue":"parked"}' }),
      fetch("${target}/api/overview").then((r) => r.text()).then((t) => { document.getElementById("seen").textContent = t; }),
    ];
    Promise.allSettled(tries).then(() => { document.getElementById("state").textContent = "tried"; });`;
  const html = `<!doctype html><p id=state>trying</p><p id=seen>nothing</p><script>${script}</script>`;
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Response(html, { headers: { "content-type": "text/html" } }),
  });
  return { port: server.port, [Symbol.asyncDispose]: () => server.stop(true) };
}

describe("on another address", () => {
  test("nothing is told without the token, and a browser that had it keeps a cookie that no script reads", async ({
    another,
    open,
  }) => {
    const { program, url } = await another("--host", "0.0.0.0");
    const token = new URL(url).hash.slice("#token=".length);
    const base = `http://127.0.0.1:${new URL(url).port}`;
    expect(token.length).toBeGreaterThan(30);
    expect(program.stderr).toContain("TLS");
    expect((await fetch(`${base}/api/overview`)).status).toBe(401);
    expect((await fetch(`${base}/api/overview`, { headers: { cookie: "lease_ui=guess" } })).status).toBe(401);
    expect((await fetch(`${base}/api/overview`, { headers: { authorization: `Bearer ${token}` } })).status).toBe(200);
    const page = await open(base);
    await page.getByLabel("Token").fill("wrong");
    await page.getByRole("button", { name: "Open" }).click();
    await page.getByText("this is not the token").waitFor();
    await page.goto(`${base}/#token=${token}`);
    await page.reload();
    await page.locator("main .panel").first().waitFor();
    expect(page.url()).toBe(`${base}/`);
    const [cookie] = await page.context().cookies();
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: "Strict", name: "lease_ui" });
    expect(cookie?.value).not.toContain(token);
    expect((await program.end("SIGINT")).code).toBe(0);
  });
});

describe("read-only", () => {
  test("shows everything, offers nothing, and has no way to change anything", async ({ site, another, open }) => {
    const id = await site.enqueue(["-q", "parked"], "true");
    const { url } = await another("--read-only");
    const page = await open(`${url}jobs/${id}`);
    await page.locator(".page-head .state").waitFor();
    expect(await page.getByRole("button", { name: /Cancel|Retry|Enqueue/ }).count()).toBe(0);
    const origin = url.replace(/\/$/, "");
    for (const path of [
      "/jobs",
      "/jobs/cancel",
      "/jobs/retry",
      "/queues/pause",
      "/queues/resume",
      "/limits",
      "/schedules/run",
    ]) {
      const headers = { origin, "content-type": "application/json" };
      const answer = await fetch(`${origin}/api${path}`, {
        method: "POST",
        headers,
        body: JSON.stringify({ ids: [id], queue: "parked" }),
      });
      expect(answer.status).toBe(404);
    }
    expect((await site.job(id)).state).toBe("pending");
  });
});

describe("for everybody", () => {
  for (const colorScheme of ["light", "dark"] as const) {
    test(`axe finds nothing serious on any page, ${colorScheme}`, async ({ site, open }) => {
      const id = await site.script(["-q", "work", "--retries", "0"], "printf '\\033[31mred\\033[0m\\n'; exit 5");
      await site.reaches(id, "failed");
      await site.run(["schedule", "hourly", "--every", "1h", "--", "true"]);
      await site.run(["limit", "work", "5"]);
      for (const path of ["/", "/jobs", `/jobs/${id}`, "/queues", "/schedules", "/workers", "/failures"]) {
        const page = await open(path, { colorScheme, bypassCSP: true, reducedMotion: "reduce" });
        await page.locator("main .panel tbody, main .panel details, main .log .line").first().waitFor();
        await page.evaluate(axe.source);
        const found = await page.evaluate(async () => {
          const { axe: found_axe } = globalThis as unknown as {
            axe: { run(): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }> };
          };
          const { violations } = await found_axe.run();
          return violations.map(
            ({ id: rule, impact, nodes }) =>
              `${impact} ${rule}: ${nodes
                .map(({ html }) => html)
                .join(" ")
                .slice(0, 400)}`,
          );
        });
        expect(found.filter((text) => /^(?:serious|critical)/.test(text)).map((text) => `${path}: ${text}`)).toEqual(
          [],
        );
        await page.context().close();
      }
    });
  }

  test("a phone shows every page without scrolling sideways, and cuts no button off", async ({ site, open }) => {
    await site.run(["enqueue", "-q", "monthly-reports", "--", "true"]);
    await site.run(["pause", "monthly-reports"]);
    await site.run(["schedule", "nightly-backup", "--every", "10h", "--", "true"]);
    for (const path of ["/", "/jobs", "/queues", "/schedules", "/workers", "/failures"]) {
      const page = await open(path, { viewport: { width: 360, height: 740 } });
      await page.locator("main .panel").first().waitFor();
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(360);
      for (const shown of await page.locator("main td button:visible, nav [aria-current]").all()) {
        const { x = 0, width = Infinity } = (await shown.boundingBox()) ?? {};
        expect([path, await shown.textContent(), x >= 0, x + width <= 360]).toEqual([
          path,
          expect.any(String),
          true,
          true,
        ]);
      }
    }
  });
});
