/**
 * An older lease and this one on one store at once: the older one made it and works on it when this one comes, migrates it
 * and works beside it. Every job runs once, and the older one is told, and refused from then on. The older one is run from
 * the sources of its commit, where the history is at hand.
 */

import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { newSchema } from "../support/postgres.ts";
import { BINARY, Program, until } from "../support/process.ts";

setDefaultTimeout(120_000);

const ROOT = resolve(import.meta.dir, "../..");
/** The last before schema 9. */
const COMMIT = "2f5aac5fdf2a409433116b896c65577c1947797a";
const git = (...words: string[]) => Bun.spawnSync(["git", "-C", ROOT, ...words], { stderr: "ignore" });
const possible = git("cat-file", "-e", `${COMMIT}^{commit}`).exitCode === 0;
if (!possible) console.warn("SKIPPED: an older and a newer lease on one store, for which the history of git is needed");

const folder = mkdtempSync(join(tmpdir(), "lease-beside-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function older(): string {
  const place = join(folder, "older");
  mkdirSync(place);
  const archive = git("archive", COMMIT, "src", "package.json", "tsconfig.json").stdout;
  Bun.spawnSync(["tar", "-x", "-C", place], { stdin: archive });
  symlinkSync(join(ROOT, "node_modules"), join(place, "node_modules"));
  return join(place, "src/main.ts");
}
const OLDER = possible ? [process.execPath, older()] : [];
const NEWER = [BINARY];

const ENV = { PATH: process.env["PATH"] ?? "", HOME: folder, NO_COLOR: "1" };
const JOBS = 40;

describe.each(["SQLite", "PostgreSQL"])("on %s", (engine) => {
  test.skipIf(!possible)("an older and a newer worker share the jobs, and each job runs once", async () => {
    const schema = engine === "SQLite" ? null : await newSchema();
    const site = mkdtempSync(join(folder, "site-"));
    const store = schema?.url ?? join(site, "lease.db");
    const start = (lease: readonly string[], command: string, ...words: string[]) =>
      new Program([...lease, command, "--store", store, ...words], { cwd: site, env: ENV });
    const lease = async (...words: Parameters<typeof start>) => start(...words).ended;
    const job = ["--lease", "5s", "--", "sh", "-c", "echo $LEASE_JOB_ID >> ran; sleep 0.05"];
    const ids = Array.from({ length: JOBS + 1 }, (_, index) => String(index + 1));
    const ran = () => readFileSync(join(site, "ran"), { encoding: "utf8", flag: "a+" }).split("\n").filter(Boolean);

    writeFileSync(join(site, "numbers"), ids.slice(1).join("\n"));
    expect(await lease(OLDER, "enqueue", "--from", "numbers", "--lines", ...job, "{}")).toMatchObject({ code: 0 });
    const old_worker = start(OLDER, "worker", "-j", "2", "--poll", "100ms", "--drain", "1s");
    await until("the older one works", () => ran().length >= 5, { within_ms: 30_000 });
    // This migrates it.
    expect(await lease(NEWER, "enqueue", ...job)).toMatchObject({ code: 0, stdout: `${JOBS + 1}\n` });
    expect(await lease(NEWER, "worker", "--until-empty", "-j", "2")).toMatchObject({ code: 0 });
    old_worker.signal("SIGTERM");
    await old_worker.ended;
    expect(await lease(NEWER, "wait", "--queue", "default", "--timeout", "20s")).toMatchObject({ code: 0 });

    expect(ran().toSorted()).toEqual(ids.toSorted());
    const audit = await lease(NEWER, "doctor", "--audit", "--json");
    expect({ code: audit.code, told: audit.code === 0 ? "" : audit.stdout }).toEqual({ code: 0, told: "" });
    const refused = await lease(OLDER, "enqueue", "--", "true");
    expect(refused.code).toBe(125);
    expect(refused.stderr).toContain("use a newer lease");
    await schema?.drop();
  });
});
