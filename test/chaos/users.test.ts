/** Two real users on one machine: what one of them plants leads the other's worker nowhere, and kills nobody. */

import { afterAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { BINARY, inSite, until } from "../support/process.ts";

const OTHER = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
const possible = process.getuid?.() === 0 && Bun.spawnSync([...OTHER, "true"], { stderr: "ignore" }).exitCode === 0;
if (!possible) console.warn("SKIPPED: test/chaos/users.test.ts needs root and setpriv, to be two users");

/** Where both may write, as in /tmp. */
const shared = mkdtempSync(join(tmpdir(), "lease-users-"));
chmodSync(shared, 0o1777);
afterAll(() => rmSync(shared, { recursive: true }));

function asOther(script: string): void {
  const { exitCode, stderr } = Bun.spawnSync([...OTHER, "sh", "-c", script], { cwd: shared });
  if (exitCode !== 0) throw new Error(`the other user could not do it: ${stderr.toString()}`);
}

describe.skipIf(!possible)("a folder for logs", () => {
  const PLANTS: [what: string, script: (folder: string) => string][] = [
    ["is another user's", () => ":"],
    ["is another user's, with a link to a file of ours", (folder) => `ln -s ${shared}/private ${folder}/1.1.log`],
    [
      "is another user's, with a file that they can read",
      (folder) => `touch ${folder}/1.1.log; chmod 666 ${folder}/1.1.log`,
    ],
    ["is another user's, with a pipe that nobody reads", (folder) => `mkfifo ${folder}/1.1.log`],
  ];
  test.each(PLANTS)("that %s is refused before any job runs", (what, plant) =>
    inSite(async (site) => {
      writeFileSync(join(shared, "private"), "precious", { mode: 0o600 });
      const folder = join(shared, `logs ${what}`.replaceAll(/\W/g, "-"));
      asOther(`mkdir ${folder}; ${plant(folder)}`);
      const id = await site.script([], "echo secret");
      const { code, stderr } = await site.run(["worker", "--until-empty", "--log-dir", folder]);
      expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining("belongs to another user") });
      expect(readFileSync(join(shared, "private"), "utf8")).toBe("precious");
      expect(await site.job(id)).toMatchObject({ state: "pending", attempts: 0 });
    }),
  );

  test("of ours in which somebody planted something before is not followed, and the job runs all the same", () =>
    inSite(async (site) => {
      writeFileSync(join(shared, "private"), "precious", { mode: 0o600 });
      const folder = site.path("logs");
      mkdirSync(folder, { mode: 0o700 });
      chmodSync(site.folder, 0o755);
      chmodSync(folder, 0o777);
      asOther(`ln -s ${shared}/private ${folder}/1.1.log; mkfifo ${folder}/2.1.log; umask 0; echo > ${folder}/3.1.log`);
      chmodSync(folder, 0o755);
      for (let job = 1; job <= 4; job++) await site.script([], `echo secret ${job}`);
      const { code, stderr } = await site.run(["worker", "--until-empty", "--log-dir", folder]);
      expect(code).toBe(0);
      expect(stderr.match(/job [123]: its log file can't be written/g)).toHaveLength(3);
      expect(readFileSync(join(shared, "private"), "utf8")).toBe("precious");
      expect(readFileSync(join(folder, "3.1.log"), "utf8")).toBe("\n");
      expect(readFileSync(join(folder, "4.1.log"), "utf8")).toContain("secret 4");
    }));
});

describe.skipIf(!possible)("a process of another user", () => {
  test("that bears the marks of our job is not killed by our sweep, and our job runs again", () =>
    inSite(async (site) => {
      const id = await site.script([], "[ $LEASE_ATTEMPT = 2 ] || exec sleep 300");
      const worker = await site.workerReady();
      await site.childOf(id);
      const marks = { LEASE_STORE_ID: await site.store.storeId(), LEASE_JOB_ID: String(id), LEASE_TOKEN: "1" };
      const other = site.spawn([...OTHER, "sleep", "300"], { env: marks, cwd: "/" });
      await until("it is itself", () => readFileSync(`/proc/${other.pid}/comm`, "utf8") === "sleep\n");
      await worker.end("SIGKILL");
      expect((await site.run(["worker", "--until-empty"])).code).toBe(0);
      expect(await site.job(id)).toMatchObject({ state: "completed", attempts: 2 });
      expect(existsSync(`/proc/${other.pid}/exe`)).toBe(true);
      await other.end("SIGKILL");
    }));
});

describe.skipIf(!possible)("a watchdog of another user", () => {
  test("leaves the job of our dead worker to us until its lease is over: it can't kill what is left of it", () =>
    inSite(async (site) => {
      const id = await site.script([], "[ $LEASE_ATTEMPT = 2 ] || exec sleep 300");
      const worker = await site.workerReady();
      const pid = await site.childOf(id);
      chmodSync(site.folder, 0o777);
      for (const name of readdirSync(site.folder))
        if (/^lease\.db(-wal|-shm)?$/.test(name)) chmodSync(site.path(name), 0o666);
      await worker.end("SIGKILL");
      await site.spawn([...OTHER, BINARY, "watchdog", "--once", "--trust-store", "--store", site.location]).ended;
      expect((await site.store.jobs([id]))[0]?.state.name).toBe("running");
      chmodSync(site.folder, 0o700);
      expect((await site.run(["worker", "--until-empty", "--trust-store"])).code).toBe(0);
      expect(existsSync(`/proc/${pid}/exe`)).toBe(false);
      expect((await site.store.attempts(id)).map(({ end }) => end?.cause)).toEqual(["lost", "success"]);
    }));
});

describe.skipIf(!possible)("a scratch folder", () => {
  test("that another user put in the place of the worker's gives them no result, and takes none from them", () =>
    inSite(async (site) => {
      const private_file = join(shared, "private");
      writeFileSync(private_file, "precious", { mode: 0o600 });
      const wait = "until [ -e go ]; do echo; sleep 0.02; done; echo mine > $LEASE_OUTPUT; true";
      const id = await site.script([], `echo $LEASE_OUTPUT > where; ${wait}`);
      chmodSync(site.folder, 0o777);
      const worker = site.worker("--once", "--trust-store");
      const output = await site.written("where", /output/);
      const folder = join(output, "..");
      asOther(
        `mv ${site.location}-scratch ${site.folder}/away; mkdir -p ${folder}; chmod 777 ${site.location}-scratch ${folder}; ln -s ${private_file} ${output}`,
      );
      writeFileSync(site.path("go"), "");
      expect((await worker.ended).code).toBe(0);
      chmodSync(site.folder, 0o700);
      expect(await site.job(id)).toMatchObject({ state: "completed", output: null });
    }));
});

describe.skipIf(!possible)("a process of a job that became another user's", () => {
  const unkillable = async () => {
    const folder = mkdtempSync(join(tmpdir(), "lease-users-"));
    const store = join(folder, "lease.db");
    const lease = (...words: string[]) =>
      Bun.spawn([...OTHER, BINARY, ...words, "--store", store], { cwd: folder, stdout: "pipe", stderr: "pipe" });
    const said = async (...words: string[]) => new Response(lease(...words).stdout).text();
    try {
      // A program by which anybody becomes root, as sudo is.
      copyFileSync("/usr/bin/setpriv", join(folder, "become"));
      chmodSync(join(folder, "become"), 0o4755);
      chownSync(folder, 65534, 65534);
      const script = "echo $LEASE_ATTEMPT >> ran; ./become --reuid 0 sleep 300 >/dev/null 2>&1 & echo $! > pid; exit 3";
      const flags = ["--retries", "1", "--backoff", "none", "-c", script];
      expect(await said("enqueue", ...flags)).toBe("1\n");
      const worker = lease("worker", "--grace", "0s");
      const job = async () => JSON.parse(await said("inspect", "1", "--json"));
      await until("it is given back", async () => (await job()).attempts === 2 && (await job()).state === "retrying", {
        within_ms: 20_000,
        step_ms: 200,
      });
      const pid = readFileSync(join(folder, "pid"), "utf8").trim();
      expect(await job()).toMatchObject({
        error: `sleep (pid ${pid}) of an earlier attempt can't be killed`,
        history: [{ cause: "exit" }, { cause: "returned" }],
      });
      expect(readFileSync(join(folder, "ran"), "utf8")).toBe("1\n");
      worker.kill("SIGTERM");
      expect(await worker.exited).toBe(0);
      expect(await new Response(worker.stderr).text()).toContain(`can't kill sleep (pid ${pid})`);
      process.kill(Number(pid), "SIGKILL");
    } finally {
      rmSync(folder, { recursive: true });
    }
  };
  test("is named, and the job is not run again on this machine while it lives", unkillable, 30_000);
});
