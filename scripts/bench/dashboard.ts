/**
 * What `lease ui` costs on a store of a million jobs that a worker works on: how soon the overview stands in a browser,
 * and how many questions the store is asked per second by one tab and by twenty, each of which shows something else.
 */

import { rmSync } from "node:fs";
import { dirname } from "node:path";
import { chromium, type Browser } from "playwright-core";
import { platform } from "#platform";
import { pageFiles } from "../../src/observe/dashboard/files.ts";
import { Dashboard } from "../../src/observe/dashboard/app.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { leaseBinary, median, newStorePath, openStore, plainFigure, skipped, startLease, times } from "./harness.ts";
import { fillStore } from "./large_store.ts";

const JOBS = 1_000_000;
const LOOKS = 7;
const TABS = 20;
/** A page that is opened asks all it needs at once, and pays for that in the seconds after. */
const [OPENED_MS, WATCHED_MS] = [10_000, 20_000];
const PATHS = ["/overview", "/jobs", "/queues", "/limits", "/schedules", "/workers", "/failures"];

/** From asking for the page until a person sees the figures; of it, until anything is painted. */
async function paint(browser: Browser, url: string): Promise<{ first_ms: number; figures_ms: number }> {
  const page = await (await browser.newContext()).newPage();
  const from_ms = performance.now();
  await page.goto(url);
  await page.locator(".figure strong").first().waitFor();
  const figures_ms = performance.now() - from_ms;
  const first_ms = await page.evaluate<number>("performance.getEntriesByName('first-contentful-paint')[0].startTime");
  await page.context().close();
  return { first_ms, figures_ms };
}

async function firstPaint(path: string): Promise<void> {
  const executable = process.env["CHROMIUM"] ?? Bun.which("chromium");
  if (executable === null) return skipped("dashboard, first paint", "there is no Chromium here");
  const ui = Bun.spawn([leaseBinary(), "ui", "--port", "0", "--store", path], { stdout: "pipe", stderr: "inherit" });
  const browser = await chromium.launch({ executablePath: executable, args: ["--no-sandbox"] });
  try {
    const { value } = await ui.stdout.getReader().read();
    const url = new TextDecoder().decode(value).trim();
    const looks = [];
    for (let look = 0; look < LOOKS; look++) looks.push(await paint(browser, url));
    const most = { at_most: 500 };
    plainFigure("dashboard, first paint", median(looks.map(({ first_ms }) => first_ms)), "ms", most);
    plainFigure("dashboard, figures stand", median(looks.map(({ figures_ms }) => figures_ms)), "ms", most);
  } finally {
    await browser.close();
    ui.kill();
    await ui.exited;
  }
}

/** As a tab follows what it shows, until it is told to end; says when there is something to be seen. */
async function follow(url: string, paths: readonly string[], end: AbortSignal, shown: () => void): Promise<void> {
  const query = paths.map((path) => `path=${encodeURIComponent(path)}`).join("&");
  const response = await fetch(`${url}/api/live?${query}`, { signal: end });
  try {
    for await (const part of response.body ?? []) if (Buffer.from(part).includes("data: ")) shown();
  } catch (error) {
    if (!end.aborted) throw error;
  }
}

/** What pages show: each kind of them, and then one job after the other, with what it printed. */
function pageOf(tab: number): string[] {
  const path = PATHS[tab];
  if (path !== undefined) return [path];
  const job = `/jobs/${JOBS - 2 * tab}`;
  return [job, `${job}/log?attempt=1&over`];
}

const named = (tabs: number) => (tabs === 1 ? "1 tab" : `${tabs} tabs`);

async function questions(path: string, tabs: number): Promise<number> {
  const store = await openStore(path);
  const dashboard = new Dashboard({
    store,
    clock: systemClock,
    about: { version: "bench", store: path, read_only: true },
    files: pageFiles(),
    readJob: () => {
      throw new Error("nobody writes here");
    },
    nextTime: () => Promise.resolve(null),
    random: systemRandom,
    trouble: (message) => console.error(message),
    names: ["127.0.0.1"],
    token: null,
  });
  const listener = platform.serve({ host: "127.0.0.1", port: 0, body_limit_bytes: 1_024, answer: dashboard.fetch });
  const end = new AbortController();
  const opened_ms = performance.now();
  const shown_ms = new Map<number, number>();
  const open = times(tabs, (tab) => {
    const shown = () => shown_ms.set(tab, shown_ms.get(tab) ?? performance.now() - opened_ms);
    return follow(`http://127.0.0.1:${listener.port}`, pageOf(tab), end.signal, shown);
  });
  await Bun.sleep(OPENED_MS);
  const [before, from_ms] = [dashboard.asked, performance.now()];
  await Bun.sleep(WATCHED_MS);
  const per_second = ((dashboard.asked - before) * 1_000) / (performance.now() - from_ms);
  const last_ms = shown_ms.size < tabs ? OPENED_MS : Math.max(...shown_ms.values());
  plainFigure(`dashboard, to open ${named(tabs)}`, (before * 1_000) / OPENED_MS, "per s", { at_most: 5 });
  plainFigure(`dashboard, ${named(tabs)} shown`, last_ms, "ms", { at_most: 1_000 });
  end.abort();
  await Promise.all(open);
  dashboard.stop();
  await listener.stop();
  await store.close();
  return per_second;
}

const path = newStorePath();
try {
  await fillStore(path, JOBS);
  await firstPaint(path);
  const worker = startLease(["worker", "-q", "*", "--quiet"], path);
  try {
    for (const tabs of [1, TABS])
      plainFigure(`dashboard, questions of ${named(tabs)}`, await questions(path, tabs), "per s", { at_most: 5 });
  } finally {
    worker.kill("SIGQUIT");
    await worker.exited;
  }
} finally {
  rmSync(dirname(path), { recursive: true, force: true });
}
