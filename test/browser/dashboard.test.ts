/** The dashboard as a person uses it: looking, filtering, following a log, and changing what happens. */

import { describe, expect } from "bun:test";
import { writeFileSync } from "node:fs";
import { dashboardTest } from "./browser.ts";

const test = dashboardTest();

/** Waits for a file that the test makes: so each line comes when it is expected, and not before. */
const until = (path: string) => `while [ ! -e ${path} ]; do sleep 0.02; done`;

describe("the page of a job", () => {
  test("shows what it prints while it prints it, with what came on stderr marked", async ({ site, open }) => {
    const go = site.path("go-on");
    const id = await site.script(["-q", "work"], `echo first; ${until(go)}; echo second; echo oh no >&2`);
    const page = await open(`/jobs/${id}`);
    await page.locator(".line", { hasText: "first" }).waitFor();
    expect(await page.getByText("second", { exact: true }).count()).toBe(0);
    writeFileSync(go, "");
    await page.locator(".line", { hasText: "second" }).waitFor();
    await page.locator(".line.err", { hasText: "oh no" }).waitFor();
    expect(await page.locator(".line.err").count()).toBe(1);
    await page.locator(".state.is-completed").first().waitFor();
  });

  test("cancels a job that runs", async ({ site, open }) => {
    const id = await site.script(["-q", "work"], "echo up; exec sleep 60");
    const page = await open(`/jobs/${id}`);
    await page.locator(".line", { hasText: "up" }).waitFor();
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.getByLabel("Reason").fill("wrong branch");
    await page.getByRole("button", { name: "Cancel the job" }).click();
    await page.locator(".page-head .is-cancelled").waitFor();
    expect(await site.job(id)).toMatchObject({ state: "cancelled", reason: "wrong branch" });
  });

  test("runs a failed job again, and shows both attempts as bars", async ({ site, open }) => {
    const go = site.path("repaired");
    const id = await site.script(["-q", "work", "--retries", "0"], `echo trying; [ -e ${go} ]`);
    await site.reaches(id, "failed");
    const page = await open(`/jobs/${id}`);
    await page.locator(".notice.is-bad").waitFor();
    writeFileSync(go, "");
    await page.getByRole("button", { name: "Retry" }).click();
    await page.locator(".page-head .is-completed").waitFor();
    expect(await page.locator(".attempts li").count()).toBe(2);
    expect(await page.locator(".attempts .tone-failed").innerText()).toBe("exit 1");
    const tracks = await page.locator(".attempts .track").all();
    const widths = await Promise.all(tracks.map(async (track) => (await track.boundingBox())?.width));
    expect(new Set(widths).size).toBe(1);
    await page.locator(".attempts button").first().click();
    await page.getByText("Output of attempt 1").waitFor();
  });

  test("says why a job does not run", async ({ site, open }) => {
    const id = await site.enqueue(["-q", "nobody"], "true");
    const page = await open(`/jobs/${id}`);
    await page.getByText("no worker serves queue nobody").waitFor();
  });

  test("enqueues a job like it, with its folder and environment", async ({ site, open }) => {
    const id = await site.script(
      ["-q", "work", "--env", "SECRET=s3cret", "-t", "copies"],
      'echo "got ${#SECRET} letters"; exit 0',
    );
    await site.reaches(id, "completed");
    const page = await open(`/jobs/${id}`);
    await page.getByRole("button", { name: "Enqueue one like this" }).click();
    expect(await page.content()).not.toContain("s3cret");
    await page.getByLabel("Priority").fill("7");
    await page.getByRole("button", { name: "Enqueue", exact: true }).click();
    await page.waitForURL((url) => url.pathname !== `/jobs/${id}`);
    await page.locator(".line", { hasText: "got 6 letters" }).waitFor();
    const copy = await site.job(Number(page.url().split("/").pop()));
    expect(copy).toMatchObject({ priority: 7, task: "copies", argv: (await site.job(id)).argv, queue: "work" });
  });

  test("changes a job that waits, only in what was said", async ({ site, open }) => {
    const id = await site.enqueue(["-q", "parked", "-t", "kept", "--retries", "1"], "true");
    const page = await open(`/jobs/${id}`);
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Priority").fill("9");
    await page.getByLabel("Delay from now").fill("soon");
    await page.getByRole("button", { name: "Change", exact: true }).click();
    await page.getByText('delay "soon" is not a duration').waitFor();
    await page.getByLabel("Delay from now").fill("2h");
    await page.getByRole("button", { name: "Change", exact: true }).click();
    await page.locator(".page-head .is-scheduled").waitFor();
    expect(await site.job(id)).toMatchObject({
      priority: 9,
      state: "scheduled",
      task: "kept",
      retries: 1,
      queue: "parked",
    });
  });

  test("tells what is wrong with a job that can't be enqueued, and enqueues nothing", async ({ site, open }) => {
    const page = await open("/jobs");
    await page.getByRole("button", { name: "New job" }).click();
    await page.getByLabel("Shell line").fill("true");
    await page.getByLabel("Delay").fill("soon");
    const before = (await site.store.list({ limit: 1, newest_first: true }))[0]?.id;
    await page.getByRole("button", { name: "Enqueue", exact: true }).click();
    await page.getByText('delay "soon" is not a duration').waitFor();
    expect((await site.store.list({ limit: 1, newest_first: true }))[0]?.id).toBe(before);
  });

  test("says that nobody works on it any more, instead of what it said last", async ({ site, open }) => {
    const id = await site.enqueue(["-q", "stranded"], "true");
    await site.store.acquire({
      holder: "gone",
      host: "elsewhere",
      lease_ms: 1,
      count: 1,
      queues: ["stranded"],
      task: null,
    });
    const page = await open(`/jobs/${id}`);
    await page.locator(".notice.is-warn", { hasText: "waits for a sweep" }).waitFor();
  });

  test("of a job that there is not says so", async ({ open }) => {
    const page = await open("/jobs/999999");
    await page.getByText("there is no job 999999").waitFor();
  });
});

describe("the list of jobs", () => {
  test("is filtered by state, and the filter is in the address", async ({ site, open, url }) => {
    const failed = await site.script(["-q", "work", "--retries", "0"], "exit 9");
    const fine = await site.enqueue(["-q", "work"], "true");
    await Promise.all([site.reaches(failed, "failed"), site.reaches(fine, "completed")]);
    const page = await open("/jobs");
    await page.locator(`a[href="/jobs/${fine}"]`).first().waitFor();
    await page.getByRole("link", { name: "Failed", exact: true }).click();
    await page.waitForURL(`${url}/jobs?state=failed`);
    await page.locator(`a[href="/jobs/${failed}"]`).first().waitFor();
    await page.locator(`a[href="/jobs/${fine}"]`).first().waitFor({ state: "detached" });
    await page.reload();
    await page.locator(`a[href="/jobs/${failed}"]`).first().waitFor();
    expect(await page.locator("tbody .is-completed").count()).toBe(0);
    await page.goBack();
    await page.locator(`a[href="/jobs/${fine}"]`).first().waitFor();
  });

  test("shows on a phone by which state it is filtered", async ({ open }) => {
    const page = await open("/jobs?state=cancelled", { viewport: { width: 360, height: 740 } });
    const box = await page.getByRole("link", { name: "Cancelled", exact: true }).boundingBox();
    expect((box?.x ?? 360) + (box?.width ?? 360)).toBeLessThanOrEqual(360);
  });

  test("is searched with the keyboard: by command, key, task and error", async ({ site, open }) => {
    const command = await site.enqueue(["-q", "parked"], "echo", "needle in a haystack");
    const key = await site.enqueue(["-q", "parked", "-k", "needle-key"], "true");
    const task = await site.enqueue(["-q", "parked", "-t", "needle-task"], "true");
    const error = await site.enqueue(["-q", "work", "--retries", "0"], "no-such-needle-command");
    await site.enqueue(["-q", "parked"], "echo", "hay");
    await site.reaches(error, "failed");
    const page = await open("/");
    await page.locator("main .panel").first().waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("Needle");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/jobs\?q=Needle$/);
    await page.locator("tbody tr").nth(3).waitFor();
    const ids = await page.locator("tbody .job-id").allInnerTexts();
    expect(ids.map(Number)).toEqual([error, task, key, command]);
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    expect(await page.evaluate("document.activeElement.textContent")).toBe(String(task));
    await page.keyboard.press("k");
    await page.keyboard.press("Enter");
    await page.waitForURL(new RegExp(`/jobs/${error}$`));
    await page.keyboard.press("?");
    await page.getByRole("dialog").getByText("next and previous row").waitFor();
  });
});

describe("queues", () => {
  test("are paused and resumed, and every tab sees it", async ({ site, open }) => {
    await site.enqueue(["-q", "work"], "true");
    const [page, other] = await Promise.all([open("/queues"), open("/queues")]);
    await page.getByRole("button", { name: "pause queue work" }).click();
    await other.locator("tr", { hasText: "work" }).locator(".tag").waitFor();
    expect(await site.store.pausedQueues()).toEqual(["work"]);
    await other.getByRole("button", { name: "resume queue work" }).click();
    await page.locator("tr", { hasText: "work" }).locator(".tag").waitFor({ state: "detached" });
    expect(await site.store.pausedQueues()).toEqual([]);
  });
});

describe("limits", () => {
  test("are set for a queue, shown with what is in use, and taken away", async ({ site, open }) => {
    await site.enqueue(["-q", "parked"], "true");
    const page = await open("/queues");
    await page.getByRole("button", { name: "limit queue parked" }).click();
    await page.getByLabel("Jobs at a time").fill("3");
    await page.getByLabel("Starts per time").fill("soon");
    await page.getByRole("button", { name: "Set" }).click();
    await page.getByText("is not a rate").waitFor();
    await page.getByLabel("Starts per time").fill("10/1m");
    await page.getByRole("button", { name: "Set" }).click();
    await page.getByLabel("Limits").getByText("0 of 3").waitFor();
    expect(await site.store.limits()).toMatchObject([{ name: "parked", most: 3, rate: { count: 10, per_ms: 60_000 } }]);
    await page.getByRole("button", { name: "change limit parked" }).click();
    await page.getByLabel("Jobs at a time").fill("");
    await page.getByLabel("Starts per time").fill("");
    await page.getByRole("button", { name: "Set" }).click();
    await page.getByLabel("Limits").getByText("as many run as workers have slots").waitFor();
    expect(await site.store.limits()).toEqual([]);
  });
});

describe("schedules", () => {
  test("tell when they come next, and are run at once, paused and resumed", async ({ site, open }) => {
    const { code } = await site.run(["schedule", "hourly", "--every", "1h", "-q", "work", "--", "echo", "tick"]);
    expect(code).toBe(0);
    const page = await open("/schedules");
    const row = page.locator("tr", { hasText: "hourly" });
    await row.getByText(/in (?:59m|1h)/).waitFor();
    await row.getByRole("button", { name: "Run now: schedule hourly" }).click();
    await page.locator(".toasts a").click();
    await page.locator(".line", { hasText: "tick" }).waitFor();
    await page.goBack();
    await row.getByRole("button", { name: "pause schedule hourly" }).click();
    await row.locator(".tag").waitFor();
    expect((await site.store.schedules())[0]?.paused).toBe(true);
    await row.getByRole("button", { name: "resume schedule hourly" }).click();
    await row.locator(".tag").waitFor({ state: "detached" });
    expect((await site.store.schedules())[0]?.paused).toBe(false);
  });
});

describe("failures", () => {
  test("are grouped by what they say, and run again together", async ({ site, open }) => {
    const failing = (n: number) => site.script(["-q", "work", "--retries", "0"], `echo "lost host ${n}00" >&2; exit 4`);
    const ids = await Promise.all([failing(1), failing(2), failing(3)]);
    await Promise.all(ids.map((id) => site.reaches(id, "failed")));
    const page = await open("/failures");
    const group = page.locator("details", { hasText: "exit code 4: lost host …" });
    await group.locator("summary").click();
    await group.getByRole("button", { name: "Retry 3 failed jobs" }).click();
    await Promise.all(ids.map((id) => site.reaches(id, "failed", { token: 2 })));
  });
});

describe("an address that leads nowhere", () => {
  test("is told by a page that leads on, and not by what programs are told", async ({ open, url }) => {
    const headers = { accept: "text/html" };
    expect((await fetch(`${url}/nothing/here`, { headers })).status).toBe(404);
    expect(await (await fetch(`${url}/nothing/here`)).json()).toEqual({ error: "there is nothing here" });
    const page = await open("/nothing/here");
    await page.getByText("There is no such page").waitFor();
    await page.locator(".link.is-idle").waitFor();
    await page.locator("main").getByRole("link", { name: "Overview" }).click();
    await page.locator(".figure").first().waitFor();
  });
});

describe("names and numbers of any size", () => {
  test("leave what stands behind a queue on the page, and forty queues without a worker are one notice", async ({
    site,
    open,
  }) => {
    const long = `long-${"name-".repeat(30)}`;
    const names = [long, ...Array.from({ length: 40 }, (_, n) => `unserved-${n}`)];
    const ids = await Promise.all(names.map((queue) => site.enqueue(["-q", queue], "true")));
    const page = await open("/queues");
    const buttons = page.getByRole("button", { name: `pause queue ${long}` });
    const box = await buttons.boundingBox();
    expect((box?.x ?? 0) + (box?.width ?? 0)).toBeWithin(1, 1_280);
    const overview = await open("/");
    await overview.locator(".notice", { hasText: "that no worker serves" }).waitFor();
    expect(await overview.locator(".notice").count()).toBeLessThan(5);
    await site.store.cancel(ids, null);
  });

  test("leave the page that is open in sight on a phone", async ({ open }) => {
    const page = await open("/failures", { viewport: { width: 390, height: 740 } });
    const [nav, link] = await Promise.all([
      page.locator("nav").boundingBox(),
      page.locator("nav [aria-current]").boundingBox(),
    ]);
    // What fades out at the end is as wide as this.
    expect((link?.x ?? 0) + (link?.width ?? 0)).toBeLessThanOrEqual((nav?.x ?? 0) + (nav?.width ?? 0) - 27);
  });
});

describe("the overview", () => {
  test("keeps up with what happens, and leads to it", async ({ site, open }) => {
    const go = site.path("overview-go");
    const page = await open("/");
    const id = await site.script(["-q", "work"], `lease beat --progress 40 --message halfway; ${until(go)}`);
    const row = page.getByLabel("Running", { exact: true }).locator("tr", { hasText: String(id) });
    await row.getByText("halfway", { exact: true }).waitFor();
    writeFileSync(go, "");
    await row.waitFor({ state: "detached" });
  });
});
