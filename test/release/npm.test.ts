/**
 * `@lease/cli` as npm installs it: packed, installed from the tarballs alone in an empty folder, and used by its
 * launcher, which must not be noticed: words, input, exit codes, signals and a terminal are those of the executable.
 */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import manifest from "../../package.json" with { type: "json" };
import { packCommand } from "../../scripts/pack.ts";
import { TARGETS } from "../../scripts/release/targets.ts";
import { environment, LEASE, run, until } from "../cli/lease.ts";

const folder = mkdtempSync(join(tmpdir(), "lease-npm-"));
const here = TARGETS.find(({ os, cpu, libc }) => os === process.platform && cpu === process.arch && libc !== "musl");
const command = join(folder, "node_modules/.bin/lease");
const store = join(folder, "store/lease.db");
const env = { LEASE_STORE: store, HOME: folder };
const SLOW_MS = 120_000;
setDefaultTimeout(SLOW_MS);

beforeAll(async () => {
  const packed = join(folder, "packed");
  packCommand(packed, (target) => (target === here ? LEASE : null));
  const tarballs: string[] = [];
  for (const name of readdirSync(packed)) {
    const argv = ["npm", "pack", "--silent", "--pack-destination", folder];
    const { code, stdout } = await run(argv, { cwd: join(packed, name), within_ms: SLOW_MS });
    expect(code).toBe(0);
    tarballs.push(join(folder, stdout.trim()));
  }
  mkdirSync(join(folder, "store"), { mode: 0o700 });
  writeFileSync(join(folder, "package.json"), "{}");
  // No script may run, and nothing may be fetched: all there is are the tarballs.
  const argv = ["npm", "install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", ...tarballs];
  expect(await run(argv, { cwd: folder, within_ms: SLOW_MS })).toMatchObject({ code: 0 });
}, SLOW_MS);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const lease = (...words: string[]) => run([command, ...words], { cwd: folder, env });

/** A worker behind the launcher, with a job that has begun. */
async function working(line: string) {
  const { stdout } = await lease("enqueue", "-c", line);
  const child = Bun.spawn([command, "worker", "--max-jobs", "1", "--log-format", "json"], {
    cwd: folder,
    env: environment(env),
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  });
  const id = stdout.trim();
  const log = child.stderr.text();
  await until(() => readdirSync(folder).includes(`started-${id}`));
  return { child, id, log };
}

/** The worker has heard of it before the job may end: else there would be nothing that it waits for. */
async function draining(): Promise<void> {
  for (let told = ""; !told.includes('"state":"draining"');) {
    told = (await run([LEASE, "inspect", "workers", "--json"], { env })).stdout;
  }
}

describe("@lease/cli", () => {
  test("pins exactly the packages of its own version, and runs no script when it is installed", () => {
    const about = JSON.parse(readFileSync(join(folder, "node_modules/@lease/cli/package.json"), "utf8"));
    const pinned = Object.fromEntries(TARGETS.map(({ name }) => [`@lease/cli-${name}`, manifest.version]));
    expect(about).toMatchObject({ version: manifest.version, optionalDependencies: pinned });
    expect(about.scripts).toBeUndefined();
    const own = JSON.parse(readFileSync(join(folder, `node_modules/@lease/cli-${here?.name}/package.json`), "utf8"));
    expect(own).toMatchObject({ os: [process.platform], cpu: [process.arch] });
    expect(own.scripts).toBeUndefined();
  });

  test("says on its page what it is, and how it is begun with", () => {
    const page = readFileSync(join(folder, "node_modules/@lease/cli/README.md"), "utf8");
    expect(page).toMatch(
      /^# @lease\/cli\n\nA durable queue for shell jobs in one executable: [^\n*]+\.\n\n```sh\nlease enqueue -- /,
    );
    expect(page).toContain("`npx @lease/cli enqueue -- ./build.sh`");
  });

  test("runs a first job, with its words, its input and its exit code", async () => {
    expect(await lease("run", "-c", 'echo "it runs"; exit 7')).toMatchObject({ code: 7, stdout: "it runs\n" });
    const answer = await run([command, "run", "--", "cat"], { cwd: folder, env, stdin: "through two programs" });
    expect(answer).toMatchObject({ code: 0, stdout: "through two programs" });
    expect(await lease("enqeue")).toMatchObject({ code: 2, stderr: expect.stringContaining("did you mean") });
  });

  test("passes TERM on: the worker drains, and the job that runs is done", async () => {
    const { child, id, log } = await working("touch started-$LEASE_JOB_ID; while ! test -e go; do :; done; rm go");
    child.kill("SIGTERM");
    // It has heard of it before the job may end: else there would be nothing that it waits for.
    for (let told = ""; !told.includes('"state":"draining"');) {
      told = (await run([LEASE, "inspect", "workers", "--json"], { env })).stdout;
    }
    writeFileSync(join(folder, "go"), "");
    expect(await child.exited).toBe(0);
    expect(await log).toContain('"event":"ended"');
    expect((await lease("inspect", id, "--json")).stdout).toContain('"state":"completed"');
  });

  test("leaves Ctrl-C to the terminal: heard once by the worker it is a drain, heard twice it would be none", async () => {
    const id = (await lease("enqueue", "-c", "touch started-$LEASE_JOB_ID; while ! test -e go; do :; done; rm go"))
      .stdout;
    const child = Bun.spawn([command, "worker", "--max-jobs", "1"], {
      cwd: folder,
      env: environment({ ...env, TERM: "xterm" }),
      terminal: { cols: 90, rows: 30, data: () => {} },
    });
    await until(() => readdirSync(folder).includes(`started-${id.trim()}`));
    child.terminal?.write("\u0003");
    await draining();
    writeFileSync(join(folder, "go"), "");
    await child.exited;
    expect((await lease("inspect", id.trim(), "--json")).stdout).toContain('"state":"completed"');
  });

  test("ends by the signal that ended the executable", async () => {
    const { child, id } = await working("touch started-$LEASE_JOB_ID; exec sleep 60");
    child.kill("SIGQUIT");
    await child.exited;
    expect([child.exitCode, child.signalCode]).not.toEqual([0, null]);
    expect((await lease("inspect", id, "--json")).stdout).not.toContain('"state":"running"');
  });

  test("takes the executable that LEASE_BINARY names", async () => {
    const answer = await run([command, "a", "b"], { cwd: folder, env: { ...env, LEASE_BINARY: "/bin/echo" } });
    expect(answer).toEqual({ code: 0, stdout: "a b\n", stderr: "" });
    const missing = await run([command, "version"], { cwd: folder, env: { ...env, LEASE_BINARY: "/no/such" } });
    expect(missing).toMatchObject({ code: 125, stderr: expect.stringContaining("/no/such can't be started") });
    const place = await run([command, "version"], { cwd: folder, env: { ...env, LEASE_BINARY: folder } });
    expect(place).toMatchObject({ code: 125, stderr: expect.stringMatching(/^lease: .*can't be started: [^\n]*\n$/) });
  });

  test("gives it the terminal", async () => {
    let screen = "";
    const child = Bun.spawn([command, "inspect", "--color", "auto"], {
      cwd: folder,
      env: environment({ ...env, TERM: "xterm-256color" }),
      terminal: { cols: 90, rows: 30, data: (_terminal, bytes) => void (screen += new TextDecoder().decode(bytes)) },
    });
    expect(await child.exited).toBe(0);
    await until(() => screen.includes("\u001b["));
  });
});
