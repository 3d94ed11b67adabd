// Pictures of `lease ui` on a lively store: light, dark, and as on a phone.
//
//   bun scripts/screenshots.ts [--out DIR] [--all]   → DIR (docs/images), three pictures for the documents; --all takes every
//                                                      page in every look, as PNG
//
// Needs dist/lease (bun scripts/build.ts) and a Chromium ($CHROMIUM, or chromium on PATH).

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Database } from "bun:sqlite";
import { chromium, type Browser, type Page } from "playwright-core";

const root = join(import.meta.dir, "..");
const lease = join(root, "dist/lease");
const { values } = parseArgs({ options: { out: { type: "string" }, all: { type: "boolean" } } });
const out = values.out ?? join(root, "docs/images");
const LIVELY_MS = 9_000;

const folder = mkdtempSync(join(tmpdir(), "lease-pictures-"));
const env = {
  ...process.env,
  LEASE_STORE: join(folder, "lease.db"),
  PATH: `${join(root, "dist")}:${process.env["PATH"]}`,
};

async function run(...args: string[]): Promise<string> {
  const child = Bun.spawn([lease, ...args], { cwd: folder, env, stdout: "pipe", stderr: "inherit" });
  return (await child.stdout.text()).trim();
}

function start(...args: string[]): Bun.Subprocess<"ignore", "pipe", "ignore"> {
  return Bun.spawn([lease, ...args], { cwd: folder, env, stdin: "ignore", stdout: "pipe", stderr: "ignore" });
}

/** A build that says what it does, in colours, and a warning now and then. */
const BUILD = `lease beat --progress 5 --message configure >/dev/null
for n in $(seq 1 400); do
  printf '\\033[2m[%3d/400]\\033[0m \\033[32mcompiling\\033[0m src/module_%03d.c\\n' $n $n
  [ $((n % 23)) -eq 0 ] && printf '\\033[33mwarning:\\033[0m unused variable "x" in module_%03d.c:41\\n' $n >&2
  [ $((n % 10)) -eq 0 ] && lease beat --progress $((n / 4)) --message "compiling module_$n.c" >/dev/null
  sleep 0.12
done`;

const FLAKY = `echo 'connecting to db-2.internal:5432'; sleep 0.4; echo 'connection refused by db-2.internal:5432' >&2
[ "$LEASE_ATTEMPT" -ge 3 ] && { lease checkpoint "rows 1-9000 exported" >/dev/null; echo 'exported 9000 rows'; exit 0; }; exit 1`;

async function fill(): Promise<{ build: string; flaky: string }> {
  const lines = [
    ...times(900, (n) => ({ shell: `sleep 0.0${n % 7}; echo sent ${n}`, queue: "mail", task: "newsletter-11" })),
    ...times(260, (n) => ({ argv: ["./thumbnail.sh", `img_${1000 + n}.jpg`], queue: "media", priority: n % 3 })),
    ...times(8, (n) => ({ shell: `echo 'no such bucket: backup-${n}' >&2; exit 2`, queue: "backup", retries: 0 })),
    ...times(3, (n) => ({
      shell: `echo "timeout after ${30 + n}s talking to 10.0.0.${n}" >&2; exit 75`,
      queue: "sync",
      retries: 0,
    })),
    ...times(5, (n) => ({ argv: ["./report.sh", "--month", `2026-0${n + 1}`], queue: "reports", delay: `${n + 1}h` })),
  ];
  writeFileSync(join(folder, "thumbnail.sh"), "#!/bin/sh\necho resizing $1; sleep 0.2; echo done\n", {
    mode: 0o755,
  });
  writeFileSync(join(folder, "jobs.jsonl"), lines.map((line) => JSON.stringify(line)).join("\n"));
  await run("enqueue", "--from", "jobs.jsonl");
  const flaky = await run("enqueue", "-q", "sync", "-k", "export-orders", "--backoff", "1s", "-c", FLAKY);
  const build = await run("enqueue", "-q", "build", "-t", "release-1.4", "-p", "5", "-c", BUILD);
  await run("enqueue", "-q", "build", "-t", "release-1.4", "--after", build, "--", "./publish.sh", "1.4.0");
  await run("enqueue", "-q", "build", "-t", "docs", "-c", "for n in $(seq 90); do echo page $n; sleep 0.5; done");
  await run("enqueue", "-q", "gpu", "--", "python", "train.py", "--epochs", "30");
  await run("schedule", "nightly-backup", "--cron", "0 3 * * *", "-q", "backup", "--", "./backup.sh", "--full");
  await run("schedule", "poll-inbox", "--every", "10m", "-q", "mail", "--", "./poll.sh");
  await run("limit", "media", "4", "--rate", "600/1m");
  return { build, flaky };
}

/** An hour in which something happened, as it would be remembered. */
function addPast(): void {
  const database = new Database(env.LEASE_STORE);
  database.run("PRAGMA busy_timeout = 5000");
  const now_ms = Math.floor(Date.now() / 60_000) * 60_000;
  const add = database.prepare(
    "INSERT OR IGNORE INTO history VALUES (60000, ?1, 'mail', ?2, ?3, 0, 0, 0, ?2, ?4, 400, ?2, ?4, 900)",
  );
  let all = 0;
  for (let minute = 1; minute < 60; minute++) {
    const done = Math.round(620 + 240 * Math.sin(minute / 9) + 90 * Math.sin(minute * 1.7));
    add.run(now_ms - minute * 60_000, done, minute % 11 === 0 ? 60 : minute % 3, done * 90);
    all += done;
  }
  // What was done then is among all that was done.
  database.run("UPDATE tallies SET count = count + ?1 WHERE queue = 'mail' AND state IN ('all', 'completed')", [all]);
  database.close();
}

function times<T>(count: number, make: (n: number) => T): T[] {
  return Array.from({ length: count }, (_, n) => make(n));
}

interface Look {
  name: string;
  dark: boolean;
  width: number;
  height: number;
  path: string;
}

async function take(browser: Browser, url: string, { name, dark, width, height, path }: Look): Promise<void> {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? "dark" : "light",
    deviceScaleFactor: values.all ? 1 : 1.5,
  });
  const page: Page = await context.newPage();
  page.on("console", (message) => {
    if (message.type() === "error") console.error(`${name}: ${message.text()}`);
  });
  page.on("pageerror", (error) => console.error(`${name}: ${error}`));
  await page.goto(new URL(path, url).href);
  await page.waitForSelector("main table, main .log, main details, main .panel");
  await page.waitForTimeout(1_200);
  if (values.all) await page.screenshot({ path: join(out, `${name}.png`) });
  else await takeSmall(page, join(out, `${name}.webp`));
  await context.close();
}

/** A third of what a PNG takes. */
async function takeSmall(page: Page, path: string): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 82 });
  writeFileSync(path, Buffer.from(data, "base64"));
}

function looks(jobs: { build: string; flaky: string }): Look[] {
  const wide = { width: 1_360, height: 900 };
  const phone = { width: 400, height: 820 };
  const three: Look[] = [
    { name: "overview", dark: false, ...wide, path: "/" },
    { name: "job-dark", dark: true, ...wide, path: `/jobs/${jobs.build}` },
    { name: "phone", dark: false, ...phone, path: "/" },
  ];
  if (!values.all) return three;
  const paths = [
    "/",
    "/jobs",
    `/jobs/${jobs.build}`,
    `/jobs/${jobs.flaky}`,
    "/jobs?state=failed",
    "/queues",
    "/workers",
    "/schedules",
    "/failures",
  ];
  const nameOf = (path: string) => path.replaceAll(/[/?=]+/g, "-").replace(/^-$/, "-overview");
  return paths.flatMap((path) => [
    { name: `light${nameOf(path)}`, dark: false, ...wide, path },
    { name: `dark${nameOf(path)}`, dark: true, ...wide, path },
    { name: `phone${nameOf(path)}`, dark: path.length % 2 === 0, ...phone, path },
  ]);
}

mkdirSync(out, { recursive: true });
const jobs = await fill();
const started = [
  start("worker", "-j", "2", "--name", "mailer", "-q", "backup", "-q", "sync", "-q", "mail"),
  start("worker", "-j", "4", "--name", "media-1", "-q", "media"),
  start("worker", "-j", "2", "--name", "builder", "-q", "build"),
];
await Bun.sleep(LIVELY_MS);
addPast();
await run("pause", "reports");
const ui = start("ui", "--port", "0");
started.push(ui);
const reader = ui.stdout.getReader();
const url = new TextDecoder().decode((await reader.read()).value).trim();
const browser = await chromium.launch({
  executablePath: process.env["CHROMIUM"] ?? Bun.which("chromium") ?? "",
  args: ["--no-sandbox"],
});
try {
  for (const look of looks(jobs)) await take(browser, url, look);
} finally {
  await browser.close();
  for (const child of started) child.kill("SIGQUIT");
  await Promise.all(started.map((child) => child.exited));
  rmSync(folder, { recursive: true, force: true });
}
