/**
 * A real Chromium for tests, one for all of a file, and a page for each; where there is none, the tests say so and are
 * skipped. A page that meets an error of its own, or asks anybody but the dashboard for something, fails its test.
 */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";
import { Site, type Program } from "../support/process.ts";

const CHROMIUM = process.env["CHROMIUM"] ?? Bun.which("chromium") ?? Bun.which("chromium-browser");
if (CHROMIUM === null) {
  console.warn(
    "SKIPPED: there is no Chromium to try the dashboard in; install it (apt-get install chromium), or set CHROMIUM",
  );
}

/** Pages of jobs that were tricked into another name: this one leads to this machine in every browser that we start. */
export const OTHER_NAME = "dashboard.rebound.example";

/** The same, for a site that is not ours, whose pages may ask for what they like. */
export const STRANGER = "evil.example";

export interface Visitor {
  site: Site;
  /** Where the dashboard is, without a slash at the end. */
  url: string;
  open(path: string, options?: BrowserContextOptions): Promise<Page>;
  /** Starts another dashboard on the same store; answers what it printed. */
  another(...flags: string[]): Promise<{ program: Program; url: string }>;
}

let browser: Browser;
const pages: Page[] = [];
let visitor: Visitor;

async function openPage(url: string, options: BrowserContextOptions = {}): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const { origin } = new URL(url);
  page.on("pageerror", (error) => strays.push(`${error}`));
  page.on("dialog", (dialog) => strays.push(`a dialog: ${dialog.message()}`));
  page.on("request", (request) => {
    if (!origin.includes(STRANGER) && new URL(request.url()).origin !== origin) strays.push(request.url());
  });
  pages.push(page);
  await page.goto(url);
  return page;
}

let strays: string[] = [];

/** To be called once at the top of a file: a store, a worker of two slots, a dashboard, and a browser. */
export function dashboardTest(): (title: string, body: (visitor: Visitor) => Promise<void>) => void {
  setDefaultTimeout(60_000);
  beforeAll(async () => {
    if (CHROMIUM === null) return;
    const site = await Site.open();
    const another = async (...flags: string[]) => {
      const program = site.start(["ui", "--port", "0", ...flags]);
      return { program, url: (await program.line(/^http:/)).trim() };
    };
    const args = ["--no-sandbox", `--host-resolver-rules=MAP ${OTHER_NAME} 127.0.0.1, MAP ${STRANGER} 127.0.0.1`];
    [browser] = await Promise.all([
      chromium.launch({ executablePath: CHROMIUM, args }),
      site.workerReady("-j", "2", "-q", "work"),
    ]);
    const url = (await another()).url.replace(/\/$/, "");
    visitor = {
      site,
      url,
      another,
      open: (path, options) => openPage(path.startsWith("/") ? url + path : path, options),
    };
  });
  afterAll(async () => {
    await browser?.close();
    await visitor?.site.close();
  });
  return (title, body) => {
    test.skipIf(CHROMIUM === null)(title, async () => {
      strays = [];
      try {
        await body(visitor);
        expect(strays).toEqual([]);
      } finally {
        for (const page of pages.splice(0)) await page.context().close();
      }
    });
  };
}
